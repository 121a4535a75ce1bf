//! Keys of any type: presence, names, walks, and the contents of databases.
//!
//! Neighbours: [`crate::model::contents`] exchanges contents; `strings` has the values.

use std::ops::ControlFlow;

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;
use ensile_serving::glob;

use super::arguments::{check_key, check_pattern, whole};
use super::found::FoundTexts;
use super::scan::{self, ScanOptions, ScanStep};
use super::{CommandError, CommandResult, DataCall};
use crate::blocking::Arrival;
use crate::model::keyspace::ValueSlot;
use crate::model::stored_value::{Kind, NewValue, StoredValue};
use crate::model::{DATABASES, contents, packed};

/// Length of all keys after which a step of `SCAN` ends, in bytes. The reply is then within its limit.
const SCAN_BYTES_MAX: usize = 16 << 20;
/// Longest string whose `OBJECT ENCODING` is `embstr`, in bytes.
const EMBEDDED_BYTES_MAX: usize = 44;

/// `DEL key ..`, `UNLINK key ..`
pub(crate) fn delete(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let mut deleted = 0;
    for key in call.arguments(1) {
        let slot = call.keyspace.slot(key)?;
        deleted += i64::from(slot.header.is_some());
        call.keyspace.remove(&slot, key)?;
    }
    reply.integer(deleted);
    Ok(())
}

/// `EXISTS key ..`, `TOUCH key ..`: a key counts as often as it is named.
pub(crate) fn exists(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let mut present = 0;
    for key in call.arguments(1) {
        present += i64::from(call.keyspace.summary(key)?.is_some());
    }
    reply.integer(present);
    Ok(())
}

/// `TYPE key`
pub(crate) fn type_of(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let value = call.keyspace.summary(call.argument(1))?;
    reply.simple(value.map_or("none", |value| value.header.kind.name()));
    Ok(())
}

/// `RENAME key newkey`
pub(crate) fn rename(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    move_value(call, true)?;
    reply.simple("OK");
    Ok(())
}

/// `RENAMENX key newkey`
pub(crate) fn rename_absent(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let is_moved = move_value(call, false)?;
    reply.integer(i64::from(is_moved));
    Ok(())
}

/// Moves a value to another key. False if the other key is present and is not to be replaced.
fn move_value(call: &mut DataCall<'_, '_>, replaces: bool) -> Result<bool, CommandError> {
    let (from, to) = (call.argument(1), call.argument(2));
    check_key(to)?;
    let ValueSlot { slot, value } = call.keyspace.value_slot(from)?;
    let Some(value) = value else { return Err(CommandError::NoSuchKey) };
    if from == to {
        return Ok(replaces);
    }
    let target = call.keyspace.slot(to)?;
    if !replaces && target.header.is_some() {
        return Ok(false);
    }
    call.keyspace.detach(&slot, from)?;
    call.keyspace.write(&target, to, NewValue { header: value.header, bytes: &value.bytes })?;
    call.keyspace.note_appeared(value.header.kind, to);
    Ok(true)
}

/// `COPY source destination [DB number] [REPLACE]`
pub(crate) fn copy(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (from, to) = (call.argument(1), call.argument(2));
    check_key(to)?;
    let source = call.keyspace.database;
    let (mut database, mut replaces, mut at) = (source, false, 3);
    while at < call.request.len() {
        if is_called(call.argument(at), "REPLACE") {
            replaces = true;
        } else if is_called(call.argument(at), "DB") && at + 1 < call.request.len() {
            database = database_number(call.argument(at + 1))?;
            at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    if database == source && from == to {
        return Err(CommandError::Text("source and destination objects are the same"));
    }
    let value = call.keyspace.get(from)?;
    call.keyspace.select(database);
    let target = call.keyspace.slot(to)?;
    let may_copy = replaces || target.header.is_none();
    let value = value.filter(|_| may_copy);
    if let Some(value) = &value {
        let header = call.keyspace.copied_header(value)?;
        call.keyspace.write(&target, to, NewValue { header, bytes: &value.bytes })?;
        call.keyspace.note_appeared(header.kind, to);
    }
    reply.integer(i64::from(value.is_some()));
    Ok(())
}

/// `MOVE key database`
pub(crate) fn move_key(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (key, database) = (call.argument(1), database_number(call.argument(2))?);
    let source = call.keyspace.database;
    if database == source {
        return Err(CommandError::Text("source and destination objects are the same"));
    }
    let ValueSlot { slot, value } = call.keyspace.value_slot(key)?;
    call.keyspace.select(database);
    let target = call.keyspace.slot(key)?;
    let value = value.filter(|_| target.header.is_none());
    if let Some(value) = &value {
        call.keyspace.write(&target, key, NewValue { header: value.header, bytes: &value.bytes })?;
        call.keyspace.note_appeared(value.header.kind, key);
        call.keyspace.select(source);
        call.keyspace.detach(&slot, key)?;
    }
    reply.integer(i64::from(value.is_some()));
    Ok(())
}

fn database_number(text: &[u8]) -> Result<u32, CommandError> {
    let (number, least, most) = (whole(text)?, i64::from(i32::MIN), i64::from(i32::MAX));
    if !(least..=most).contains(&number) {
        return Err(CommandError::OutOfRange { least, most });
    }
    existing_database(number)
}

fn existing_database(number: i64) -> Result<u32, CommandError> {
    u32::try_from(number).ok().filter(|number| *number < DATABASES).ok_or(CommandError::NoSuchDatabase)
}

/// `KEYS pattern`
pub(crate) fn keys(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let pattern = check_pattern(call.argument(1))?;
    let mut found = FoundTexts::default();
    call.keyspace.walk(0, |at| {
        if !at.is_expired && glob::matches(pattern, at.key) {
            found.push(at.key);
        }
        // The reply is refused as too large.
        if found.is_beyond_reply() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    found.write_array(reply);
    Ok(())
}

/// `SCAN cursor [MATCH pattern] [COUNT number] [TYPE name]`. A step ends early after [`SCAN_BYTES_MAX`].
pub(crate) fn scan(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let cursor = scan::cursor(call.argument(1))?;
    let options = ScanOptions::read(call, 2, true)?;
    let (mut found, mut step) = (FoundTexts::default(), ScanStep::new(options.count, SCAN_BYTES_MAX));
    call.keyspace.walk(cursor, |at| {
        if !step.takes(at.hash, found.bytes()) {
            return ControlFlow::Break(());
        }
        let is_wanted = !at.is_expired
            && options.matches(at.key)
            && options.type_name.is_none_or(|name| is_called(name, at.header.kind.name()));
        if is_wanted {
            found.push(at.key);
        }
        ControlFlow::Continue(())
    })?;
    step.write(&found, reply);
    Ok(())
}

/// `RANDOMKEY`: the first key at or behind a random hash.
pub(crate) fn random_key(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let from = ensile_base::random::Random::unpredictable().next_u64();
    let mut found = None;
    for begin in [from, 0] {
        if found.is_none() {
            call.keyspace.walk(begin, |at| {
                if at.is_expired {
                    return ControlFlow::Continue(());
                }
                found = Some(at.key.to_vec());
                ControlFlow::Break(())
            })?;
        }
    }
    match found {
        Some(key) => reply.bulk(&key),
        None => reply.null(),
    }
    Ok(())
}

/// `DBSIZE`
pub(crate) fn size(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let counts = call.keyspace.key_counts()?;
    reply.integer(counts.keys);
    Ok(())
}

/// Checks the option of `FLUSHDB` and `FLUSHALL`: both ways empty a database at once.
fn check_flush_option(call: &DataCall<'_, '_>) -> CommandResult {
    let is_known = |word: &[u8]| is_called(word, "ASYNC") || is_called(word, "SYNC");
    if call.request.len() > 2 || !call.arguments(1).all(is_known) {
        return Err(CommandError::Syntax);
    }
    Ok(())
}

/// `FLUSHDB [ASYNC | SYNC]`
pub(crate) fn flush(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    check_flush_option(call)?;
    let database = call.keyspace.database;
    contents::abandon(call.keyspace.tx, call.keyspace.model, database)?;
    reply.simple("OK");
    Ok(())
}

/// `FLUSHALL [ASYNC | SYNC]`
pub(crate) fn flush_all(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    check_flush_option(call)?;
    for database in 0..DATABASES {
        contents::abandon(call.keyspace.tx, call.keyspace.model, database)?;
    }
    reply.simple("OK");
    Ok(())
}

/// `SWAPDB first second`
pub(crate) fn swap(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let number = |at: usize, text: &'static str| {
        let number = whole(call.argument(at)).ok().filter(|number| i32::try_from(*number).is_ok());
        number.ok_or(CommandError::Text(text))
    };
    let (first, second) = (number(1, "invalid first DB index")?, number(2, "invalid second DB index")?);
    let (first, second) = (existing_database(first)?, existing_database(second)?);
    contents::swap(call.keyspace.tx, call.keyspace.model, first, second)?;
    for database in [first, second] {
        call.keyspace.effects.arrive(Arrival::Swapped(database));
    }
    reply.simple("OK");
    Ok(())
}

/// Name of a value's form in redis. The value alone decides.
fn encoding(value: &StoredValue) -> &'static str {
    let is_packed = value.header.object.is_none();
    match value.header.kind {
        Kind::String if ensile_resp::integer(&value.bytes).is_some() => "int",
        Kind::String if value.bytes.len() <= EMBEDDED_BYTES_MAX => "embstr",
        Kind::String => "raw",
        Kind::List => "quicklist",
        Kind::Hash | Kind::SortedSet if is_packed => "listpack",
        Kind::Set if is_packed && has_integers_only(&value.bytes) => "intset",
        Kind::Hash | Kind::Set => "hashtable",
        Kind::SortedSet => "skiplist",
        Kind::Stream => "stream",
    }
}

/// True if all members of a packed set are whole numbers.
fn has_integers_only(bytes: &[u8]) -> bool {
    packed::pairs(bytes).all(|pair| ensile_resp::integer(pair.element).is_some())
}

/// `OBJECT ENCODING | REFCOUNT | IDLETIME | FREQ key`, `OBJECT HELP`. The request has a known subcommand, with the
/// right number of arguments.
pub(crate) fn object(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let subcommand = call.argument(1).to_ascii_uppercase();
    if subcommand == b"HELP" {
        let lines =
            ["OBJECT <subcommand> <key>. Subcommands are:", "ENCODING", "REFCOUNT", "IDLETIME", "HELP"];
        reply.array(lines.len());
        lines.iter().for_each(|line| reply.simple(line));
        return Ok(());
    }
    let Some(value) = call.keyspace.get(call.argument(2))? else {
        reply.null();
        return Ok(());
    };
    match subcommand.as_slice() {
        b"ENCODING" => reply.bulk(encoding(&value).as_bytes()),
        b"REFCOUNT" => reply.integer(1),
        b"IDLETIME" => return Err(CommandError::Missing("OBJECT IDLETIME: the time of the last access")),
        subcommand => {
            debug_assert_eq!(subcommand, b"FREQ", "the table names the subcommands");
            return Err(CommandError::Text(
                "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
                 between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
    }
    Ok(())
}
