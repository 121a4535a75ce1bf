//! Bytes of a simulated disk's files: as seen, as stable, the changes between, and their fate in a crash.
//!
//! Neighbours: `sim_disk` changes and syncs files; `names` has their names.

use std::collections::BTreeSet;

use ensile_base::random::Random;
use std::sync::Arc;

/// Bytes of a sector; writes are torn at multiples of a sector.
const SECTOR_BYTES: usize = 512;

/// Bytes of a page. A device may lose a whole page during its write: see [`Medium::torn_pages`].
const PAGE_BYTES: usize = 4096;

/// Faults of the medium beyond lost and torn writes; by default none.
#[derive(Clone, Debug, Default)]
pub(super) struct Medium {
    /// True if space that was taken and never written on stable storage may hold old bytes after a crash.
    pub(super) stale_space: bool,
    /// True if a torn write may damage the rest of its page, synced bytes too: no power-safe overwrite.
    pub(super) torn_pages: bool,
    /// True if the bytes of a failed sync read as before the write.
    pub(super) failed_syncs_revert: bool,
    /// True if overwritten bytes keep space until the next sync, and the new bytes need further space.
    pub(super) copies_on_write: bool,
    /// Bytes of files that were removed or cut, the content of stale space.
    pub(super) old_bytes: Vec<u8>,
}

impl Medium {
    const OLD_BYTES_MAX: usize = 1 << 16;

    /// Keeps these bytes on the medium, unseen.
    pub(super) fn bury(&mut self, bytes: &[u8]) {
        if self.stale_space {
            self.old_bytes.extend_from_slice(bytes);
            let surplus = self.old_bytes.len().saturating_sub(Self::OLD_BYTES_MAX);
            self.old_bytes.drain(..surplus.next_multiple_of(SECTOR_BYTES).min(self.old_bytes.len()));
        }
    }

    /// A sector of bytes that the space may have held before.
    fn stale_sector(&self, random: &mut Random) -> Vec<u8> {
        let sectors = (self.old_bytes.len() / SECTOR_BYTES) as u64;
        if sectors > 0 && random.percent(70) {
            let at = random.next_below(sectors) as usize * SECTOR_BYTES;
            return self.old_bytes[at..at + SECTOR_BYTES].to_vec();
        }
        (0..SECTOR_BYTES).map(|_| random.next_below(256) as u8).collect()
    }
}

/// Fate of unsynced changes when power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Each change is kept, dropped or torn independently.
    Random,
    /// No change survives.
    Nothing,
    /// Every change survives.
    Everything,
    /// Of each write any subset of its sectors survives; names as in [`Survival::Random`].
    Torn,
    /// Of each file, and of each folder's names, the changes before some moment survive. A random suffix is lost, for
    /// each file independently. The lost suffix may begin within a write.
    Prefix,
}

impl Survival {
    /// The kinds of survival.
    pub const ALL: [Self; 5] = [Self::Random, Self::Nothing, Self::Everything, Self::Torn, Self::Prefix];
}

/// A file's bytes; behind `data` there are zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) data: Vec<u8>,
    pub(super) length: usize,
    /// Sectors that were written, if kept.
    written: Option<BTreeSet<usize>>,
}

impl Content {
    pub(super) fn read(&self, bytes: &mut [u8], offset: usize) -> usize {
        let read = self.length.saturating_sub(offset).min(bytes.len());
        let data = self.data.get(offset..).unwrap_or_default();
        let (real, zeros) = bytes[..read].split_at_mut(data.len().min(read));
        real.copy_from_slice(&data[..real.len()]);
        zeros.fill(0);
        read
    }

    pub(super) fn all(&self) -> Vec<u8> {
        let mut bytes = self.data.clone();
        bytes.resize(self.length, 0);
        bytes
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[offset..end].copy_from_slice(bytes);
        self.length = self.length.max(end);
        if let Some(written) = &mut self.written
            && !bytes.is_empty()
        {
            written.extend(offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
        }
    }

    /// Overwrites a sector, as far as the file goes.
    fn overwrite_sector(&mut self, sector: usize, bytes: &[u8]) {
        let start = sector * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(self.length);
        if start < end {
            let used = self.data.len().max(end);
            self.data.resize(used, 0);
            self.data[start..end].copy_from_slice(&bytes[..end - start]);
        }
    }

    fn set_length(&mut self, length: usize) {
        self.data.truncate(length);
        self.length = length;
    }
}

impl From<Vec<u8>> for Content {
    fn from(data: Vec<u8>) -> Self {
        Self { length: data.len(), data, written: None }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { offset: usize, bytes: Arc<Vec<u8>> },
    Length(usize),
}

impl Change {
    pub(super) fn write(offset: usize, bytes: &[u8]) -> Self {
        Self::Write { offset, bytes: Arc::new(bytes.to_vec()) }
    }

    pub(super) fn apply(&self, to: &mut Content) {
        match self {
            Self::Write { offset, bytes } => to.write(*offset, bytes),
            Self::Length(length) => to.set_length(*length),
        }
    }

    /// Sectors that the change writes.
    fn sectors(&self) -> std::ops::Range<usize> {
        match self {
            Self::Write { offset, bytes } => {
                offset / SECTOR_BYTES..(offset + bytes.len()).div_ceil(SECTOR_BYTES)
            }
            Self::Length(_) => 0..0,
        }
    }

    /// Applies a random subset of the change's sectors.
    fn apply_torn(&self, to: &mut Content, medium: &Medium, random: &mut Random) {
        let Self::Write { offset, bytes } = self else { return };
        let mut at = 0;
        while at < bytes.len() {
            let sector_end = (offset + at + 1).next_multiple_of(SECTOR_BYTES) - offset;
            let end = sector_end.min(bytes.len());
            if random.percent(50) {
                to.write(offset + at, &bytes[at..end]);
            }
            at = end;
        }
        tear_pages(to, *offset, bytes.len(), medium, random);
    }

    /// Applies the change's first bytes.
    fn apply_cut(&self, to: &mut Content, medium: &Medium, random: &mut Random) {
        let Self::Write { offset, bytes } = self else { return };
        let landed = random.next_below(bytes.len() as u64 + 1) as usize;
        to.write(*offset, &bytes[..landed]);
        tear_pages(to, *offset + landed, bytes.len() - landed, medium, random);
    }
}

/// Damages the pages of a write that was under way when power failed. If the medium does not protect the rest of a
/// page, any sector of the pages may be lost, even a synced sector.
fn tear_pages(to: &mut Content, offset: usize, bytes: usize, medium: &Medium, random: &mut Random) {
    if !medium.torn_pages || bytes == 0 {
        return;
    }
    let pages = offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES);
    for sector in pages.start * PAGE_BYTES / SECTOR_BYTES..pages.end * PAGE_BYTES / SECTOR_BYTES {
        if random.percent(25) {
            to.overwrite_sector(sector, &medium.stale_sector(random));
        }
    }
}

/// A file's bytes: as seen, as stable, and the changes between.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) seen: Content,
    pub(super) stable: Content,
    pub(super) unsynced: Vec<Change>,
    /// Bytes that take space.
    pub(super) allocated: usize,
    /// Bytes that take space until the next sync, because copies overwrote them.
    pub(super) copied: usize,
    /// Sectors that were reserved and have not been written on stable storage.
    unwritten: BTreeSet<usize>,
}

impl Inode {
    /// A file with these bytes on stable storage.
    pub(super) fn stable(content: Content) -> Self {
        let allocated = content.length;
        Self { seen: content.clone(), stable: content, allocated, ..Self::default() }
    }

    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.unsynced.push(change);
    }

    /// Notes reserved space.
    pub(super) fn set_aside(&mut self, from: usize, to: usize) {
        self.unwritten.extend(from.div_ceil(SECTOR_BYTES)..to.div_ceil(SECTOR_BYTES));
    }

    /// Makes the first `count` changes stable. The other changes stay readable and will never be stable. If the medium
    /// reverts the changes, the bytes read as before, and the file keeps its length.
    pub(super) fn sync(&mut self, count: usize, medium: &Medium) {
        let has_failed = count < self.unsynced.len();
        self.stable.written = medium.stale_space.then(BTreeSet::new);
        self.unsynced.iter().take(count).for_each(|change| change.apply(&mut self.stable));
        let written = self.stable.written.take().unwrap_or_default();
        self.unwritten.retain(|sector| !written.contains(sector));
        self.unsynced.clear();
        self.copied = 0;
        if has_failed && medium.failed_syncs_revert {
            let length = self.seen.length;
            self.seen = self.stable.clone();
            self.seen.set_length(length);
        }
    }

    pub(super) fn crash(&mut self, survival: Survival, medium: &Medium, random: &mut Random) {
        let changes = std::mem::take(&mut self.unsynced);
        let length_before = self.stable.length;
        let stable = &mut self.stable;
        stable.written = medium.stale_space.then(BTreeSet::new);
        let kept = random.next_below(changes.len() as u64 + 1) as usize;
        for (at, change) in changes.iter().enumerate() {
            match survival {
                Survival::Nothing => {}
                Survival::Everything => change.apply(stable),
                Survival::Torn if matches!(change, Change::Length(_)) => change.apply(stable),
                Survival::Torn => change.apply_torn(stable, medium, random),
                Survival::Prefix if at < kept => change.apply(stable),
                Survival::Prefix if at == kept => change.apply_cut(stable, medium, random),
                Survival::Prefix => {}
                Survival::Random => match random.next_below(3) {
                    0 => change.apply(stable),
                    1 => change.apply_torn(stable, medium, random),
                    _ => {}
                },
            }
        }
        let written = stable.written.take().unwrap_or_default();
        if medium.stale_space {
            // A hole that a longer length left takes no space, and reads as zeros for ever.
            let beyond = length_before.div_ceil(SECTOR_BYTES);
            let grown = changes.iter().flat_map(Change::sectors).filter(|sector| *sector >= beyond);
            let taken: BTreeSet<usize> = grown.chain(std::mem::take(&mut self.unwritten)).collect();
            for sector in taken.difference(&written) {
                if random.percent(50) {
                    stable.overwrite_sector(*sector, &medium.stale_sector(random));
                }
            }
        }
        self.unwritten.clear();
        self.seen = self.stable.clone();
        self.allocated = self.seen.length;
        self.copied = 0;
    }
}
