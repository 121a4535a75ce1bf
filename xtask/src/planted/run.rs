//! Plants bugs in a copy of the tree, one at a time, and sees the command of each fail.
//!
//! The command must pass and run a test without the bug. With the bug a test must fail, the process end by a signal, or
//! the command not end in many times its usual time. A failed build is an error of the bug.
//!
//! Neighbours: [`super::place`] has the edits, [`super::copy`] the tree, [`super::results`] the table.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use super::candidates::Candidate;
use super::catalogue::Bug;
use super::copy::Copy;
use super::place::{Placed, apply};
use super::results::{Results, Sighting};

/// Limit of a command without a bug, in seconds; only a broken tree reaches it.
const SOUND_SECONDS_MAX: u64 = 3_600;
/// Least limit of a planted command, in seconds.
const PLANTED_SECONDS_MIN: u64 = 60;
/// Limit of a planted command, in times of the same command without a bug.
const PLANTED_TIMES: u64 = 10;
/// Time for which the simulation hunts without a bug, in seconds.
const SOUND_HUNT_SECONDS: u64 = 2;
/// Statuses of `timeout` for an ended and for a killed command.
const TIMED_OUT: [i32; 2] = [124, 137];

/// Settings of a run.
pub(crate) struct Settings {
    /// True if the build has no debug assertions.
    pub(crate) is_unasserted: bool,
    /// Time after which no other bug is planted.
    pub(crate) limit: Option<Duration>,
    /// Time for which the simulation hunts a bug, in seconds.
    pub(crate) hunt_seconds: u64,
}

/// Counts of a run.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) seen: usize,
    /// Names of the bugs that their commands did not see.
    pub(crate) unseen: Vec<String>,
    /// Names of the bugs that the compiler refuses.
    pub(crate) unbuilt: Vec<String>,
    /// Number of bugs that the limit of time left out.
    pub(crate) left: usize,
}

/// A place for builds and for the output of commands.
struct Workshop {
    copy: Copy,
    target: PathBuf,
    is_unasserted: bool,
    hunt_seconds: u64,
}

/// An ended command.
struct Ended {
    status: Option<i32>,
    output: String,
    seconds: u64,
}

impl Ended {
    fn has_passed(&self) -> bool {
        let ran = self.output.lines().any(|line| {
            line.strip_prefix("test result: ok. ").is_some_and(|rest| rest.split(' ').next() != Some("0"))
        });
        self.status == Some(0) && ran
    }

    fn is_endless(&self) -> bool {
        self.status.is_some_and(|status| TIMED_OUT.contains(&status))
    }

    fn has_failed_by_a_test(&self) -> bool {
        self.output.contains("test result: FAILED") || self.output.contains("(signal: ")
    }
}

/// Plants `candidates` and adds a row for each that is seen.
pub(crate) fn run(
    root: &Path,
    texts: &BTreeMap<&str, &str>,
    mut candidates: Vec<Candidate<'_>>,
    results: &Results,
    settings: &Settings,
) -> io::Result<Outcome> {
    let begin = now();
    let mut outcome = Outcome::default();
    if candidates.is_empty() {
        return Ok(outcome);
    }
    candidates.sort_by_cached_key(|candidate| build_group(candidate));
    let shop = Workshop::new(root, settings)?;
    let mut sound_seconds: BTreeMap<&str, u64> = BTreeMap::new();
    let total = candidates.len();
    for (at, Candidate { bug, placement }) in candidates.iter().enumerate() {
        if settings.limit.is_some_and(|limit| begin.elapsed() >= limit) {
            outcome.left = total - at;
            break;
        }
        if !sound_seconds.contains_key(bug.command.as_str()) {
            sound_seconds.insert(&bug.command, shop.sound_seconds(bug)?);
        }
        let changes = changes(texts, &placement.edits)
            .map_err(|advice| io::Error::other(format!("{}: {advice}", bug.name)))?;
        for (path, changed) in &changes {
            shop.copy.write(path, changed.as_bytes())?;
        }
        let built = shop.build(bug)?;
        let ended = match built.status {
            Some(0) => {
                Some(shop.run(bug, planted_seconds_max(bug, sound_seconds[bug.command.as_str()], settings))?)
            }
            _ => None,
        };
        for path in changes.keys() {
            shop.copy.write(path, texts[path].as_bytes())?;
        }
        let progress = format!("{} of {total}, {} s", at + 1, begin.elapsed().as_secs());
        match ended {
            Some(ended) if ended.is_endless() || ended.has_failed_by_a_test() => {
                println!("planted: {} is seen ({progress})", bug.name);
                results.add(shop.sighting(bug, placement.hash, &built, &ended))?;
                outcome.seen += 1;
            }
            Some(ended) => {
                eprintln!("{}", tail(&ended.output));
                let Bug { name, command, sign, .. } = bug;
                println!("planted: {name} is NOT SEEN by `{command}`, which must show: {sign} ({progress})");
                outcome.unseen.push(bug.name.clone());
            }
            None => {
                eprintln!("{}", tail(&built.output));
                println!("planted: {} DOES NOT BUILD ({progress})", bug.name);
                outcome.unbuilt.push(bug.name.clone());
            }
        }
    }
    Ok(outcome)
}

/// Sort key of a bug: environment, package and test program, then file. Bugs that share a build stand together.
fn build_group(candidate: &Candidate<'_>) -> (String, String) {
    let words = candidate.bug.command.split(' ').filter(|word| !word.starts_with("ENSILE_"));
    let mut group = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        group.push(if word == "-p" { "--package" } else { word });
        match word {
            "--lib" => break,
            "--test" => {
                group.extend(words.next());
                break;
            }
            _ => {}
        }
    }
    let path = candidate.placement.edits.first().map_or_else(String::new, |edit| edit.path.clone());
    (group.join(" "), path)
}

/// The changed files of a bug, by path.
fn changes<'t>(
    texts: &BTreeMap<&'t str, &'t str>,
    edits: &[Placed<'_>],
) -> Result<BTreeMap<&'t str, String>, String> {
    let mut by_path: BTreeMap<&str, Vec<&Placed<'_>>> = BTreeMap::new();
    for edit in edits {
        by_path.entry(&edit.path).or_default().push(edit);
    }
    let mut changed = BTreeMap::new();
    for (path, mut edits) in by_path {
        let (&path, text) = texts.get_key_value(path).ok_or_else(|| format!("{path} is not in the tree"))?;
        changed.insert(path, apply(text, &mut edits)?);
    }
    Ok(changed)
}

fn planted_seconds_max(bug: &Bug, sound_seconds: u64, settings: &Settings) -> u64 {
    let most = (sound_seconds * PLANTED_TIMES).max(PLANTED_SECONDS_MIN);
    // The hunt is longer with a bug than without.
    most + if is_hunt(bug) { settings.hunt_seconds } else { 0 }
}

/// True if the simulation is the bug's command.
pub(crate) fn is_hunt(bug: &Bug) -> bool {
    bug.command.contains("shuttle_simulation")
}

impl Workshop {
    fn new(root: &Path, settings: &Settings) -> io::Result<Self> {
        let Settings { is_unasserted, hunt_seconds, .. } = *settings;
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
        let target = fs::canonicalize(root)?.join(target).join(if is_unasserted {
            "planted-unasserted"
        } else {
            "planted"
        });
        fs::create_dir_all(target.join("tree"))?;
        Ok(Self { copy: Copy::new(root, target.join("tree"))?, target, is_unasserted, hunt_seconds })
    }

    /// Time of the command without a bug, in whole seconds rounded up. An error if the command fails.
    fn sound_seconds(&self, bug: &Bug) -> io::Result<u64> {
        let built = self.build(bug)?;
        let ended = match built.status {
            Some(0) => self.command(&bug.command, SOUND_SECONDS_MAX, SOUND_HUNT_SECONDS)?,
            _ => built,
        };
        if ended.has_passed() {
            return Ok(ended.seconds + 1);
        }
        eprintln!("{}", tail(&ended.output));
        Err(io::Error::other(format!(
            "{}: without the bug `{}` fails, or runs no test",
            bug.name, bug.command
        )))
    }

    fn build(&self, bug: &Bug) -> io::Result<Ended> {
        let command = bug.command.replacen("cargo test", "cargo test --quiet --no-run", 1);
        self.command(&command, SOUND_SECONDS_MAX, SOUND_HUNT_SECONDS)
    }

    fn run(&self, bug: &Bug, seconds_max: u64) -> io::Result<Ended> {
        self.command(&bug.command, seconds_max, self.hunt_seconds)
    }

    fn command(&self, command: &str, seconds_max: u64, hunt_seconds: u64) -> io::Result<Ended> {
        let begin = now();
        let path = self.target.join("output");
        let output = fs::File::create(&path)?;
        let mut shell = Command::new("timeout");
        shell
            .args(["--kill-after=10", &seconds_max.to_string(), "bash", "-c", command])
            .current_dir(self.copy.folder());
        // One function of a crate changes, so an incremental build is fastest.
        for name in ["CARGO_PROFILE_TEST_DEBUG", "CARGO_PROFILE_DEV_DEBUG", "RUST_BACKTRACE"] {
            shell.env(name, "0");
        }
        shell
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_TARGET_DIR", &self.target)
            .env("ENSILE_SECONDS", hunt_seconds.to_string());
        if self.is_unasserted {
            shell
                .env("CARGO_PROFILE_TEST_DEBUG_ASSERTIONS", "false")
                .env("CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "false");
        }
        // The variables of this program's own build do not belong to the copy.
        shell.env_remove("CARGO_MANIFEST_DIR").env_remove("RUSTUP_TOOLCHAIN");
        let status = shell.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).status()?;
        let output = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        Ok(Ended { status: status.code(), output, seconds: begin.elapsed().as_secs() })
    }

    fn sighting(&self, bug: &Bug, hash: u64, built: &Ended, ended: &Ended) -> Sighting {
        let output =
            if ended.is_endless() { "does not end".to_owned() } else { self.first_fault(&ended.output) };
        Sighting {
            bug: bug.name.clone(),
            condition: bug.condition.clone(),
            hash: format!("{hash:016x}"),
            build_seconds: built.seconds,
            test_seconds: ended.seconds,
            output,
            command: bug.command.clone(),
        }
    }

    /// First line that tells of the fault: an anomaly of the checker, a panic, or the error of a test. Folders of this
    /// machine are left out.
    fn first_fault(&self, output: &str) -> String {
        let is_anomaly = |line: &&str| {
            let count = line.trim_start().split(" x ").next().unwrap_or_default();
            line.contains(" x ") && !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())
        };
        let behind_a_panic = || output.lines().skip_while(|line| !line.contains("panicked at")).nth(1);
        let fault =
            output.lines().find(is_anomaly).or_else(behind_a_panic).filter(|line| !line.trim().is_empty());
        let fault = fault.or_else(|| {
            output.lines().find(|line| line.starts_with("Error: ") || line.contains("(signal: "))
        });
        let target = format!("{}/", self.target.display());
        fault.unwrap_or_default().replace(&target, "").trim().chars().take(100).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "xtask depends on no crate, and times commands of the machine")]
fn now() -> Instant {
    Instant::now()
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

#[cfg(test)]
mod tests;
