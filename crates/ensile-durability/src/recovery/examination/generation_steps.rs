//! Examination of a generation: every log file, every log, all logs together, then the entries.
//!
//! Invariants:
//! - L5: the examination decides D over all logs of the generation, or not at all.
//! - L8: the target receives the pieces in order, the oldest first.
//!
//! Neighbours: `validator` calls the steps; `recovery::validation`, `replay` and `file_chain` read.

use ensile_base::Epoch;

use super::super::log_files;
use super::super::mapped_tail::{self, EntriesToTake};
use super::super::replay::{self, Bounds, LogPiece};
use super::super::report::RecoveryReport;
use super::super::validation::{self, Findings as _};
use super::facts::{Damage, FileFacts, GenerationFacts, Role};
use super::judge::{ExaminedGeneration, Judge, NullState, Work};
use crate::files::log::file_chain::FileChain;
use crate::files::names::{SegmentFile, SegmentName};
use crate::{DurabilityError, Recoverable, Result};

impl Judge {
    /// Begins the generation at index `at` of the manifest: queues the work on its files, logs and entries.
    pub(super) fn generation(&mut self, at: usize) {
        let generation = self.manifest().generations[at].clone();
        self.saw(generation.first.previous().max(generation.durable.unwrap_or_default()));
        let mut work = Vec::new();
        for logger in 0..generation.logs {
            let Some(files) = self.inventory.listed.remove(&(generation.number, logger)) else { continue };
            work.extend(log_files::with_next(&files).map(|(file, next)| Work::LogFile(file, next)));
            work.push(Work::Log(files.len()));
        }
        work.extend([Work::Verdict, Work::Counted, Work::GenerationEnd]);
        self.first(work);
        let facts = GenerationFacts {
            number: generation.number,
            first: generation.first,
            logs: generation.logs,
            is_closed: generation.durable.is_some(),
            durable: None,
            entries: 0,
            ignored_entries: 0,
            covered_entries: 0,
        };
        let (files, chains, logs, skipped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let before =
            self.under_way.replace(ExaminedGeneration { generation, files, chains, facts, logs, skipped });
        assert!(before.is_none(), "one generation is examined behind the other");
    }

    pub(super) fn log_file(&mut self, file: SegmentFile, next: Option<SegmentFile>) -> Result<u64> {
        let of = self.under_way().generation.number;
        assert_eq!(file.name.generation, of, "a file of the generation that is examined");
        let until = self.under_way().generation.log_bytes(file.name);
        let read = FileChain::read_until(&*self.disk, file, next, until);
        let Some(chain) = self.found.note(read)? else { return Ok(0) };
        self.add_log_file(&chain)?;
        self.saw_file(&chain);
        if chain.opening.is_none() {
            // The later blocks show the used epochs, even without the first block.
            let mut behind = chain.clone();
            let salt = self.under_way().generation.salt;
            let looked = behind.look_with(&*self.disk, salt);
            if self.found.note(looked)?.is_some() {
                self.saw_file(&behind);
            }
        }
        let bytes = chain.end + chain.tail.bytes;
        self.under_way().files.push(chain);
        Ok(bytes)
    }

    fn add_log_file(&mut self, chain: &FileChain) -> Result<()> {
        let SegmentName { generation, logger, .. } = chain.file.name;
        let name = chain.file.to_string();
        let length = self.disk.open_to_read(&name).and_then(|file| file.len());
        let Some(bytes) = self.length(length)? else { return Ok(()) };
        assert!(chain.end <= bytes, "the whole part of {name} is in it");
        self.found.files.push(FileFacts {
            name,
            role: Role::Log { generation, logger },
            bytes,
            whole_bytes: Some(chain.end),
            entries: chain.runs.iter().map(|run| run.entries).sum(),
            epochs: chain.epochs(),
        });
        Ok(())
    }

    /// Puts a log together. The log gets a chain only if all of its `count` files were read.
    pub(super) fn log(&mut self, count: usize) -> Result<()> {
        let files = std::mem::take(&mut self.under_way().files);
        assert!(files.len() <= count, "each file is read once");
        if files.len() < count {
            // A file of the log is unreadable or contradictory. `found` has the file, and the log has no verdict.
            return Ok(());
        }
        let generation = self.under_way().generation.clone();
        let chain = validation::log(&*self.disk, &generation, files, self.covered, &mut self.found)?;
        let Some(chain) = chain else { return Ok(()) };
        self.saw(chain.seen.max(chain.published));
        self.shown = self.shown.max(chain.seen);
        for file in &chain.discarded {
            let name = file.to_string();
            let facts = self.found.files.iter_mut().filter(|facts| facts.name == name);
            facts.for_each(|facts| facts.role = Role::Discarded("the checkpoint covers it"));
        }
        self.under_way().chains.push(chain);
        Ok(())
    }

    /// Decides D of the generation, and cuts its logs into pieces.
    pub(super) fn verdict(&mut self) -> Result<()> {
        let ExaminedGeneration { generation, chains, facts, logs, skipped, .. } =
            self.under_way.as_mut().expect("a generation is examined");
        assert!(chains.len() <= generation.logs as usize, "a log has one chain");
        let installed = self.manifest.as_ref().and_then(|manifest| manifest.checkpoint.as_ref());
        let (hint, found) = (self.hint.as_ref(), &mut self.found);
        if chains.len() == generation.logs as usize
            && let Some(verdict) = validation::generation(generation, chains, hint, installed, found)?
        {
            facts.durable = Some(verdict.durable);
            found.torn_tails.extend(verdict.torn);
            found.unfinished_epochs = verdict.unfinished;
            let manifest = self.manifest.as_ref().expect("a generation is listed");
            let left = mapped_tail::find(&*self.disk, manifest, generation);
            let buffers = match left.and_then(|left| left.buffers(&*self.disk, generation)) {
                // The boot identity is unreadable.
                Err(why @ DurabilityError::Config { .. }) => {
                    found.refused.push(why.to_string());
                    None
                }
                buffers => found.note(buffers)?.flatten(),
            };
            // An open of a damaged log takes no entry (L5).
            let is_whole = chains.iter().all(|chain| chain.lost.is_none());
            if let Some(buffers) = buffers.filter(|_| is_whole) {
                let taken = EntriesToTake::from_buffers(&*self.disk, chains, buffers, verdict.durable);
                if let Some(taken) = found.note(taken)? {
                    found.to_take = taken.missing.as_ref().map(|missing| (missing.entries(), missing.high()));
                    (self.missing, found.not_proven) = (taken.missing, taken.not_proven);
                }
            }
        }
        let durable = facts.durable.unwrap_or(Epoch::MAX);
        let bounds = Bounds { first: generation.first, covered: self.covered, durable };
        skipped.resize_with(chains.len(), RecoveryReport::default);
        *logs = chains.iter().zip(skipped).map(|(log, report)| replay::cut(log, bounds, report)).collect();
        let mut in_turn = Vec::new();
        for (log, pieces) in logs.iter().enumerate() {
            in_turn.extend(pieces.iter().map(|piece| (log, piece.clone())));
        }
        in_turn.sort_by_key(|(_, piece)| (piece.oldest, piece.newest));
        // Every piece is read once, so no entry below the oldest epoch of the next piece follows the piece (L8).
        let passed: Vec<_> = in_turn.iter().skip(1).map(|(_, one)| Some(one.oldest)).chain([None]).collect();
        let pieces = in_turn.into_iter().zip(passed);
        let work = pieces.map(|((log, piece), passed)| Work::Piece(log, piece, passed)).collect();
        self.first(work);
        Ok(())
    }

    /// Hands the target the entries that count in a piece of `log`. No later piece has an entry below `passed`.
    pub(super) fn piece(
        &mut self,
        log: usize,
        piece: &LogPiece,
        passed: Option<Epoch>,
        target: &dyn Recoverable,
    ) -> Result<u64> {
        let replayed = replay::replay(&*self.disk, piece, &mut self.buffers, target);
        if let Some(counts) = self.found.note(replayed)? {
            let under_way = self.under_way();
            under_way.facts.entries += counts.entries;
            under_way.skipped[log].ignored_entries += counts.ignored;
            under_way.skipped[log].covered_entries += counts.covered;
        }
        if let Some(passed) = passed {
            assert!(passed >= piece.oldest, "L8: the oldest come first");
            target.advance_watermark(passed);
        }
        Ok(piece.bytes)
    }

    pub(super) fn plan_recheck(&mut self) {
        let under_way = self.under_way.as_mut().expect("a generation is examined");
        let ExaminedGeneration { generation, chains, facts, logs, skipped, .. } = under_way;
        let everything = Bounds { first: generation.first, covered: Epoch::ZERO, durable: Epoch::MAX };
        assert_eq!(chains.len(), skipped.len(), "each log is counted");
        let mut work = Vec::new();
        for (chain, report) in chains.iter().zip(skipped) {
            facts.ignored_entries += report.ignored_entries;
            facts.covered_entries += report.covered_entries;
            if report.ignored_entries + report.covered_entries > 0 {
                let pieces = replay::cut(chain, everything, &mut RecoveryReport::default());
                work.extend(pieces.into_iter().map(Work::Check));
            }
        }
        self.logs.append(logs);
        self.first(work);
    }

    /// Checks every entry of a piece. Known damage is not reported twice.
    pub(super) fn check_again(&mut self, piece: &LogPiece) -> Result<u64> {
        let nowhere = NullState(piece.kind);
        match replay::replay(&*self.disk, piece, &mut self.buffers, &nowhere).map_err(Damage::from_error) {
            Ok(_) => {}
            Err(Ok(found)) if self.found.damage.contains(&found) => {}
            Err(Ok(found)) => self.found.unneeded.push(found),
            Err(Err(error)) => self.found.record_finding(error)?,
        }
        Ok(piece.bytes)
    }

    /// Ends the examination of the generation, and notes its facts. Keeps the chains of an open generation.
    pub(super) fn generation_end(&mut self) {
        let ExaminedGeneration { generation, chains, facts, .. } =
            self.under_way.take().expect("it was examined");
        self.found.generations.push(facts);
        if generation.durable.is_none() {
            self.open_chains = chains;
        }
    }
}
