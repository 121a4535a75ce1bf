//! The hint: one more witness of D, so that damage to the last mark of a log is not taken for a torn tail (L5).
//!
//! A text file (`docs/formats/hint.md`):
//! ```text
//! ensile hint 1
//! generation 3 durable 57
//! closed 12 7
//! ended 131
//! crc32c 1d93b089
//! ```
//! Invariants:
//! - Its D comes from synced marks of all logs, and so do the ends of the logs that a clean close adds.
//! - Nothing depends on its being there: one that is missing, torn, or of another generation says nothing. So it is written
//!   without a sync while the database runs, and a disk that refuses it is no failure of the log.
//!
//! Neighbours: written by the log's heartbeat step and its close; read by recovery's verdict.

use ensile_base::Epoch;
use ensile_base::checksum::crc32c;
use ensile_disk::{Disk, DiskError, DiskFile};

use crate::store::names::HINT;

const TITLE: &str = "ensile hint 1";
/// Far above any real one.
const BYTES_MAX: u64 = 1 << 16;
/// Time between two writes.
const INTERVAL_NANOS: u64 = 1_000_000_000;

/// What the hint says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) generation: u64,
    /// A D of synced marks.
    pub(crate) durable: Epoch,
    /// After a clean close, how many blocks each log has; empty otherwise.
    pub(crate) closed: Vec<u64>,
    /// After a clean close, the last E: what is reserved above it was not used (L6).
    pub(crate) ended: Option<Epoch>,
}

impl Hint {
    /// Reads the hint; `None` if it says nothing.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>, DiskError> {
        let file = match disk.open_to_read(HINT) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; file.len()?.min(BYTES_MAX) as usize];
        file.read_at(&mut bytes, 0)?;
        Ok(std::str::from_utf8(&bytes).ok().and_then(Self::parse))
    }

    fn parse(text: &str) -> Option<Self> {
        let without_end = text.strip_suffix('\n')?;
        let (body, last) = without_end.split_at(without_end.rfind('\n')? + 1);
        let crc = last.strip_prefix("crc32c ")?;
        let mut lines = body.lines();
        if crc != format!("{:08x}", crc32c(body.as_bytes())) || lines.next() != Some(TITLE) {
            return None;
        }
        let (generation, durable) = lines.next()?.strip_prefix("generation ")?.split_once(" durable ")?;
        let epoch = |word: &str| Some(Epoch::new(word.parse().ok().filter(|e| *e < Epoch::MAX.number())?));
        let durable = epoch(durable)?;
        let closed = match lines.next() {
            None => Vec::new(),
            Some(line) => line
                .strip_prefix("closed ")?
                .split(' ')
                .map(|blocks| blocks.parse().ok())
                .collect::<Option<_>>()?,
        };
        let ended = match lines.next() {
            None => None,
            Some(line) => Some(epoch(line.strip_prefix("ended ")?)?),
        };
        let hint = Self { generation: generation.parse().ok()?, durable, closed, ended };
        lines.next().is_none().then_some(hint)
    }
}

impl std::fmt::Display for Hint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut body = format!("{TITLE}\ngeneration {} durable {}\n", self.generation, self.durable);
        if !self.closed.is_empty() {
            let blocks: Vec<String> = self.closed.iter().map(u64::to_string).collect();
            body.push_str(&format!("closed {}\n", blocks.join(" ")));
        }
        if let Some(ended) = self.ended {
            body.push_str(&format!("ended {ended}\n"));
        }
        writeln!(f, "{body}crc32c {:08x}", crc32c(body.as_bytes()))
    }
}

/// The hint of an open database.
#[derive(Debug)]
pub(crate) struct HintWriter {
    file: Box<dyn DiskFile>,
    generation: u64,
    written: Epoch,
    next_nanos: u64,
}

impl HintWriter {
    /// Empties the hint: from here on it is the new generation's. Its name is the caller's to sync.
    pub(crate) fn create(disk: &dyn Disk, generation: u64) -> Result<Self, DiskError> {
        Ok(Self { file: disk.create(HINT)?, generation, written: Epoch::ZERO, next_nanos: 0 })
    }

    /// Writes the hint if the last one is old and D has moved.
    pub(crate) fn step(&mut self, now_nanos: u64, durable: Epoch) {
        if now_nanos < self.next_nanos || durable <= self.written {
            return;
        }
        self.next_nanos = now_nanos.saturating_add(INTERVAL_NANOS);
        if self.write(durable, Vec::new(), None).is_ok() {
            self.written = durable;
        }
    }

    /// Writes and syncs the last hint of a clean close. E moves no more, and stands at `ended`.
    pub(crate) fn close(&mut self, durable: Epoch, blocks: Vec<u64>, ended: Epoch) {
        // The heartbeat may be at its step: it must not write over this.
        self.next_nanos = u64::MAX;
        // What it vouches for is durable without it.
        let _ = self.write(durable, blocks, Some(ended)).and_then(|()| self.file.sync_all());
    }

    fn write(&self, durable: Epoch, closed: Vec<u64>, ended: Option<Epoch>) -> Result<(), DiskError> {
        let hint = Hint { generation: self.generation, durable, closed, ended };
        let text = hint.to_string();
        debug_assert_eq!(Hint::parse(&text), Some(hint));
        // Its numbers only grow, and so does its length: nothing of an older one stands behind it.
        self.file.write_at(text.as_bytes(), 0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{Hint, HintWriter};
    use ensile_base::Epoch;
    use ensile_sim::SimDisk;

    #[test]
    fn a_step_that_comes_after_the_close_does_not_write_over_the_last_hint() {
        let disk = SimDisk::new();
        let mut writer = HintWriter::create(&disk, 3).expect("creates");
        writer.close(Epoch::new(57), vec![12, 7], Epoch::new(131));
        writer.step(u64::MAX - 1, Epoch::new(57));
        let last = Hint {
            generation: 3,
            durable: Epoch::new(57),
            closed: vec![12, 7],
            ended: Some(Epoch::new(131)),
        };
        assert_eq!(Hint::read(&disk).expect("reads"), Some(last));
    }

    #[test]
    fn the_documented_text_is_the_one_that_is_written() {
        let document = include_str!("../../../../docs/formats/hint.md");
        let example = document.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
        let hint = Hint {
            generation: 3,
            durable: Epoch::new(57),
            closed: vec![12, 7],
            ended: Some(Epoch::new(131)),
        };
        assert_eq!(example.expect("an example"), hint.to_string());
        assert_eq!(Hint::parse(&hint.to_string()), Some(hint));
    }

    #[test]
    fn a_changed_or_cut_hint_says_nothing() {
        for (closed, ended) in [(vec![], None), (vec![12, 7], Some(Epoch::new(131)))] {
            let text = Hint { generation: 3, durable: Epoch::new(57), closed, ended }.to_string();
            for at in 0..text.len() {
                assert_eq!(Hint::parse(&text[..at]), None, "cut to {at}");
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1;
                assert_eq!(std::str::from_utf8(&bytes).ok().and_then(Hint::parse), None, "changed at {at}");
            }
        }
    }
}
