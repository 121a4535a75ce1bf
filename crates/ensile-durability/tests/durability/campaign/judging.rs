//! What opening, examining and repairing make of a damaged folder, held against what the database held.

use super::database::Database;
use crate::prelude::*;

/// What is wrong with a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// An open served what the database never was.
    ServedWrong,
    /// An open served an earlier state and told nothing.
    Silent,
    /// `examine` and the open say different things.
    Disagrees,
    /// A repair reported success, and the folder is not whole, or not what was said.
    RepairedIsNot,
    /// A repair does not do what the examination offered.
    NotAsOffered,
    /// A repair gave up what was provably durable and did not say so.
    LossNotTold,
    /// A repair gave up more than was damaged.
    LostTooMuch,
}

/// What became of a damaged folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// Opens with everything.
    Whole,
    /// Opens at an earlier epoch, and says so.
    Earlier,
    /// Opens at an earlier epoch; no byte that is left could tell.
    NothingCanTell,
    /// Opens though the manifest is missing: empty. The store under the log is to refuse it.
    OpensWithoutManifest,
    /// Refused, and a repair made it whole again.
    Repaired,
    /// Refused, and the installed picture was kept alone.
    PictureAlone,
    /// Refused, and only a copy helps.
    Refused,
}

/// One damaged folder, judged.
pub(super) struct Judging<'d> {
    pub(super) database: &'d Database,
    pub(super) damaged: &'d SimDisk,
    pub(super) faults: Vec<(Fault, String)>,
}

fn on(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn contents(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    disk.files()
        .into_iter()
        .filter(|name| !["LOCK", "LEASES"].contains(&&**name))
        .map(|name| (name.clone(), disk.bytes(&name)))
        .collect()
}

impl<'d> Judging<'d> {
    /// All verdicts over the folder.
    pub(super) fn of(database: &'d Database, damaged: &'d SimDisk) -> (Outcome, Vec<(Fault, String)>) {
        let mut judging = Self { database, damaged, faults: Vec::new() };
        let opened = database.recover(damaged);
        let examined = examine(&on(&damaged.fork()), &Framing);
        judging.compare(&opened, &examined);
        let outcome = match &opened {
            Ok((report, rows)) => judging.served(report, rows),
            Err(_) => Outcome::Refused,
        };
        let outcome = match examined {
            Ok(found) => judging.repair(&found, outcome),
            Err(_) => outcome,
        };
        (outcome, judging.faults)
    }

    fn fault(&mut self, fault: Fault, why: String) {
        self.faults.push((fault, why));
    }

    /// Do an open and an examination say the same?
    fn compare(
        &mut self,
        opened: &Result<(RecoveryReport, Changes), DurabilityError>,
        examined: &Result<Examination, DurabilityError>,
    ) {
        let differs = match (opened, examined) {
            (Ok((report, _)), Ok(found)) => {
                let is_same = found.is_whole()
                    && found.torn_tails == report.torn_tails
                    && found.unfinished_epochs == report.unfinished_epochs
                    && found.durable_epoch.unwrap_or_default() == report.durable_epoch;
                (!is_same).then(|| {
                    format!(
                        "opens at {} with {:?}; examined: {:?} {:?} {:?}",
                        report.durable_epoch,
                        report.torn_tails,
                        found.durable_epoch,
                        found.damage,
                        found.torn_tails
                    )
                })
            }
            (Err(error), Ok(found)) => {
                let is_it =
                    |damage: &Damage| damage_of(error).is_some_and(|of| of == (&*damage.file, damage.offset));
                // What cannot be read is no damage: it is unknown.
                let is_unread = matches!(error, DurabilityError::Disk(_)) && !found.unread.is_empty();
                let is_told = is_unread || found.damage.iter().any(is_it);
                (!is_told).then(|| format!("open: {error}; examined: {:?} {:?}", found.damage, found.unread))
            }
            (Err(error), Err(other)) => {
                (error.to_string() != other.to_string()).then(|| format!("open: {error}; examined: {other}"))
            }
            (Ok((report, _)), Err(error)) => {
                Some(format!("opens at {}; examined: {error}", report.durable_epoch))
            }
        };
        if let Some(why) = differs {
            self.fault(Fault::Disagrees, why);
        }
    }

    /// What was served.
    fn served(&mut self, report: &RecoveryReport, rows: &Changes) -> Outcome {
        let Database { durable, witnessed, .. } = *self.database;
        if *rows == self.database.state(durable) {
            return Outcome::Whole;
        }
        let served = report.durable_epoch;
        if served >= durable || *rows != self.database.state(served) {
            self.fault(Fault::ServedWrong, format!("not the state at {served}; D was {durable}"));
            return Outcome::Earlier;
        }
        if !self.damaged.files().contains(&"MANIFEST".to_owned()) {
            return Outcome::OpensWithoutManifest;
        }
        if self.nothing_can_tell() {
            return Outcome::NothingCanTell;
        }
        let Database { ignored, unfinished, .. } = *self.database;
        let is_told = !report.torn_tails.is_empty()
            || report.ignored_entries > ignored
            || (report.unfinished_epochs.is_some() && report.unfinished_epochs != unfinished);
        let witnessed = if self.is_end_of_an_only_log() { self.database.hinted } else { witnessed };
        if !is_told {
            self.fault(Fault::Silent, format!("{served} came back of {durable}, nothing told"));
        } else if served < self.database.last_commit(witnessed) {
            self.fault(
                Fault::Silent,
                format!("{served} came back of {durable}; {witnessed} was shown to be durable"),
            );
        }
        Outcome::Earlier
    }

    /// Is the damage in the newest file of an only log? Then its blocks, which would be witnesses, may be gone with it.
    fn is_end_of_an_only_log(&self) -> bool {
        let (before, after) = (contents(&self.database.disk), contents(self.damaged));
        let changed: Vec<_> =
            before.iter().filter(|(name, bytes)| after.get(*name) != Some(*bytes)).collect();
        let newest = before.keys().rfind(|name| name.starts_with("log0/") && !name.contains("-to-"));
        self.database.loggers == 1 && changed.iter().all(|(name, _)| Some(*name) == newest)
    }

    /// Is this the only log of a database that was left open, without its last blocks, byte for byte as a crash leaves
    /// it?
    fn nothing_can_tell(&self) -> bool {
        if self.database.loggers > 1 || self.database.is_closed {
            return false;
        }
        let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        let (before, after) = (contents(&self.database.disk), contents(self.damaged));
        let is_same_names = before.keys().eq(after.keys());
        let changed: Vec<_> =
            before.iter().filter(|(name, bytes)| after.get(*name) != Some(*bytes)).collect();
        let [(name, bytes)] = changed[..] else { return false };
        let left = after.get(name).map_or(&[][..], |bytes| &bytes[..used(bytes)]);
        is_same_names && name.contains("/log-") && bytes.starts_with(left)
    }

    /// Does every file begin with what it held, and is none missing or new? A longer hint says something else.
    fn is_only_longer(&self) -> bool {
        let (before, after) = (contents(&self.database.disk), contents(self.damaged));
        let is_kept = |(name, bytes): (&String, &Vec<u8>)| {
            after.get(name).is_some_and(|now| now.starts_with(bytes) && (name != "HINT" || now == bytes))
        };
        before.len() == after.len() && before.iter().all(is_kept)
    }

    /// What a repair does with it.
    fn repair(&mut self, found: &Examination, outcome: Outcome) -> Outcome {
        let disk = self.damaged.fork();
        let before = contents(&disk);
        match (&found.remedy, repair(&on(&disk), &Framing)) {
            (None, Ok(None)) if found.is_whole() => {
                if contents(&disk) != before {
                    self.fault(Fault::NotAsOffered, "it changed a folder that is whole".to_owned());
                }
                outcome
            }
            (Some(Remedy::Copy(_)), Err(_)) => {
                if contents(&disk) != before {
                    self.fault(
                        Fault::NotAsOffered,
                        "it changed a folder that it could not repair".to_owned(),
                    );
                }
                Outcome::Refused
            }
            (Some(Remedy::PictureAlone { loss: offered, .. }), Err(_)) => {
                let options = RepairOptions { picture_alone: true, ..RepairOptions::default() };
                match repair_with(&on(&disk), &Framing, options) {
                    Ok(Some(done)) if *offered == done.loss => {
                        self.after_repair(&disk, &done.loss);
                        self.loss(found, offered);
                    }
                    other => self.fault(Fault::NotAsOffered, format!("offered {offered:?}, done {other:?}")),
                }
                Outcome::PictureAlone
            }
            (Some(Remedy::Cut(offered)), Ok(Some(done))) => {
                if *offered != done.loss {
                    self.fault(Fault::NotAsOffered, format!("offered {offered:?}, done {:?}", done.loss));
                }
                self.after_repair(&disk, &done.loss);
                self.loss(found, offered);
                Outcome::Repaired
            }
            (Some(Remedy::Marks(marks)), Ok(Some(done))) => {
                if *marks != done.marks || done.copies.is_some() {
                    self.fault(Fault::NotAsOffered, format!("offered {marks:?}, done {done:?}"));
                }
                self.after_repair(&disk, &done.loss);
                Outcome::Repaired
            }
            (Some(Remedy::Cut(loss)), Err(error)) => {
                // It was honest, at least.
                self.fault(Fault::NotAsOffered, format!("offered {loss:?}, and then: {error}"));
                Outcome::Refused
            }
            (remedy, other) => {
                self.fault(
                    Fault::NotAsOffered,
                    format!("offered {remedy:?} for {:?}, done {other:?}", found.damage),
                );
                outcome
            }
        }
    }

    /// A folder that was repaired is whole, and what was said.
    fn after_repair(&mut self, disk: &SimDisk, loss: &Loss) {
        // What gives up nothing keeps all.
        let durable = if gives_up(loss) { loss.durable } else { self.database.durable };
        match examine(&on(&disk.fork()), &Framing) {
            Ok(found) if found.is_whole() => {}
            other => {
                let damage = other.map(|found| found.damage);
                self.fault(Fault::RepairedIsNot, format!("examined: {damage:?}"));
            }
        }
        match self.database.recover(disk) {
            Ok((report, rows)) => {
                if rows != self.database.state(durable) {
                    self.fault(
                        Fault::RepairedIsNot,
                        format!("opens at {}, not as at {durable}", report.durable_epoch),
                    );
                }
            }
            Err(error) => self.fault(Fault::RepairedIsNot, format!("open: {error}")),
        }
    }

    /// What was given up was told, and no more than had to be.
    fn loss(&mut self, found: &Examination, loss: &Loss) {
        let Database { durable, witnessed, .. } = *self.database;
        let last = self.database.last_commit(witnessed);
        let told = loss.epochs.map_or(loss.durable, |(_, high)| high);
        if loss.durable < last && told < last && loss.unreadable.is_empty() {
            self.fault(
                Fault::LossNotTold,
                format!("{last} was shown to be durable; told: {loss:?} of {:?}", found.damage),
            );
        }
        if self.is_only_longer() && gives_up(loss) {
            self.fault(
                Fault::LostTooMuch,
                format!("bytes were added, none was taken: {loss:?} of {:?}", found.damage),
            );
        }
        if loss.durable > durable {
            self.fault(Fault::RepairedIsNot, format!("{loss:?} keeps more than {durable}"));
        }
    }
}

fn gives_up(loss: &Loss) -> bool {
    loss.epochs.is_some() || !loss.unreadable.is_empty()
}

/// The place that an error names as damaged.
fn damage_of(error: &DurabilityError) -> Option<(&str, u64)> {
    match error {
        DurabilityError::Damaged { file, offset, .. } | DurabilityError::Unknown { file, offset, .. } => {
            Some((file, *offset))
        }
        DurabilityError::Replay { file, offset, .. } => Some((file, *offset)),
        DurabilityError::NotOurs { file, .. } => Some((file, 0)),
        _ => None,
    }
}
