//! A process whose slices begin and end when another one says so: the words between them.
//!
//! Neighbours: [`crate::system::processes`] is the parent's side; the driver waits here in a child.

use std::io::{BufRead as _, Write as _};

/// The slice's lead-in begins.
pub(crate) const START: &str = "start";
/// Its window opens.
pub(crate) const OPEN: &str = "open";
/// It is over.
pub(crate) const CLOSE: &str = "close";
/// In a child: answers the parent.
pub(crate) fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    if writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err() {
        // The conducting process is gone.
        std::process::exit(1);
    }
}

/// In a child: waits for a word of the parent; ends the process if the parent has ended.
pub(crate) fn await_word(word: &str) {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(1..) if line.trim_end() == word => {}
        _ => std::process::exit(1),
    }
}
