//! Steps of walks: `SCAN` over keys, `HSCAN` and `SSCAN` over elements. The cursor is a hash, the next step begins
//! there.
//!
//! Invariant: a key or an element that is present during the whole walk is shown at least once, as hashes do not
//! change. All with one hash are shown in one step.
//!
//! Neighbours: `keys`, `hashes` and `sets` walk.

use std::ops::ControlFlow;

use ensile_resp::{ReplyEncoder, double_text};
use ensile_serving::glob;

use super::arguments::{check_pattern, whole};
use super::found::FoundTexts;
use super::{CommandError, CommandResult, DataCall};
use crate::model::elements::{Access, Elements};
use crate::model::sorted_set::score_in;
use crate::model::stored_value::Kind;

/// Default number of keys or elements that a step looks at.
const COUNT: i64 = 10;
/// Largest number of keys or elements that a step looks at.
const COUNT_MAX: i64 = 1 << 20;
/// Length of all elements after which a step ends, in bytes. A reply has room for one value more.
const ELEMENT_BYTES_MAX: usize = 8 << 20;

/// The cursor of a request. Redis reads an empty cursor as 0.
pub(super) fn cursor(text: &[u8]) -> Result<u64, CommandError> {
    if text.is_empty() {
        return Ok(0);
    }
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(CommandError::Cursor)
}

/// Options of a step.
pub(super) struct ScanOptions<'r> {
    pattern: Option<&'r [u8]>,
    pub(super) count: i64,
    /// Name of the type of keys that are shown.
    pub(super) type_name: Option<&'r [u8]>,
}

impl<'r> ScanOptions<'r> {
    /// Reads the options of a request from an argument on. `TYPE` is an option of a walk over keys.
    pub(super) fn read(call: &DataCall<'r, '_>, from: usize, of_keys: bool) -> Result<Self, CommandError> {
        let mut options = Self { pattern: None, count: COUNT, type_name: None };
        for at in (from..call.request.len()).step_by(2) {
            let argument = call.request.get(at + 1).ok_or(CommandError::Syntax)?;
            match call.argument(at).to_ascii_uppercase().as_slice() {
                b"MATCH" => options.pattern = Some(check_pattern(argument)?),
                b"COUNT" => {
                    let count = Some(whole(argument)?).filter(|count| *count > 0);
                    options.count = count.ok_or(CommandError::Syntax)?.min(COUNT_MAX);
                }
                b"TYPE" if of_keys => options.type_name = Some(argument),
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(options)
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, text))
    }
}

/// A step under way.
pub(super) struct ScanStep {
    /// Number of keys or elements that the step looks at, those with the hash of the last one come beside.
    count: i64,
    /// Length of texts after which the step ends, in bytes.
    bytes_max: usize,
    seen: i64,
    last_hash: Option<u64>,
    /// Hash at which the next step begins; 0 at the end of the walk.
    next: u64,
}

impl ScanStep {
    pub(super) fn new(count: i64, bytes_max: usize) -> Self {
        debug_assert!(count > 0, "a step goes on");
        Self { count, bytes_max, seen: 0, last_hash: None, next: 0 }
    }

    /// Looks at the next hash, with this length of the texts so far in bytes. False if the step has ended before.
    pub(super) fn takes(&mut self, hash: u64, bytes: usize) -> bool {
        let is_full = self.seen >= self.count || bytes >= self.bytes_max;
        if is_full && self.last_hash != Some(hash) {
            debug_assert!(self.last_hash.is_none_or(|last| last < hash), "a walk goes upwards");
            self.next = hash;
            return false;
        }
        (self.seen, self.last_hash) = (self.seen + 1, Some(hash));
        true
    }

    /// Hash at which the next step begins; 0 at the end of the walk.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Writes the reply of a step: the cursor, and the found texts.
    pub(super) fn write(&self, found: &FoundTexts, reply: &mut ReplyEncoder<'_>) {
        reply.array(2);
        reply.bulk(self.next.to_string().as_bytes());
        found.write_array(reply);
    }
}

/// Values that a step shows behind the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanValues {
    None,
    Texts,
    Scores,
}

/// `HSCAN key cursor [MATCH pattern] [COUNT number]`, `SSCAN ..`, `ZSCAN ..`: a packed collection is shown in one step.
pub(super) fn scan_elements(
    call: &mut DataCall<'_, '_>,
    kind: Kind,
    values: ScanValues,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let (key, cursor) = (call.argument(1), cursor(call.argument(2))?);
    let elements = Elements::open(&mut call.keyspace, key, kind, Access::Read)?.into_collection();
    let mut found = FoundTexts::default();
    if elements.is_absent() {
        // Redis reads no options then.
        ScanStep::new(COUNT, 0).write(&found, reply);
        return Ok(());
    }
    let options = ScanOptions::read(call, 3, false)?;
    let mut step = ScanStep::new(options.count, ELEMENT_BYTES_MAX);
    let (mut text, mut failed, mut seen_bytes) = (Vec::new(), None, 0);
    // A comparison with a pattern takes the longer, the longer the pattern is.
    let steps_per_byte = options.pattern.map_or(1, |pattern| pattern.len().max(1));
    elements.visit(&mut call.keyspace, cursor, |hash, element, value| {
        if !step.takes(hash, seen_bytes) {
            return ControlFlow::Break(());
        }
        seen_bytes += element.len() * steps_per_byte + value.len();
        if options.matches(element) {
            found.push(element);
            match values {
                ScanValues::None => {}
                ScanValues::Texts => found.push(value),
                ScanValues::Scores => match score_in(value) {
                    Ok(score) => {
                        text.clear();
                        double_text(&mut text, score);
                        found.push(&text);
                    }
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                },
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    step.write(&found, reply);
    Ok(())
}
