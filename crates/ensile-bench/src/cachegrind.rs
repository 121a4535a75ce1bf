//! This program again as a process of its own: under cachegrind, to count what it does, or alone, for what it says.
//!
//! Neighbours: [`crate::siren`] and [`crate::slach`] count with it what a call costs.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result};

const VALGRIND: &str = "valgrind";
/// The last level that is simulated: one for all machines, of lines of 64 bytes.
pub(crate) const LAST_LEVEL: &str = "--LL=16777216,16,64";

/// What cachegrind has counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) instructions: f64,
    /// Of the last level, instructions and data.
    pub(crate) misses: f64,
}

/// Whether there is a valgrind.
pub(crate) fn is_there() -> bool {
    let mut version = Command::new(VALGRIND);
    let version = version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Runs this program with these words under cachegrind, which writes into `folder`, and reads what that has counted.
pub(crate) fn count(words: &[String], folder: &Path) -> Result<Counted> {
    let file = folder.join("cachegrind.out");
    let program = this_program()?;
    let mut valgrind = Command::new(VALGRIND);
    valgrind
        .args(["--tool=cachegrind", "--cache-sim=yes", LAST_LEVEL])
        .arg(format!("--cachegrind-out-file={}", file.display()))
        .arg(program.get_program())
        .args(words);
    let output = valgrind.output().map_err(Failure::io("starting valgrind"))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    let text = std::fs::read_to_string(&file).map_err(Failure::io(format!("reading {}", file.display())))?;
    counted(&text).ok_or_else(|| failed("cachegrind's file has no summary"))
}

/// Runs this program with these words, and reads the number that it prints.
pub(crate) fn said_alone(words: &[String]) -> Result<f64> {
    let mut child = this_program()?;
    let output = child.args(words).output().map_err(Failure::io("starting this program again"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let number = said.trim().parse::<f64>().ok().filter(|_| output.status.success());
    number.ok_or_else(|| failed(&String::from_utf8_lossy(&output.stderr)))
}

/// The sums of a file of cachegrind's: a line names the events, another has their sums.
fn counted(text: &str) -> Option<Counted> {
    let line = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin));
    let (names, sums) = (line("events:")?.split_whitespace(), line("summary:")?.split_whitespace());
    let sums: Vec<(&str, f64)> =
        names.zip(sums).map(|(name, sum)| Some((name, sum.parse().ok()?))).collect::<Option<_>>()?;
    let of = |name: &str| sums.iter().find(|sum| sum.0 == name).map(|sum| sum.1);
    Some(Counted { instructions: of("Ir")?, misses: of("ILmr")? + of("DLmr")? + of("DLmw")? })
}

fn this_program() -> Result<Command> {
    std::env::current_exe().map(Command::new).map_err(Failure::io("looking for this program"))
}

fn failed(why: &str) -> Failure {
    Failure::io("running this program to count what it does")(std::io::Error::other(why.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Counted, counted};

    #[test]
    fn sums_are_read_by_the_names_of_events() {
        let text = "desc: LL cache: 16777216 B\ncmd: x\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nfl=a\n1 2 3\n\
                    summary: 1000 9 4 300 20 5 100 6 2\n";
        assert_eq!(counted(text), Some(Counted { instructions: 1_000.0, misses: 11.0 }));
        assert_eq!(counted("events: Ir\nsummary: 7\n"), None, "no caches were simulated");
        assert_eq!(counted("events: Ir ILmr DLmr DLmw\nsummary: 7 x 1 1\n"), None);
    }
}
