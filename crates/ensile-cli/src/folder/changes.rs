//! `ensile inspect --changes`: the log as lines of JSON, for change capture.
//!
//! Neighbours: [`ensile::folder::changes`] reads; `folder` has the command.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use ensile::folder::{self, Before, Change};
use serde_json::{Map, Value};

use super::figures::hex;
use super::output::{CommandEnd, exit_code, unless_failed};
use super::verdict::{not_proven, verdict};

/// Help text of `--changes`.
pub(super) const HELP: &str = "Print the durable changes in the log instead, one JSON object a line:

  epoch, tid   of the transaction; lines come in the order of their TIDs, which for each key is the order of its changes
  write        the change's place in its transaction: 0 begins one
  table        its name, null if the catalogue has none; table_id is its number in the files
  key          encoded, in hexadecimal
  before       what the key had, in hexadecimal; null: it was absent; left out: not recorded (Builder::before_images)
  after        what it has, in hexadecimal; null: it was deleted

Changes before the installed checkpoint's first epoch are left out. All files are read and judged first; if one is damaged, \
nothing is printed, and the exit code is 1. If the last process ended without a close, the end of its log is then written and \
synced once more, so that no power failure takes back what was printed. What a process-safe life left that has not been opened \
since is not among the lines, and is told on standard error. The memory taken is that of the changes of a few epochs.";

/// Prints the changes in a folder's log.
pub(super) fn print(path: &Path) -> CommandEnd {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut written = Ok(());
    let found = folder::changes(path, &mut |change| {
        written = writeln!(out, "{}", line(change));
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let found = unless_failed(path, found)?;
    match written.and_then(|()| out.flush()) {
        // The reader has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        written => unless_failed(path, written)?,
    }
    if found.is_whole() {
        // Acknowledged results that are missing in the printed lines.
        eprint!("{}", not_proven(&found));
    } else {
        eprint!("{}", verdict(path, &found, None));
    }
    Ok(exit_code(&found))
}

fn line(change: &Change<'_>) -> Value {
    let Change { tid, write, table, table_name, key, before, after } = *change;
    let mut line = Map::new();
    let mut put = |name: &str, value: Value| line.insert(name.to_owned(), value);
    put("epoch", tid.epoch().number().into());
    put("tid", tid.bits().into());
    put("write", write.into());
    put("table", table_name.into());
    put("table_id", table.into());
    put("key", hex(key).into());
    match before {
        Before::NotRecorded => None,
        Before::Absent => put("before", Value::Null),
        Before::Value(before) => put("before", hex(before).into()),
    };
    put("after", after.map(hex).into());
    Value::Object(line)
}
