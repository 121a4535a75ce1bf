//! Target: the log's parser. An input is a plan of blocks for up to three logs. The target writes the blocks from
//! `docs/internals/formats`, without the engine's code, and with right checksums unless the plan says otherwise. Then
//! the target damages some bytes.
//!
//! Invariants: recovery ends without a panic. Recovery names the fault and fails, or returns every counting entry of
//! the part that follows the rules. Recovery returns no entry from outside the undamaged blocks.
//!
//! Neighbours: `ensile_durability::recover`, on the simulated disk.
//! Neighbours: `ensile_durability::recover`, on the simulated disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ensile_base::checksum::{crc32c, crc32c_append};
use ensile_base::limits::{SEQUENCE_BITS, STATUS_BITS};
use ensile_base::{Epoch, Tid};
use ensile_disk::{Disk, FolderId};
use ensile_durability::{DurabilityError, Entry, LogConfig, Recoverable, Refused, recover};
use ensile_sim::SimDisk;

use crate::input::Input;

/// Salt of the generation.
pub(crate) const SALT: u32 = 0x5a17_0000;
const HEADER_BYTES: usize = 80;
/// Kind of a file's first block. `ORIGIN_BYTES` is the length of the block's payload, in bytes.
const OPENING: u8 = 2;
const ORIGIN_BYTES: usize = 48;
/// Identity of the database.
pub(crate) const IDENTITY: u128 = 0x5b1e_0c9a_77d2_4f0e_8f6d_3a2b_1c4d_5e6f;
/// Most blocks of an input: a short input stays quick.
const BLOCKS_MAX: usize = 200;

/// Number of copies of an entry, by TID and body.
type Entries = BTreeMap<(u64, Vec<u8>), u32>;

#[derive(Default)]
struct Replayed(Mutex<Entries>);

impl Recoverable for Replayed {
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut replayed = self.0.lock().expect("no panic");
        for entry in entries {
            *replayed.entry((entry.tid.bits(), entry.body.to_vec())).or_default() += 1;
        }
        Ok(())
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.replay(entries)
    }
}

/// A data block: begin and end in bytes, and entries by TID and body.
struct Block {
    from: usize,
    to: usize,
    entries: Vec<(u64, Vec<u8>)>,
}

/// A log under construction, and known facts about the log.
pub(crate) struct Writer {
    logger: u32,
    bytes: Vec<u8>,
    salt: u32,
    sequence: u64,
    chain: u32,
    epoch: u64,
    mark: u64,
    /// Data blocks. A block is intact if [`Self::bytes`] still has the bytes as written.
    blocks: Vec<Block>,
    /// End of the part that follows the rules, in bytes. `clean_mark` is the last mark of this part.
    clean_to: usize,
    clean_mark: u64,
    is_clean: bool,
}

/// Fields of a header, in the order of the format.
#[derive(Clone, Copy, Default)]
struct Fields {
    kind: u8,
    epoch_min: u64,
    epoch_max: u64,
    mark: u64,
    published: u64,
    entries: u32,
    payload_bytes: u32,
}

impl Writer {
    fn new(logger: u32, salt: u32) -> Self {
        let mut writer = Self {
            logger,
            bytes: Vec::new(),
            salt: 0,
            sequence: 0,
            chain: 0,
            epoch: 1,
            mark: 0,
            blocks: Vec::new(),
            clean_to: 0,
            clean_mark: 0,
            is_clean: true,
        };
        // The opening block names the database and the salt. The checksum of the opening block begins with zero, and
        // the generation's entries are values.
        let mut origin = [0; ORIGIN_BYTES];
        origin[..16].copy_from_slice(&IDENTITY.to_be_bytes());
        origin[16..20].copy_from_slice(&salt.to_le_bytes());
        let fields = Fields { kind: OPENING, payload_bytes: ORIGIN_BYTES as u32, ..Fields::default() };
        writer.block(fields, &origin, None);
        writer.salt = salt;
        writer
    }

    /// File of a log without entries. Every epoch up to `mark` is durable.
    pub(crate) fn marked(mark: u64) -> Vec<u8> {
        let mut writer = Self::new(0, SALT);
        writer.block(Fields { kind: 1, mark, ..Fields::default() }, &[], None);
        writer.bytes
    }

    /// Writes a block. `tweak` is a place in the header to change under a right checksum.
    fn block(&mut self, fields: Fields, payload: &[u8], tweak: Option<(usize, u8)>) {
        let mut padded = payload.to_vec();
        padded.resize(payload.len().next_multiple_of(8), 0);
        let mut header = [0; HEADER_BYTES];
        header[..7].copy_from_slice(&[b'E', b'n', b's', b'B', 4, 0, fields.kind]);
        header[8..12].copy_from_slice(&self.logger.to_le_bytes());
        header[12..16].copy_from_slice(&fields.payload_bytes.to_le_bytes());
        let longs = [1, self.sequence, fields.epoch_min, fields.epoch_max, fields.mark, fields.published];
        for (at, long) in (16..).step_by(8).zip(longs) {
            header[at..at + 8].copy_from_slice(&long.to_le_bytes());
        }
        header[64..68].copy_from_slice(&fields.entries.to_le_bytes());
        header[68..72].copy_from_slice(&self.chain.to_le_bytes());
        header[72..76].copy_from_slice(&crc32c(&padded).to_le_bytes());
        if let Some((at, mask)) = tweak {
            header[at % 76] ^= mask;
        }
        self.chain = crc32c_append(self.salt, &header[..76]);
        header[76..].copy_from_slice(&self.chain.to_le_bytes());
        self.sequence += 1;
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(&padded);
        self.mark = if fields.kind == 1 { fields.mark } else { self.mark };
        if self.is_clean {
            (self.clean_to, self.clean_mark) = (self.bytes.len(), self.mark);
        }
    }

    /// Writes entries of growing epochs, in the order of a worker.
    fn data(&mut self, input: &mut Input<'_>, tweak: Option<(usize, u8)>) {
        let (mut payload, mut entries) = (Vec::new(), Vec::new());
        let first = self.epoch.max(self.mark + 1);
        self.epoch = first;
        for _ in 0..=input.choice(4) {
            self.epoch += u64::from(input.byte().is_multiple_of(8));
            let sequence = u64::from(input.u16()) % (1 << SEQUENCE_BITS);
            let tid = self.epoch << (SEQUENCE_BITS + STATUS_BITS) | sequence << STATUS_BITS;
            let body_bytes = input.choice(40);
            let body = input.bytes(body_bytes).to_vec();
            payload.extend_from_slice(&tid.to_le_bytes());
            payload.extend_from_slice(&(body.len() as u32).to_le_bytes());
            payload.extend_from_slice(&body);
            entries.push((tid, body));
        }
        let at = self.bytes.len();
        let fields = Fields {
            kind: 0,
            epoch_min: first,
            epoch_max: self.epoch,
            mark: self.mark,
            published: 0,
            entries: entries.len() as u32,
            payload_bytes: payload.len() as u32,
        };
        self.block(fields, &payload, tweak);
        self.blocks.push(Block { from: at, to: self.bytes.len(), entries });
    }

    /// A step of the plan.
    fn step(&mut self, input: &mut Input<'_>) {
        match input.choice(10) {
            0..=3 => self.data(input, None),
            4..=6 => {
                let mark = self.epoch + u64::from(input.byte() % 4);
                self.epoch = mark + 1;
                self.block(Fields { kind: 1, mark, ..Fields::default() }, &[], None);
            }
            7 => {
                // A header that no writer makes, under a right checksum.
                self.is_clean = false;
                let tweak = Some((usize::from(input.byte()), input.byte()));
                self.data(input, tweak);
            }
            8 => {
                self.is_clean = false;
                let count = input.choice(100);
                self.bytes.extend_from_slice(input.bytes(count));
            }
            _ => {
                self.is_clean = false;
                let fields =
                    Fields { kind: 1, mark: input.u64(), published: input.u64(), ..Fields::default() };
                self.block(fields, &[], None);
            }
        }
    }

    /// Forgets blocks that differ from `written`: a second damage may have reverted the first damage.
    fn forget_damaged(&mut self, written: &[u8]) {
        let bytes = &self.bytes;
        self.blocks.retain(|block| bytes.get(block.from..block.to) == Some(&written[block.from..block.to]));
    }

    /// Damages a byte, or cuts the log.
    fn damage(&mut self, input: &mut Input<'_>) {
        let at = usize::from(input.u16()) % self.bytes.len();
        let mask = input.byte();
        self.is_clean = false;
        if mask == 0 {
            self.bytes.truncate(at);
        } else {
            self.bytes[at] ^= mask;
        }
        if at < self.clean_to {
            // The remaining part that follows the rules is not computed again.
            (self.clean_to, self.clean_mark) = (0, 0);
        }
    }
}

pub(crate) fn put(disk: &SimDisk, name: &str, bytes: &[u8]) {
    let file = disk.create(name).expect("a new disk");
    file.write_at(bytes, 0).expect("a new disk");
}

/// The plan's first byte is the number of logs. Then come steps of one log or another. The rest of the input is damage.
pub fn log_blocks(data: &[u8]) {
    let mut input = Input::new(data);
    let logs = input.choice(3) + 1;
    let mut writers: Vec<Writer> = (0..logs as u32).map(|logger| Writer::new(logger, SALT)).collect();
    for _ in 0..BLOCKS_MAX {
        let what = input.byte();
        if input.is_empty() || what == 255 {
            break;
        }
        writers[usize::from(what) % logs].step(&mut input);
    }
    let written: Vec<Vec<u8>> = writers.iter().map(|writer| writer.bytes.clone()).collect();
    while !input.is_empty() {
        let at = input.choice(logs);
        if writers[at].bytes.is_empty() {
            break;
        }
        writers[at].damage(&mut input);
    }
    for (writer, written) in writers.iter_mut().zip(&written) {
        writer.forget_damaged(written);
    }
    let disk = SimDisk::new();
    let number = |folder: &str| {
        let FolderId { inode, born_nanos } = disk.folder_id(folder).expect("it is there");
        let born = born_nanos.map_or("none".to_owned(), |born| born.to_string());
        format!("inode {inode} born {born}")
    };
    let main = number("");
    let mut folders = format!("folder . {main}\n");
    for Writer { logger, bytes, .. } in &writers {
        let folder = format!("log{logger}");
        disk.create_folder(&folder).expect("a new disk");
        put(&disk, &format!("{folder}/log-1-0"), bytes);
        let mark = format!("ensile folder 1\ndatabase {IDENTITY:032x} name {folder}\nmain {main}\n");
        put(&disk, &format!("{folder}/FOLDER"), with_checksum(&mark).as_bytes());
        folders.push_str(&format!("folder {folder} {}\n", number(&folder)));
    }
    // All epochs are reserved: an unreserved epoch would make the manifest an older copy (L6).
    let reserved = 1_u64 << 40;
    let manifest = format!(
        "ensile manifest 3\ndatabase {IDENTITY:032x} parent none state created\nreserved {reserved}\n{folders}\
         generation 1 first 1 format 4 entries values logs {logs} salt {SALT:08x} database {IDENTITY:032x}\n"
    );
    put(&disk, "MANIFEST", with_checksum(&manifest).as_bytes());
    judge(disk, logs, &writers);
}

pub(crate) fn with_checksum(text: &str) -> String {
    format!("{text}crc32c {:08x}\n", crc32c(text.as_bytes()))
}

fn judge(disk: SimDisk, logs: usize, writers: &[Writer]) {
    let config = LogConfig { loggers: logs, ..LogConfig::default() };
    let replayed = Replayed::default();
    let report = match recover(Arc::new(disk), config, &replayed) {
        Ok(recovered) => recovered.report,
        Err(error @ (DurabilityError::Damaged { .. } | DurabilityError::Unknown { .. })) => {
            assert!(writers.iter().any(|writer| !writer.is_clean), "every block follows the rules: {error}");
            return;
        }
        Err(DurabilityError::Config(_)) => return,
        Err(other) => panic!("nothing of the kind was done: {other}"),
    };
    let durable = report.durable_epoch;
    let promised = writers.iter().map(|writer| writer.clean_mark).min().unwrap_or(0);
    assert!(durable.number() >= promised, "{promised} is marked in every log, {durable} came back");
    let (mut intact, mut clean) = (Entries::new(), Entries::new());
    for writer in writers {
        for Block { to, entries, .. } in &writer.blocks {
            for (tid, body) in entries {
                let key = (*tid, body.clone());
                *intact.entry(key.clone()).or_default() += 1;
                let counts = Tid::from_word(*tid).epoch() <= durable;
                if *to <= writer.clean_to && counts {
                    *clean.entry(key).or_default() += 1;
                }
            }
        }
    }
    let replayed = replayed.0.into_inner().expect("no panic");
    for (entry, count) in &replayed {
        assert!(count <= intact.get(entry).unwrap_or(&0), "{entry:?} was replayed and is in no intact block");
        assert!(Tid::from_word(entry.0).epoch() <= durable && entry.0 >= Tid::first_of(Epoch::FIRST).bits());
    }
    for (entry, count) in &clean {
        assert!(replayed.get(entry).unwrap_or(&0) >= count, "{entry:?} counts and was not replayed");
    }
}
