//! Text of a transaction for a bug report. A transaction is one line.
//!
//! Neighbours: `findings` prints the lines.

use std::fmt::Write;

use ensile_base::Tid;

use crate::history::{History, Operation, Outcome, Value};

/// Maximum of written operations per transaction; a longer transaction ends with `..`.
const OPERATIONS_MAX: usize = 40;
/// Maximum of written elements per list; a longer list ends with the number of elements.
const ELEMENTS_MAX: usize = 32;

pub(super) struct Words<'h> {
    history: &'h History,
}

impl<'h> Words<'h> {
    pub(super) fn new(history: &'h History) -> Self {
        Self { history }
    }

    /// One line: number, session, times, outcome and operations.
    pub(super) fn transaction(&self, number: u32) -> String {
        let header = &self.history.headers()[number as usize];
        let mut line = format!("T{number} (session {}, {}..{}, ", header.session, header.begin, header.end);
        line += &match header.outcome {
            Outcome::Committed if header.tid == Tid::ZERO => "committed".to_owned(),
            Outcome::Committed => format!("committed {}", header.tid),
            Outcome::Snapshot => format!("snapshot {}", header.tid.epoch()),
            Outcome::Answered => "handed out an error".to_owned(),
            Outcome::Aborted => "aborted".to_owned(),
            Outcome::Unknown => "outcome unknown".to_owned(),
            Outcome::Lost => format!("{} lost in a crash", header.tid),
        };
        line.push_str("):");
        let mut in_scan = 0;
        for (at, operation) in self.history.operations(number as usize).enumerate() {
            if at == OPERATIONS_MAX {
                line.push_str(" ..");
                break;
            }
            // Writing to a string cannot fail.
            let _ = write!(line, " {}", operation_in_words(&operation));
            if let Operation::Scan { rows, .. } = operation {
                in_scan = rows + 1;
                line.push_str(if rows == 0 { "{}" } else { "{" });
            }
            if in_scan > 0 {
                in_scan -= 1;
                line.push_str(if in_scan == 0 && !line.ends_with("{}") { " }" } else { "" });
            }
        }
        line
    }
}

fn operation_in_words(operation: &Operation<'_>) -> String {
    match operation {
        Operation::Read { key, seen: Some(value) } => format!("read {key}={value}"),
        Operation::Read { key, seen: None } => format!("read {key}=absent"),
        Operation::ReadPresent { key } => format!("found {key}"),
        Operation::ReadList { key, seen } => format!("read {key}={}", list_in_words(seen)),
        Operation::Write { key, value } => format!("write {key}={value}"),
        Operation::Delete { key } => format!("delete {key}"),
        Operation::Append { key, element } => format!("append {key}+={element}"),
        Operation::Scan { range, predicate: None, .. } => format!("scan {}..{} ", range.start, range.end),
        Operation::Scan { range, predicate: Some(predicate), .. } => {
            format!("scan {}..{} for {}:{} ", range.start, range.end, predicate.name, predicate.argument)
        }
    }
}

pub(super) fn list_in_words(list: &[Value]) -> String {
    let mut words: Vec<String> = list.iter().take(ELEMENTS_MAX).map(Value::to_string).collect();
    if list.len() > ELEMENTS_MAX {
        words.push(format!(".. {} in all", list.len()));
    }
    format!("[{}]", words.join(" "))
}
