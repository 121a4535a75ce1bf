//! This program again as a separate process: under cachegrind or callgrind for counts, or alone for output.
//!
//! Cachegrind has sums of all threads. Callgrind also has the inclusive cost of one function. So callgrind separates
//! the work of one thread from the concurrent work of other threads.
//!
//! Neighbours: [`crate::siren`] and [`crate::slach`] count the cost of a call here.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use ensile_bench::{Failure, Result};

const VALGRIND: &str = "valgrind";
/// The simulated last level: the same for all machines, with lines of 64 bytes.
pub(crate) const LAST_LEVEL: &str = "--LL=16777216,16,64";

/// Counts of cachegrind or callgrind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) instructions: f64,
    /// Misses of the last level, for instructions and data.
    pub(crate) misses: f64,
}

/// True if valgrind is installed.
pub(crate) fn is_there() -> bool {
    let mut version = Command::new(VALGRIND);
    let version = version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Runs this program with these words under cachegrind, and reads the counts. The file of counts goes into `folder`.
pub(crate) fn count(words: &[String], folder: &Path) -> Result<Counted> {
    let (text, _) = run("cachegrind", words, folder)?;
    counted(&text).ok_or_else(|| failed("cachegrind's file has no summary"))
}

/// Counts of callgrind: of the whole process, and inclusive of one function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CountedWithin {
    pub(crate) all: Counted,
    pub(crate) within: Counted,
    /// The number that the process printed.
    pub(crate) said: f64,
}

/// As [`count`] under callgrind. The function is called once, and `function` is a part of its name.
pub(crate) fn count_within(words: &[String], folder: &Path, function: &str) -> Result<CountedWithin> {
    let (text, output) = run("callgrind", words, folder)?;
    let said = number(&output)?;
    let all = counted(&text).ok_or_else(|| failed("callgrind's file has no summary"))?;
    let within = inclusive(&text, function);
    let within = within.ok_or_else(|| failed(&format!("callgrind's file has no one call of {function}")))?;
    Ok(CountedWithin { all, within, said })
}

/// Runs this program under a tool of valgrind that simulates caches. Returns the tool's file, and the program's output.
fn run(tool: &str, words: &[String], folder: &Path) -> Result<(String, Output)> {
    let file = folder.join(format!("{tool}.out"));
    let program = this_program()?;
    let mut valgrind = Command::new(VALGRIND);
    valgrind
        .args([&format!("--tool={tool}"), "--cache-sim=yes", LAST_LEVEL])
        .arg(format!("--{tool}-out-file={}", file.display()))
        .arg(program.get_program())
        .args(words);
    let output = valgrind.output().map_err(Failure::io("starting valgrind"))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    let text = std::fs::read_to_string(&file).map_err(Failure::io(format!("reading {}", file.display())))?;
    Ok((text, output))
}

/// Runs this program with these words, and reads the printed number.
pub(crate) fn said_alone(words: &[String]) -> Result<f64> {
    let mut child = this_program()?;
    let output = child.args(words).output().map_err(Failure::io("starting this program again"))?;
    number(&output)
}

/// The number that the program printed.
fn number(output: &Output) -> Result<f64> {
    let said = String::from_utf8_lossy(&output.stdout);
    let number = said.trim().parse::<f64>().ok().filter(|_| output.status.success());
    number.ok_or_else(|| failed(&String::from_utf8_lossy(&output.stderr)))
}

/// The sums of a file of cachegrind or callgrind: a line names the events, another line has their sums.
fn counted(text: &str) -> Option<Counted> {
    counted_of(text, line(text, "summary:")?.split_whitespace())
}

/// The inclusive cost of the only call of a function, from a file of callgrind. `None` if the function was called at no
/// place, or at several.
///
/// A function has a number. The name stands only at the first mention: `cfn=(630) name`, then `cfn=(630)`. A line that
/// names a called function is followed by a line with the number of calls, `calls=1 0`, and a line with a place and the
/// costs of all the calls. Zeros at the end of the line of costs are left out.
fn inclusive(text: &str, function: &str) -> Option<Counted> {
    let is_it = |line: &str| line.starts_with("fn=") || line.starts_with("cfn=");
    let named = text.lines().find(|line| is_it(line) && line.contains(function))?;
    let number = named.split_once('=')?.1.split_once(' ')?.0;
    let called = format!("cfn={number}");
    let mut lines = text.lines();
    let mut costs = Vec::new();
    while let Some(line) = lines.next() {
        if line == called || line.strip_prefix(&called).is_some_and(|rest| rest.starts_with(' ')) {
            let calls = lines.find(|line| line.starts_with("calls="))?;
            (calls.split_whitespace().next() == Some("calls=1")).then_some(())?;
            costs.push(lines.next()?);
        }
    }
    let [costs] = costs[..] else { return None };
    counted_of(text, costs.split_whitespace().skip(1).chain(std::iter::repeat("0")))
}

fn line<'t>(text: &'t str, begin: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(begin))
}

/// Costs by the names of the events of a file.
fn counted_of<'t>(text: &str, costs: impl Iterator<Item = &'t str>) -> Option<Counted> {
    let sums: Vec<(&str, f64)> = line(text, "events:")?
        .split_whitespace()
        .zip(costs)
        .map(|(name, sum)| Some((name, sum.parse().ok()?)))
        .collect::<Option<_>>()?;
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
    use super::{Counted, counted, inclusive};

    #[test]
    fn what_a_function_took_is_read_where_it_is_called() {
        let text = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\nsummary: 99 9 9 9 9 9 9 9 9\n\nfn=(1) main\n0 7 1\n\
                    cfn=(630) bench::counted_work\ncalls=1 0 \n0 1400 20 10 0 10 0 0 3\n0 2 1\n\nfn=(630)\n0 4 1\n\
                    cfn=(63)\ncalls=5 0\n0 8\n";
        let asked = Counted { instructions: 1_400.0, misses: 3.0 };
        assert_eq!(
            inclusive(text, "counted_work"),
            Some(asked),
            "the write misses are left out: there are none"
        );
        assert_eq!(inclusive(text, "other_work"), None);
        assert_eq!(
            inclusive(&text.replace("calls=1", "calls=2"), "counted_work"),
            None,
            "more than one call"
        );
        // The function's own costs may stand before the call.
        let early = format!(
            "fn=(630) bench::counted_work\n0 4\n{}",
            text.replace("(630) bench::counted_work", "(630)")
        );
        assert_eq!(inclusive(&early, "counted_work"), Some(asked));
    }

    #[test]
    fn sums_are_read_by_the_names_of_events() {
        let text = "desc: LL cache: 16777216 B\ncmd: x\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nfl=a\n1 2 3\n\
                    summary: 1000 9 4 300 20 5 100 6 2\n";
        assert_eq!(counted(text), Some(Counted { instructions: 1_000.0, misses: 11.0 }));
        assert_eq!(counted("events: Ir\nsummary: 7\n"), None, "no caches were simulated");
        assert_eq!(counted("events: Ir ILmr DLmr DLmw\nsummary: 7 x 1 1\n"), None);
    }
}
