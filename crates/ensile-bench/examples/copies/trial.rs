//! Trials: an owner writes, a copier copies, and a kill ends the owner, the copier or the two processes at a random
//! moment. A trial compares the restored state with the acknowledged numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use serde_json::Value;

use super::folders::{Acknowledged, Folders};
use super::owner::{Kind, Result};

/// Average number of trials between two fresh sets of folders.
const RENEWED: u64 = 8;
/// Longest wait for an acknowledgement.
const PATIENCE: Duration = Duration::from_secs(60);

/// Way to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Backup,
    Restore,
    RestoreArchive,
    TakeOver,
}

impl Way {
    pub(crate) fn named(name: &str) -> Result<Self> {
        match name {
            "backup" => Ok(Self::Backup),
            "restore" => Ok(Self::Restore),
            "restore-archive" => Ok(Self::RestoreArchive),
            "take-over" => Ok(Self::TakeOver),
            _ => Err(format!("{name} is no way to copy").into()),
        }
    }

    /// Folder in which the owner archives, or to which it ships.
    fn place(self) -> Option<&'static str> {
        match self {
            Self::Backup | Self::Restore => None,
            Self::RestoreArchive => Some("archive"),
            Self::TakeOver => Some("shared"),
        }
    }
}

/// Outcome of a process.
#[derive(Debug)]
struct Ended {
    /// `None` after a kill.
    code: Option<i32>,
    said: Value,
    errors: String,
}

impl Ended {
    /// True if the copier made a copy, complete or smaller than the durable state.
    fn is_made(&self) -> bool {
        matches!(self.code, Some(0 | 3))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.said.get(name)?.as_u64()
    }
}

/// State of the trials of a way and a kind.
pub(crate) struct Trials {
    way: Way,
    kind: Kind,
    ensile: String,
    random: Random,
    clock: Clock,
    folders: Folders,
    /// Latest moment of a kill, in seconds after the start of the copier. About half of the copies end before.
    seconds: f64,
    /// Last number in the backup; `None` without a backup.
    backed_up: Option<u64>,
    kills: [u64; 2],
    /// Copies that ended although a kill was drawn.
    ended: u64,
    restored: u64,
    /// Copies with exit code 3.
    smaller: u64,
    /// Refusals of folders after a kill, by text.
    refusals: BTreeMap<String, u64>,
    findings: Vec<String>,
}

/// True if `name` is not the name of an incomplete manifest.
fn is_manifest(name: &std::ffi::OsStr) -> bool {
    !name.as_encoded_bytes().ends_with(b".new")
}

/// Durable epoch in the document of `ensile verify --json`.
fn durable_epoch(found: &Value) -> Option<u64> {
    found.pointer("/examination/durable_epoch").or_else(|| found.get("durable_epoch"))?.as_u64()
}

/// Process of an owner. The drop of the value kills the process, also after an error.
struct Owner(Child);

impl Owner {
    fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.kill();
    }
}

impl Trials {
    pub(crate) fn new(way: Way, kind: Kind, ensile: &str, seed: u64) -> Result<Self> {
        let folders = Folders::new()?;
        Ok(Self {
            way,
            kind,
            ensile: ensile.to_owned(),
            random: Random::from_seed(seed),
            clock: Clock::machine(),
            folders,
            seconds: 0.1,
            backed_up: None,
            kills: [0; 2],
            ended: 0,
            restored: 0,
            smaller: 0,
            refusals: BTreeMap::new(),
            findings: Vec::new(),
        })
    }

    /// Runs trials until the number of killed processes reaches `kills`, or until a finding. True without a finding.
    pub(crate) fn run(&mut self, kills: u64) -> Result<bool> {
        self.renew()?;
        while self.kills.iter().sum::<u64>() < kills && self.findings.is_empty() {
            if self.random.next_below(RENEWED) == 0 || matches!(self.way, Way::RestoreArchive | Way::TakeOver)
            {
                self.renew()?;
            }
            match self.way {
                Way::Backup => self.backup()?,
                Way::Restore => self.restore()?,
                Way::RestoreArchive => self.restore_archive()?,
                Way::TakeOver => self.take_over()?,
            }
        }
        Ok(self.findings.is_empty())
    }

    /// Counts, refusals and findings, as text.
    pub(crate) fn counts(&self) -> String {
        let [copiers, owners] = self.kills;
        let mut text = format!(
            "{:?} {}: {copiers} copiers and {owners} owners killed, {} copies ended before; {} states restored, {} of \
             copies with exit code 3; {} findings",
            self.way,
            self.kind.name(),
            self.ended,
            self.restored,
            self.smaller,
            self.findings.len()
        );
        for (refusal, count) in &self.refusals {
            let _ = write!(text, "\n  refused {count} times: {refusal}");
        }
        for finding in &self.findings {
            let _ = write!(text, "\n  FINDING {finding}");
        }
        text
    }

    fn renew(&mut self) -> Result<()> {
        self.backed_up = None;
        self.folders.renew()
    }

    fn found(&mut self, finding: String) {
        self.folders.is_kept = true;
        self.findings.push(finding);
    }

    fn path(&self, name: &str) -> String {
        self.folders.at(name).display().to_string()
    }

    /// Starts an owner, and waits for its first acknowledgement and a random time.
    fn owner(&mut self) -> Result<Owner> {
        let before = self.folders.acknowledged()?.len();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["own", self.kind.name(), &self.path("data")]);
        command.args(self.way.place().map(|place| self.path(place)));
        command.stdout(self.folders.appended("acknowledged")?).stderr(self.folders.appended("owner-errors")?);
        let owner = Owner(command.stdin(Stdio::null()).spawn()?);
        self.wait_for("the owner acknowledges nothing", || Ok(self.folders.acknowledged()?.len() > before))?;
        std::thread::sleep(Duration::from_millis(self.random.next_below(250)));
        Ok(owner)
    }

    /// Waits until `is_ready` is true. `failure` is the error after the longest wait.
    fn wait_for(&self, failure: &str, is_ready: impl Fn() -> Result<bool>) -> Result<()> {
        let until = self.clock.nanos() + PATIENCE.as_nanos() as u64;
        while !is_ready()? {
            if self.clock.nanos() > until {
                return Err(format!("{failure}: {}", self.folders.text("owner-errors")).into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn start(&self, words: &[&str]) -> Result<Child> {
        self.folders.remove_file("said")?;
        self.folders.remove_file("errors")?;
        let mut command = Command::new(&self.ensile);
        command.args(words).stdin(Stdio::null());
        command.stdout(self.folders.appended("said")?).stderr(self.folders.appended("errors")?);
        Ok(command.spawn()?)
    }

    fn end(&self, mut child: Child) -> Result<Ended> {
        let code = child.wait()?.code();
        let said = serde_json::from_str(&self.folders.text("said")).unwrap_or_default();
        Ok(Ended { code, said, errors: self.folders.text("errors") })
    }

    /// Runs a command to its end.
    fn run_whole(&self, words: &[&str]) -> Result<Ended> {
        let child = self.start(words)?;
        self.end(child)
    }

    /// Runs a command. Kills the copier, the owner, or the two processes at random moments.
    fn run_killed(&mut self, words: &[&str], owner: Option<&mut Owner>) -> Result<Ended> {
        let mut copier = self.start(words)?;
        let kills = self.random.next_below(if owner.is_some() { 3 } else { 1 });
        let (kills_copier, kills_owner) = (kills != 1, kills != 0);
        let wait = self.random.unit() * self.seconds;
        std::thread::sleep(Duration::from_secs_f64(wait));
        if let Some(owner) = owner.filter(|_| kills_owner) {
            owner.kill()?;
            self.kills[1] += 1;
        }
        if kills_copier {
            match copier.try_wait()? {
                Some(_) => (self.ended, self.seconds) = (self.ended + 1, self.seconds * 0.9),
                None => (self.kills[0], self.seconds) = (self.kills[0] + 1, self.seconds * 1.1),
            }
            copier.kill()?;
        }
        self.end(copier)
    }

    fn backup(&mut self) -> Result<()> {
        let mut owner = self.owner()?;
        let is_dead = self.random.next_below(4) == 0;
        if is_dead {
            owner.kill()?;
        }
        let before = self.folders.acknowledged()?.last().map_or(0, |last| last.number);
        let (data, backup) = (self.path("data"), self.path("backup"));
        let ended =
            self.run_killed(&["backup", &data, &backup, "--json"], (!is_dead).then_some(&mut owner))?;
        drop(owner);
        if ended.code.is_some() && !ended.is_made() {
            self.note_refusal(&ended);
        }
        self.check_code(&ended);
        let last = self.look("backup")?;
        if last.is_none() {
            let left = self.read("backup")?;
            if left.code != Some(2) {
                self.found(format!("no backup, and an open has {:?}: {}", left.code, left.said));
            }
        }
        match last {
            Some(last) if ended.code == Some(0) && last < before => {
                self.found(format!("a backup with exit code 0 has {last} of {before} acknowledged numbers"));
            }
            last if last < self.backed_up => {
                self.found(format!("{:?} was backed up, and now {last:?} is", self.backed_up));
            }
            None if ended.is_made() => self.found(format!("no backup behind exit code {:?}", ended.code)),
            _ => {}
        }
        self.backed_up = last;
        Ok(())
    }

    /// Exit code 3 stands for a smaller copy. Exit code 1 stands for damage and is a finding, as the trials cause no
    /// damage.
    fn check_code(&mut self, ended: &Ended) {
        match ended.code {
            Some(3) => {
                self.smaller += 1;
                let is_smaller = ended.number("epoch") < ended.number("durable")
                    || ended.said.get("not_proven").is_some_and(|left| !left.is_null());
                if !is_smaller {
                    self.found(format!("exit code 3 with {}", ended.said));
                }
            }
            Some(1) => self.found(format!("exit code 1: {}", ended.errors)),
            Some(0) if ended.number("epoch") < ended.number("durable") && self.way != Way::RestoreArchive => {
                self.found(format!("exit code 0 with {}", ended.said));
            }
            _ => {}
        }
    }

    /// Restores the backup `backup` to the end, and returns the last number. `None` if the restore is refused.
    fn look(&mut self, backup: &str) -> Result<Option<u64>> {
        self.folders.remove("restored")?;
        let (backup, restored) = (self.path(backup), self.path("restored"));
        let ended = self.run_whole(&["restore", &backup, &restored, "--json"])?;
        if !ended.is_made() {
            self.note_refusal(&ended);
            if ended.code != Some(2) {
                self.found(format!("a restore of the backup has {:?}: {}", ended.code, ended.errors));
            }
            return Ok(None);
        }
        let epoch = ended.number("epoch").ok_or("a report without an epoch")?;
        let last = self.checked("restored", epoch)?;
        self.folders.remove("restored")?;
        Ok(last)
    }

    /// Last number of an opened folder with the state at the end of `epoch`. A wrong state is a finding.
    fn checked(&mut self, name: &str, epoch: u64) -> Result<Option<u64>> {
        let ended = self.read(name)?;
        let Some(last) = ended.said.as_u64().filter(|_| ended.code == Some(0)) else {
            self.found(format!("{name} at epoch {epoch}: {:?}, {} {}", ended.code, ended.said, ended.errors));
            return Ok(None);
        };
        self.restored += 1;
        let acknowledged = self.folders.acknowledged()?;
        let is_in = |of: &&Acknowledged| of.epoch <= epoch;
        let least = acknowledged.iter().take_while(is_in).last().map_or(0, |of| of.number);
        let most = acknowledged.iter().find(|of| of.epoch > epoch).map_or(u64::MAX, |of| of.number - 1);
        if !(least..=most).contains(&last) {
            self.found(format!("{name} at epoch {epoch} ends at {last}, not in {least}..={most}"));
        }
        Ok(Some(last))
    }

    /// Opens a folder in a separate process. A missing folder is refused.
    fn read(&self, name: &str) -> Result<Ended> {
        if !self.folders.at(name).exists() {
            return Ok(Ended { code: Some(2), said: Value::Null, errors: format!("{name} is not there") });
        }
        let output = Command::new(std::env::current_exe()?)
            .args(["read", self.kind.name(), &self.path(name)])
            .stdin(Stdio::null())
            .output()?;
        let said = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(Ended { code: output.status.code(), said, errors })
    }

    /// Counts a refusal by the text without paths and numbers. A refusal without a text is a finding.
    fn note_refusal(&mut self, ended: &Ended) {
        let base = self.path("");
        let text = ended.errors.replace(&base, "");
        let is_identity = |word: &str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let words = text.split_whitespace().map(|word| if is_identity(word) { "ID" } else { word });
        let text = words.collect::<Vec<_>>().join(" ");
        if text.trim().is_empty() {
            self.found(format!("exit code {:?} without a text", ended.code));
        }
        *self.refusals.entry(text.trim().to_owned()).or_default() += 1;
    }

    /// Runs a command that makes the database in `folder`, with kills. If a kill leaves no complete folder, the command
    /// runs again without kills. Returns the last number of the database.
    fn made(&mut self, words: &[&str], folder: &str, owner: Option<Owner>) -> Result<Option<u64>> {
        let mut owner = owner;
        let mut ended = self.run_killed(words, owner.as_mut())?;
        if ended.code.is_none() {
            // The killed run leaves no folder, a folder that an open refuses, or a complete folder.
            let path = self.path(folder);
            let found = self.run_whole(&["verify", &path, "--json"])?;
            if let Some(epoch) = durable_epoch(&found.said).filter(|_| found.code == Some(0)) {
                return self.checked(folder, epoch);
            }
            let left = self.read(folder)?;
            if left.code != Some(2) {
                self.found(format!("a killed run left {:?}: {} {}", left.code, left.said, left.errors));
            }
            self.note_refusal(&left);
            ended = self.run_whole(words)?;
        }
        self.check_code(&ended);
        if !ended.is_made() {
            self.found(format!("the run after the kill has {:?}: {}", ended.code, ended.errors));
            return Ok(None);
        }
        let epoch = ended.number("epoch").ok_or("a report without an epoch")?;
        self.checked(folder, epoch)
    }

    fn restore(&mut self) -> Result<()> {
        if self.backed_up.is_none() {
            let owner = self.owner()?;
            let (data, backup) = (self.path("data"), self.path("backup"));
            let ended = self.run_whole(&["backup", &data, &backup, "--json"])?;
            drop(owner);
            if !ended.is_made() {
                return Err(format!("no backup: {}", ended.errors).into());
            }
            self.backed_up = self.look("backup")?;
        }
        self.folders.remove("restored")?;
        let (backup, restored) = (self.path("backup"), self.path("restored"));
        let last = self.made(&["restore", &backup, &restored, "--json"], "restored", None)?;
        if last != self.backed_up {
            self.found(format!("{last:?} is restored of {:?}", self.backed_up));
        }
        Ok(())
    }

    fn restore_archive(&mut self) -> Result<()> {
        let mut owner = self.owner()?;
        std::thread::sleep(Duration::from_millis(200));
        let is_alive = self.random.next_below(2) == 0;
        if !is_alive {
            owner.kill()?;
        }
        let (archive, restored) = (self.path("archive"), self.path("restored"));
        let found = self.run_whole(&["inspect", &archive, "--json"])?;
        let ranges =
            found.said.pointer("/archive/ranges").and_then(Value::as_array).cloned().unwrap_or_default();
        let number = |range: &Value, at: usize| range.get(at).and_then(Value::as_u64);
        let range = ranges.last().and_then(|range| Some((number(range, 0)?, number(range, 1)?)));
        let Some((after, to)) = range else {
            self.note_refusal(&Ended { errors: "the archive has no range yet".to_owned(), ..found });
            return Ok(());
        };
        let epoch = (to - self.random.next_below(to - after)).to_string();
        let words = ["restore-archive", &archive, &restored, "--to-epoch", &epoch, "--json"];
        let owner = is_alive.then_some(owner);
        self.made(&words, "restored", owner).map(|_| ())
    }

    fn take_over(&mut self) -> Result<()> {
        let mut owner = self.owner()?;
        let manifests = self.folders.at("shared").join("manifests");
        let is_shipped = || {
            Ok(std::fs::read_dir(&manifests)
                .is_ok_and(|names| names.flatten().any(|name| is_manifest(&name.file_name()))))
        };
        self.wait_for("nothing is shipped", is_shipped)?;
        std::thread::sleep(Duration::from_millis(self.random.next_below(250)));
        let is_alive = self.random.next_below(2) == 0;
        if !is_alive {
            owner.kill()?;
        }
        let (shared, taken) = (self.path("shared"), self.path("taken"));
        let mut words = vec!["take-over", &shared, &taken, "--json"];
        if self.kind == Kind::Objects {
            words.insert(0, "objects");
        }
        let owner = is_alive.then_some(owner);
        self.made(&words, "taken", owner).map(|_| ())
    }
}
