//! PHT: a concurrent persistent hash table of strings (SLACH §5), under redis' commands.
//!
//! ```text
//! request -> bucket of the key, locked -> looked at | refused, or logged and changed -> unlocked -> reply
//! ```
//! The table has redis' strings and whole numbers, each element by itself. A command of several keys acts as several
//! commands of one key. `SET` has `NX`, `XX` and valkey's `IFEQ value`, which is compare-and-set. Nothing expires.
//!
//! Invariants:
//! - A command looks at and changes an element under the lock of the element's bucket, so changes of an element are
//!   serial.
//! - R1: a reply rests on the last change of every bucket that the reply shows; a refusal rests on the last change of
//!   the refusing bucket.
//! - O6: a bucket whose change panics is refused until the table is opened again.
//!
//! Neighbours: `table` has the buckets, `bucket` the elements of a bucket, `persistence` the persistence;
//! [`crate::server`] calls, and programs with a table in their own process.

mod bucket;
mod persistence; // persist
mod table;

use std::sync::Arc;

use ensile_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ensile_objects::{ApplicationLog, ObjectGuard, ObjectsBuilder, ObjectsResult}; // persist
use ensile_resp::{HEADER_BYTES_MAX, ReplyEncoder};
use ensile_serving::glob;

use crate::arguments::{argument, key};
use crate::number::{integer, number};
use crate::service::{
    CallError, CallResult, CommandRequest, KeptObjects, READ, REPLY_BYTES, RestsOn, Service, ServiceCommand,
    WRITE, check_length, command,
};
use bucket::PhtBucket;
pub(crate) use table::PhtBuckets; // persist
use table::{BUCKETS, PhtChange};

/// A persistent hash table.
#[derive(Debug)]
pub struct PersistentTable {
    buckets: Arc<PhtBuckets>,
    log: ApplicationLog, // persist
}

/// Longest pattern in bytes: a pattern is matched under a bucket's lock, in time proportional to the product of its
/// length and the key's length.
const PATTERN_BYTES_MAX: usize = 256;
const PATTERN_TOO_LONG: &str = "a pattern has 256 bytes at most";

/// Largest size of the keys that a step of a scan shows, in bytes. Behind half of this size no further bucket begins.
const SCAN_BYTES: usize = REPLY_BYTES - 4 * HEADER_BYTES_MAX;

/// Default number of keys that a step of a scan looks at.
const SCAN_COUNT: u64 = 10;

impl Service for PersistentTable {
    const NAME: &'static str = "ensile-pht";

    const COMMANDS: &'static [ServiceCommand<Self>] = &[
        command("GET", 2, READ, (1, 1, 1), Self::get, "Shows a value"),
        command("SET", -3, WRITE, (1, 1, 1), Self::set, "Sets a value: NX, XX, IFEQ value"),
        command(
            "INCR",
            2,
            WRITE,
            (1, 1, 1),
            |table, request, reply| table.add_one(request, 1, reply),
            "Adds one to a whole number",
        ),
        command("MGET", -2, READ, (1, -1, 1), Self::get_many, "Shows values"),
        command("DEL", -2, WRITE, (1, -1, 1), Self::delete, "Deletes elements"),
        command("EXISTS", -2, READ, (1, -1, 1), Self::exists, "Counts the keys that are there"),
        command("INCRBY", 3, WRITE, (1, 1, 1), Self::add, "Adds to a whole number"),
        command(
            "DECR",
            2,
            WRITE,
            (1, 1, 1),
            |table, request, reply| table.add_one(request, -1, reply),
            "Takes one from a whole number",
        ),
        command("STRLEN", 2, READ, (1, 1, 1), Self::length, "Tells a value's length"),
        command("SCAN", -2, READ, (0, 0, 0), Self::scan, "Shows keys from a cursor on: MATCH, COUNT"),
        command("DBSIZE", 1, READ, (0, 0, 0), Self::size, "Counts all elements"),
    ];

    fn persistent_objects(&self) -> &dyn KeptObjects {
        &self.log // persist
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        self.buckets.prefetch(keys);
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("elements", self.buckets.elements.read().0),
            ("poisoned_buckets", self.buckets.guarded.poisoned_count()),
        ]
    }
}

/// Condition under which a value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueCondition<'c> {
    Always,
    Absent,
    Present,
    Equals(&'c [u8]),
}

impl ValueCondition<'_> {
    fn holds(self, value: Option<&[u8]>) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => value.is_none(),
            Self::Present => value.is_some(),
            Self::Equals(expected) => value == Some(expected),
        }
    }
}

impl PersistentTable {
    /// Opens the table of a folder; the folder has the service's name from then on. The contents of the folder are
    /// loaded and replayed first.
    ///
    /// # Errors
    /// The folder is damaged, in use, or belongs to another program, such as another service.
    pub fn open(objects: ObjectsBuilder) -> ObjectsResult<Self> {
        let buckets = Arc::new(PhtBuckets::new());
        let log = objects.application_name(Self::NAME).open_application(Arc::clone(&buckets))?; // persist
        Ok(Self { buckets, log })
    }

    /// Shows a value, or `None`, under its bucket's lock: `show` must be short, and must call nothing of this table.
    ///
    /// # Errors
    /// [`CallError::PoisonedBucket`]: the key's bucket is poisoned.
    #[inline]
    pub fn look<R>(
        &self,
        key: &[u8],
        rests: &RestsOn,
        show: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, CallError> {
        let key = self.buckets.key(key);
        Ok(show(self.buckets.guarded.lock(key.bucket, rests)?.get(key)))
    }

    /// As [`look`](Self::look), for several keys in order: `show` gets a key's number and the key's value. The memory
    /// of sixteen keys is waited for at once, so a key takes a fraction of the time of a single look. Meanwhile up to
    /// as many buckets are locked.
    ///
    /// # Errors
    /// [`CallError::PoisonedBucket`] at the first key whose bucket is poisoned; later keys are not shown.
    pub fn look_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        rests: &RestsOn,
        mut show: impl FnMut(usize, Option<&[u8]>),
    ) -> CallResult {
        let mut number = 0;
        self.buckets.look_at_many(keys.into_iter(), rests, |key, bucket| {
            show(number, bucket.get(key));
            number += 1;
            Ok(())
        })
    }

    /// Sets a value.
    ///
    /// # Errors
    /// [`CallError::TooLong`], [`CallError::Objects`], and [`CallError::PoisonedBucket`]: nothing was
    /// changed.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8], rests: &RestsOn) -> CallResult {
        self.set_if(key, value, ValueCondition::Always, rests).map(drop)
    }

    /// Deletes an element, if present. True if the element was present.
    ///
    /// # Errors
    /// [`CallError::Objects`], and [`CallError::PoisonedBucket`]: nothing was changed.
    pub fn remove(&self, key: &[u8], rests: &RestsOn) -> Result<bool, CallError> {
        let key = self.buckets.key(key);
        let mut bucket = self.buckets.guarded.lock(key.bucket, rests)?;
        let is_there = bucket.get(key).is_some();
        if is_there {
            self.change(&mut bucket, PhtChange::Delete(key), rests)?;
        }
        Ok(is_there)
    }

    /// Logs a change of a locked bucket, and makes the change.
    #[inline]
    fn change(
        &self,
        bucket: &mut ObjectGuard<'_, PhtBucket>,
        change: PhtChange<'_>,
        rests: &RestsOn,
    ) -> CallResult {
        let logged = || persistence::log(&self.log, change); // persist
        let more = bucket.change(rests, logged, |bucket| bucket.apply(change))?;
        debug_assert!(more.is_some(), "an impossible change is refused before the change is logged");
        self.buckets.elements.add(more.unwrap_or(0), bucket.last());
        Ok(())
    }

    fn get(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        self.look(argument(request, 1), &request.rests, |value| show(value, reply))
    }

    fn length(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        let length = self.look(argument(request, 1), &request.rests, |value| value.map_or(0, <[u8]>::len))?;
        reply.integer(length as i64);
        Ok(())
    }

    fn set(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        if self.set_if(argument(request, 1), argument(request, 2), condition(request)?, &request.rests)? {
            reply.simple("OK");
        } else {
            reply.null();
        }
        Ok(())
    }

    /// Sets a value if the condition holds. True if the condition holds.
    fn set_if(
        &self,
        key: &[u8],
        value: &[u8],
        condition: ValueCondition<'_>,
        rests: &RestsOn,
    ) -> Result<bool, CallError> {
        for (what, bytes, limit) in
            [("a key", key.len(), KEY_BYTES_MAX), ("a value", value.len(), VALUE_BYTES_MAX)]
        {
            if bytes > limit {
                return Err(CallError::TooLong { what, bytes, limit });
            }
        }
        let key = self.buckets.key(key);
        let mut bucket = self.buckets.guarded.lock(key.bucket, rests)?;
        if condition != ValueCondition::Always && !condition.holds(bucket.get(key)) {
            return Ok(false);
        }
        self.change(&mut bucket, PhtChange::Set(key, value), rests)?;
        Ok(true)
    }

    fn add(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        self.add_one(request, integer(argument(request, 2))?, reply)
    }

    fn add_one(&self, request: &CommandRequest<'_>, by: i64, reply: &mut ReplyEncoder<'_>) -> CallResult {
        let key = self.buckets.key(key(request, 1)?);
        let mut bucket = self.buckets.guarded.lock(key.bucket, &request.rests)?;
        // A stored value that is no number has no sum with zero.
        bucket.sum(key, 0).ok_or(CallError::NotInteger)?;
        let sum = bucket.sum(key, by).ok_or(CallError::Overflow)?;
        reply.integer(sum);
        self.change(&mut bucket, PhtChange::Add(key, by), &request.rests)?;
        debug_assert_eq!(bucket.sum(key, 0), Some(sum), "the reply shows the stored sum");
        Ok(())
    }

    fn get_many(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        reply.array(request.len() - 1);
        self.buckets.look_at_many(request.iter().skip(1), &request.rests, |key, bucket| {
            show(bucket.get(key), reply);
            check_length(reply)
        })
    }

    fn delete(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        let mut deleted = 0;
        for (done, key) in request.iter().skip(1).enumerate() {
            let was_there = match self.remove(key, &request.rests) {
                Err(why) if deleted > 0 => {
                    let (keys, why) = (request.len() - 1, Box::new(why));
                    return Err(CallError::Partly { deleted, done, keys, why });
                }
                removed => removed?,
            };
            deleted += i64::from(was_there);
            debug_assert!(deleted <= done as i64 + 1, "a key deletes one element at most");
        }
        reply.integer(deleted);
        Ok(())
    }

    fn exists(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        let mut there = 0;
        self.look_many(request.iter().skip(1), &request.rests, |_, value| {
            there += i64::from(value.is_some());
        })?;
        debug_assert!(there < request.len() as i64, "a key counts once");
        reply.integer(there);
        Ok(())
    }

    /// Shows keys from a cursor on. A cursor is the number of the bucket to go on from. A bucket is shown whole, so a
    /// step may show more keys than requested.
    fn scan(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        self.scan_within(SCAN_BYTES, request, reply)
    }

    /// As [`scan`](Self::scan), with keys of `limit` bytes at most, their headers in the reply included.
    fn scan_within(
        &self,
        limit: usize,
        request: &CommandRequest<'_>,
        reply: &mut ReplyEncoder<'_>,
    ) -> CallResult {
        let from: u64 = number(argument(request, 1)).map_err(|_| CallError::Cursor)?;
        let (mut pattern, mut count) = (None, SCAN_COUNT);
        for at in (2..request.len()).step_by(2) {
            let value = request.get(at + 1).ok_or(CallError::Syntax)?;
            match argument(request, at).to_ascii_uppercase().as_slice() {
                b"MATCH" if value.len() > PATTERN_BYTES_MAX => {
                    return Err(CallError::Argument(PATTERN_TOO_LONG));
                }
                b"MATCH" => pattern = Some(value),
                b"COUNT" => count = number(value).ok().filter(|count| *count > 0).ok_or(CallError::Syntax)?,
                _ => return Err(CallError::Syntax),
            }
        }
        let (mut keys, mut seen) = (ShownKeys::with_limit(limit), 0);
        let mut next = from;
        while seen < count && next < BUCKETS && keys.bytes < limit / 2 {
            let bucket = self.buckets.guarded.lock(next, &request.rests)?;
            let shown = |key: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, key));
            if !keys.add(bucket.iter().map(|(key, _)| key).filter(|key| shown(key))) {
                if !keys.keys.is_empty() {
                    // The bucket begins the next step.
                    break;
                }
                return Err(CallError::BucketTooLong { bucket: next, limit, next: cursor(next + 1) });
            }
            seen += bucket.len() as u64;
            next += 1;
        }
        debug_assert!(keys.bytes <= limit, "W2: the keys of a step fit into a reply");
        debug_assert!(next > from || from >= BUCKETS, "a step goes on, so a scan ends");
        let keys = keys.keys;
        reply.array(2);
        reply.bulk(cursor(next).to_string().as_bytes());
        reply.array(keys.len());
        keys.iter().for_each(|key| reply.bulk(key));
        Ok(())
    }

    fn size(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        let (elements, epoch) = self.buckets.elements.read();
        request.rests.note(epoch); // persist
        reply.integer(elements as i64);
        Ok(())
    }
}

/// Cursor of a scan that goes on from this bucket: 0 behind the last bucket, as the end of a scan.
fn cursor(next: u64) -> u64 {
    if next < BUCKETS { next } else { 0 }
}

/// Keys of whole buckets that a step of a scan shows.
struct ShownKeys {
    keys: Vec<Box<[u8]>>,
    /// Bytes of the reply: limit, and so far.
    limit: usize,
    bytes: usize,
}

impl ShownKeys {
    fn with_limit(limit: usize) -> Self {
        Self { keys: Vec::new(), limit, bytes: 0 }
    }

    /// Adds all keys of a bucket, or no key if the keys do not fit. True if added.
    fn add<'k>(&mut self, bucket: impl Iterator<Item = &'k [u8]>) -> bool {
        let (keys_before, bytes_before) = (self.keys.len(), self.bytes);
        for key in bucket {
            self.bytes += key.len() + HEADER_BYTES_MAX;
            if self.bytes > self.limit {
                self.keys.truncate(keys_before);
                self.bytes = bytes_before;
                debug_assert_eq!(
                    self.keys.iter().map(|key| key.len() + HEADER_BYTES_MAX).sum::<usize>(),
                    self.bytes,
                    "a bucket is shown whole or not at all"
                );
                return false;
            }
            self.keys.push(key.into());
        }
        true
    }
}

/// Writes a value, or null without a value.
fn show(value: Option<&[u8]>, reply: &mut ReplyEncoder<'_>) {
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

/// Condition from the options of `SET`: at most one option.
fn condition<'r>(request: &CommandRequest<'r>) -> Result<ValueCondition<'r>, CallError> {
    let Some(option) = request.get(3) else { return Ok(ValueCondition::Always) };
    match (option.to_ascii_uppercase().as_slice(), request.get(4), request.len()) {
        (b"NX", None, _) => Ok(ValueCondition::Absent),
        (b"XX", None, _) => Ok(ValueCondition::Present),
        (b"IFEQ", Some(expected), 5) => Ok(ValueCondition::Equals(expected)),
        _ => Err(CallError::Syntax),
    }
}

#[cfg(test)]
mod tests;
