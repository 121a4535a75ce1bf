//! Target: the load of a picture from page files. An input is a plan of pages, and of versions beside the pages in
//! blocks and tails. The target writes the plan from `docs/internals/formats`, without the engine's code. Then the
//! target changes bytes of blocks under right checksums, and bytes of the file without.
//!
//! Invariants: an open ends without a panic. An open names the fault and fails, or has exactly the plan's rows, unless
//! the target changed bytes under right checksums. Before the first row, the open names the first keys of the plan's
//! pages, and reports the rows beside the pages. An examination finds damage if an open does.
//!
//! Neighbours: `ensile_durability::recover` and `examine`, on the simulated disk; `log_blocks` has the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ensile_base::checksum::{crc32c, crc32c_append};
use ensile_base::limits::{SEQUENCE_BITS, STATUS_BITS};
use ensile_disk::{Disk, FolderId};
use ensile_durability::examination::examine;
use ensile_durability::{DurabilityError, Entry, LoadedPages, LogConfig, Recoverable, Refused, recover};
use ensile_sim::SimDisk;

use crate::input::Input;
use crate::log_blocks::{IDENTITY, SALT, Writer, put, with_checksum};

const HEADER_BYTES: usize = 80;
const UNIT_BYTES: usize = 4096;
/// Salt of the page file.
const PAGES_SALT: u32 = 0x5a17_0001;
/// e_c of the picture and of the picture before. `NUMBERS` has the numbers of both pictures.
const SHOWN: [u64; 2] = [10, 7];
const NUMBERS: [u64; 2] = [5, 4];
const NEXT_PAGE: u64 = 1000;
const PAGES_MAX: usize = 24;
/// Number of pages in a part of the directory.
const PART_PAGES: usize = 5;
/// Bytes of a page's block: a longer page is cut into blocks.
const BLOCK_BYTES: usize = 100;
const TWEAKS_MAX: usize = 4;
const DAMAGES_MAX: usize = 8;

/// Rows by section and body, with their TIDs.
type Rows = BTreeMap<(u32, Vec<u8>), u64>;

/// First keys of pages by section.
type Bounds = BTreeMap<u32, Vec<Vec<u8>>>;

/// Loaded rows. A body is a key of one byte, and a value.
#[derive(Default)]
struct Loaded {
    rows: Mutex<Rows>,
    bounds: Mutex<Bounds>,
    /// Rows loaded from beside pages.
    beside: Mutex<Rows>,
}

impl Recoverable for Loaded {
    fn replay(&self, _: &[Entry<'_>]) -> Result<(), Refused> {
        unreachable!("the log has no entries")
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut rows = self.rows.lock().expect("no panic");
        for (at, Entry { tid, body }) in entries.iter().enumerate() {
            let before = rows.insert((section, body.to_vec()), tid.bits());
            if before.is_some_and(|before| before != tid.bits()) {
                return Err(Refused { entry: at, detail: "with another TID".to_owned() });
            }
        }
        Ok(())
    }

    fn load_pages(&self, pages: &LoadedPages<'_>) -> bool {
        assert!(self.rows.lock().expect("no panic").is_empty(), "pages are named before rows");
        assert_eq!(pages.epoch.number(), SHOWN[0]);
        let first_keys = pages.first_keys.iter().map(|key| key.to_vec()).collect();
        let before = self.bounds.lock().expect("no panic").insert(pages.section, first_keys);
        assert!(before.is_none(), "a section is named once");
        true
    }

    fn load_displaced(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let rows = entries.iter().map(|Entry { tid, body }| ((section, body.to_vec()), tid.bits()));
        self.beside.lock().expect("no panic").extend(rows);
        self.load(section, entries)
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        body.get(..1)
    }
}

/// A change of a block before the checksums are computed: block number, byte of header or payload, and mask.
#[derive(Clone, Copy)]
struct Tweak {
    block: usize,
    at: usize,
    mask: u8,
}

/// Fields of a header, in the order of the format.
#[derive(Clone, Copy, Default)]
struct Fields {
    kind: u8,
    sequence: u64,
    section: u32,
    /// Writing picture: 0 is this picture, 1 is the picture before.
    picture: usize,
    entries: u32,
    previous: u32,
}

/// Units and header checksum of a block, in the form of a place.
#[derive(Clone, Copy)]
struct Place {
    unit: u32,
    units: u32,
    crc: u32,
}

impl Place {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&0_u16.to_le_bytes());
        [self.unit, self.units, self.crc].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

/// The page file while it is written.
struct PageFile {
    bytes: Vec<u8>,
    tweaks: Vec<Tweak>,
    blocks: usize,
    /// Bytes of extents.
    extents: u64,
    /// Places of tails, as the root has them.
    tails: Vec<Vec<u8>>,
    /// Start and end of every block, in bytes.
    used: Vec<(usize, usize)>,
}

impl PageFile {
    fn new(tweaks: Vec<Tweak>) -> Self {
        let (bytes, tails, used) = (Vec::new(), Vec::new(), Vec::new());
        let mut file = Self { bytes, tweaks: Vec::new(), blocks: 0, extents: 0, tails, used };
        let mut origin = [0; 48];
        origin[..16].copy_from_slice(&IDENTITY.to_be_bytes());
        origin[16..20].copy_from_slice(&PAGES_SALT.to_le_bytes());
        let mut header = file.header(Fields { kind: 11, sequence: 1, ..Fields::default() }, 48);
        [40, 48, 56].iter().for_each(|at| header[*at..*at + 8].fill(0));
        file.seal(&mut header, &origin, 0);
        file.tweaks = tweaks;
        file
    }

    fn header(&self, fields: Fields, payload_bytes: usize) -> [u8; HEADER_BYTES] {
        let unit = (self.bytes.len() / UNIT_BYTES) as u64;
        let mut header = [0; HEADER_BYTES];
        header[..7].copy_from_slice(&[b'E', b'n', b's', b'B', 5, 0, fields.kind]);
        header[12..16].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
        let (epoch, number) = (SHOWN[fields.picture], NUMBERS[fields.picture]);
        let longs = [1, fields.sequence, u64::from(fields.section), epoch, unit, number];
        for (at, long) in (16..).step_by(8).zip(longs) {
            header[at..at + 8].copy_from_slice(&long.to_le_bytes());
        }
        header[64..68].copy_from_slice(&fields.entries.to_le_bytes());
        header[68..72].copy_from_slice(&fields.previous.to_le_bytes());
        header
    }

    /// Adds a block with right checksums. Returns the header checksum.
    fn seal(&mut self, header: &mut [u8; HEADER_BYTES], payload: &[u8], salt: u32) -> u32 {
        let mut padded = payload.to_vec();
        padded.resize(payload.len().next_multiple_of(8), 0);
        header[72..76].copy_from_slice(&crc32c(&padded).to_le_bytes());
        let crc = crc32c_append(salt, &header[..76]);
        header[76..].copy_from_slice(&crc.to_le_bytes());
        let from = self.bytes.len();
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(&padded);
        self.used.push((from, self.bytes.len()));
        crc
    }

    /// Writes a block at the next unit. Returns the place, and the payload as written.
    fn block(&mut self, fields: Fields, payload: Vec<u8>) -> (Place, Vec<u8>) {
        self.bytes.resize(self.bytes.len().next_multiple_of(UNIT_BYTES), 0);
        let unit = (self.bytes.len() / UNIT_BYTES) as u32;
        let (crc, payload) = self.changed(fields, payload);
        let units = (HEADER_BYTES + payload.len().next_multiple_of(8)).div_ceil(UNIT_BYTES) as u32;
        self.extents += u64::from(units) * UNIT_BYTES as u64;
        (Place { unit, units, crc }, payload)
    }

    /// Writes a version into the tail of the last written page.
    fn tail(&mut self, number: u64, beside: &Beside) {
        let (unit, unit_offset) = (self.bytes.len() / UNIT_BYTES, self.bytes.len() % UNIT_BYTES);
        let mut payload = Vec::new();
        beside.row.encode(Some(beside.section), &mut payload);
        let fields = Fields { kind: 8, sequence: number, entries: 1, ..Fields::default() };
        let (crc, _) = self.changed(fields, payload);
        let bytes = self.bytes.len() - unit * UNIT_BYTES - unit_offset;
        let mut place = number.to_le_bytes().to_vec();
        place.extend_from_slice(&0_u16.to_le_bytes());
        place.extend_from_slice(&(unit as u32).to_le_bytes());
        place.extend_from_slice(&(unit_offset as u16).to_le_bytes());
        place.extend_from_slice(&(bytes as u16).to_le_bytes());
        place.extend_from_slice(&crc.to_le_bytes());
        self.tails.push(place);
    }

    /// Writes a block with the planned changes. Returns the header checksum, and the payload as written.
    fn changed(&mut self, fields: Fields, mut payload: Vec<u8>) -> (u32, Vec<u8>) {
        let mut header = self.header(fields, payload.len());
        for tweak in self.tweaks.iter().filter(|tweak| tweak.block == self.blocks) {
            let at = tweak.at % (72 + payload.len());
            match at.checked_sub(72) {
                None => header[at] ^= tweak.mask,
                Some(at) => payload[at] ^= tweak.mask,
            }
        }
        self.blocks += 1;
        let crc = self.seal(&mut header, &payload, PAGES_SALT);
        (crc, payload)
    }

    /// Writes a page's blocks and tail. Returns the page's place in the directory.
    fn page(&mut self, page: &PlannedPage, beside: &[Beside]) -> Vec<u8> {
        let mut payload = Vec::new();
        page.rows.iter().for_each(|row| row.encode(None, &mut payload));
        let (mut places, mut whole): (Vec<Place>, Vec<u8>) = (Vec::new(), Vec::new());
        for chunk in payload.chunks(BLOCK_BYTES) {
            let (kind, entries) =
                if places.is_empty() { (6, page.rows.len() as u32) } else { (7, places.len() as u32) };
            let previous = places.last().map_or(0, |place| place.crc);
            let (section, picture, sequence) = (page.section, page.picture, page.number);
            let fields = Fields { kind, sequence, section, picture, entries, previous };
            let (place, written) = self.block(fields, chunk.to_vec());
            places.push(place);
            whole.extend(written);
        }
        for (number, beside) in beside.iter().enumerate() {
            if beside.behind == Some(page.number) {
                self.tail(number as u64, beside);
            }
        }
        let mut out = bound(page);
        out.extend_from_slice(&page.number.to_le_bytes());
        out.extend_from_slice(&NUMBERS[page.picture].to_le_bytes());
        out.extend_from_slice(&(page.rows.len() as u32).to_le_bytes());
        out.extend_from_slice(&crc32c(&whole).to_le_bytes());
        out.extend_from_slice(&(places.len() as u16).to_le_bytes());
        places.iter().for_each(|place| place.encode(&mut out));
        out
    }
}

struct Row {
    key: u8,
    epoch: u64,
    value: Vec<u8>,
}

impl Row {
    fn tid(&self) -> u64 {
        self.epoch << (SEQUENCE_BITS + STATUS_BITS)
    }

    fn body(&self) -> Vec<u8> {
        [&[self.key][..], &self.value].concat()
    }

    /// Appends the row as an entry of a page, or with `section` as an entry of a block of several sections.
    fn encode(&self, section: Option<u32>, out: &mut Vec<u8>) {
        let mut body = section.map_or_else(Vec::new, |section| section.to_le_bytes().to_vec());
        body.extend(self.body());
        out.extend_from_slice(&self.tid().to_le_bytes());
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&body);
    }
}

/// A version beside the pages.
struct Beside {
    section: u32,
    row: Row,
    /// Number of the page with the version in the tail; `None` for a version in a separate block.
    behind: Option<u64>,
}

struct PlannedPage {
    section: u32,
    /// First key; `None` for the section's first page.
    first: Option<u8>,
    number: u64,
    picture: usize,
    rows: Vec<Row>,
}

fn bound(page: &PlannedPage) -> Vec<u8> {
    let mut out = page.section.to_le_bytes().to_vec();
    out.extend_from_slice(&u16::from(page.first.is_some()).to_le_bytes());
    out.extend(page.first);
    out
}

/// Pages in the order of sections. A page has a few rows within the range of the page.
fn planned(input: &mut Input<'_>) -> Vec<PlannedPage> {
    let mut pages: Vec<PlannedPage> = Vec::new();
    for number in 0..1 + input.choice(PAGES_MAX) {
        let section = pages.last().map_or(1, |last| last.section + u32::from(input.byte().is_multiple_of(4)));
        let before = pages.last().filter(|last| last.section == section);
        let first = before.map(|last| last.first.unwrap_or(0) + 8);
        let picture = input.choice(2);
        let mut rows = Vec::new();
        for key in 0..input.choice(5) as u8 {
            let epoch = 1 + u64::from(input.byte()) % SHOWN[picture];
            let bytes = input.choice(60);
            rows.push(Row { key: first.unwrap_or(0) + key, epoch, value: input.bytes(bytes).to_vec() });
        }
        pages.push(PlannedPage { section, first, number: number as u64, picture, rows });
    }
    pages
}

/// A picture, as the manifest names it.
struct PictureFacts {
    /// Place of the directory's root.
    root: Place,
    entries: u64,
    pages: u64,
    /// Bytes of extents.
    bytes: u64,
}

/// Writes pages, versions beside pages, directory and root.
fn write(file: &mut PageFile, pages: &[PlannedPage], beside: &[Beside]) -> PictureFacts {
    let mut root = Vec::new();
    let parts = pages.chunks(PART_PAGES);
    let count = parts.len() as u32;
    for (number, part) in parts.enumerate() {
        let before = file.extents;
        let places: Vec<u8> = part.iter().flat_map(|page| file.page(page, beside)).collect();
        let bytes = file.extents - before;
        let sequence = number as u64;
        let fields = Fields { kind: 9, sequence, entries: part.len() as u32, ..Fields::default() };
        let (place, _) = file.block(fields, places);
        root.extend(bound(&part[0]));
        root.extend_from_slice(&(number as u64).to_le_bytes());
        root.extend_from_slice(&NUMBERS[0].to_le_bytes());
        root.extend_from_slice(&(part.len() as u32).to_le_bytes());
        root.extend_from_slice(&bytes.to_le_bytes());
        place.encode(&mut root);
    }
    let kind = if file.tails.is_empty() { 10 } else { 12 };
    if !file.tails.is_empty() {
        root.extend_from_slice(&(file.tails.len() as u32).to_le_bytes());
        root.extend(file.tails.iter().flatten());
    }
    for (number, Beside { section, row, .. }) in
        beside.iter().enumerate().filter(|(_, beside)| beside.behind.is_none())
    {
        let mut payload = Vec::new();
        row.encode(Some(*section), &mut payload);
        let sequence = number as u64;
        let (place, _) = file.block(Fields { kind: 8, sequence, entries: 1, ..Fields::default() }, payload);
        root.extend_from_slice(&(number as u64).to_le_bytes());
        root.extend_from_slice(&NUMBERS[0].to_le_bytes());
        place.encode(&mut root);
    }
    let (root, _) = file.block(Fields { kind, entries: count, ..Fields::default() }, root);
    let rows: usize = pages.iter().map(|page| page.rows.len()).sum();
    let (entries, pages) = ((rows + beside.len()) as u64, pages.len() as u64);
    PictureFacts { root, entries, pages, bytes: file.extents }
}

/// The plan's first byte is the number of pages. Then come the rows of the pages, versions beside the pages, and
/// changes under right checksums. The rest of the input is damage.
pub fn page_files(data: &[u8]) {
    let mut input = Input::new(data);
    let pages = planned(&mut input);
    let mut rows = Rows::new();
    for page in &pages {
        rows.extend(page.rows.iter().map(|row| ((page.section, row.body()), row.tid())));
    }
    let mut beside: Vec<Beside> = Vec::new();
    for _ in 0..input.choice(4) {
        // A copy of a version in the page (N11), or a version missing from the page.
        let page = &pages[input.choice(pages.len())];
        let how = if page.rows.is_empty() { 1 } else { input.byte() };
        let copied = page.rows.first().filter(|_| how.is_multiple_of(2));
        // A page has at most one version in the tail, and only a page of this picture has a tail.
        let has_tail = beside.iter().any(|other| other.behind == Some(page.number));
        let behind = (how & 2 > 0 && page.picture == 0 && !has_tail).then_some(page.number);
        let row = match copied {
            Some(Row { key, epoch, value }) => Row { key: *key, epoch: *epoch, value: value.clone() },
            None => {
                Row { key: page.first.unwrap_or(0) + 7, epoch: SHOWN[0], value: vec![beside.len() as u8] }
            }
        };
        rows.insert((page.section, row.body()), row.tid());
        beside.push(Beside { section: page.section, row, behind });
    }
    let tweaks: Vec<Tweak> = (0..input.choice(TWEAKS_MAX + 1))
        .map(|_| Tweak { block: usize::from(input.byte()), at: usize::from(input.u16()), mask: input.byte() })
        .collect();
    let is_tweaked = !tweaks.is_empty();
    let mut file = PageFile::new(tweaks);
    let facts = write(&mut file, &pages, &beside);
    let written = file.bytes.clone();
    for _ in 0..DAMAGES_MAX {
        if input.is_empty() {
            break;
        }
        let (at, mask) = (usize::from(input.u16()) * 7 % file.bytes.len().max(1), input.byte());
        match mask {
            0 => file.bytes.truncate(at),
            _ if at < file.bytes.len() => file.bytes[at] ^= mask,
            _ => {}
        }
    }
    let is_damaged =
        file.used.iter().any(|(from, to)| file.bytes.get(*from..*to) != Some(&written[*from..*to]));
    let disk = folder(&file.bytes, &facts);
    let mut bounds = Bounds::new();
    for page in &pages {
        bounds.entry(page.section).or_default().push(page.first.into_iter().collect());
    }
    let beside =
        beside.iter().map(|beside| ((beside.section, beside.row.body()), beside.row.tid())).collect();
    judge(&disk, FilePlan { rows, bounds, beside, is_tweaked, is_damaged });
}

/// A database with a log without entries. The manifest names the picture.
fn folder(page_file: &[u8], facts: &PictureFacts) -> SimDisk {
    let PictureFacts { root, entries, pages, bytes } = facts;
    let disk = SimDisk::new();
    let number = |folder: &str| {
        let FolderId { inode, born_nanos } = disk.folder_id(folder).expect("it is there");
        let born = born_nanos.map_or("none".to_owned(), |born| born.to_string());
        format!("inode {inode} born {born}")
    };
    let main = number("");
    let mut folders = format!("folder . {main}\n");
    for (folder, file, bytes) in
        [("checkpoint0", "pages-1", page_file), ("log0", "log-1-0", &Writer::marked(SHOWN[0])[..])]
    {
        disk.create_folder(folder).expect("a new disk");
        put(&disk, &format!("{folder}/{file}"), bytes);
        let mark = format!("ensile folder 1\ndatabase {IDENTITY:032x} name {folder}\nmain {main}\n");
        put(&disk, &format!("{folder}/FOLDER"), with_checksum(&mark).as_bytes());
        folders.push_str(&format!("folder {folder} {}\n", number(folder)));
    }
    let Place { unit, units, crc } = root;
    let (reserved, picture, epoch) = (1_u64 << 40, NUMBERS[0], SHOWN[0]);
    let manifest = format!(
        "ensile manifest 4\ndatabase {IDENTITY:032x} parent none state created\nreserved {reserved}\n{folders}\
         picture {picture} generation 1 epoch {epoch} entries {entries} bytes {bytes} pages {pages} next {NEXT_PAGE} \
         root 0:{unit}:{units} seal {crc:08x} database {IDENTITY:032x}\npages 0 file 1 salt {PAGES_SALT:08x}\n\
         generation 1 first 1 format 4 entries values logs 1 salt {SALT:08x} database {IDENTITY:032x}\n"
    );
    put(&disk, "MANIFEST", with_checksum(&manifest).as_bytes());
    disk
}

/// Contents of a page file, by the plan, and the target's changes.
struct FilePlan {
    rows: Rows,
    bounds: Bounds,
    /// Rows beside pages.
    beside: Rows,
    /// True if a block was changed under right checksums.
    is_tweaked: bool,
    /// True if a block was changed without right checksums.
    is_damaged: bool,
}

/// Examines and opens the disk, and compares both outcomes with the plan.
fn judge(disk: &SimDisk, plan: FilePlan) {
    let FilePlan { rows, bounds, beside, is_tweaked, is_damaged } = plan;
    let (loaded, examined) = (Loaded::default(), Loaded::default());
    let on: Arc<dyn Disk> = Arc::new(disk.fork());
    let found = examine(&on, &examined).expect("it can be read");
    let opened = recover(Arc::new(disk.fork()), LogConfig { loggers: 1, ..LogConfig::default() }, &loaded);
    assert_eq!(opened.is_ok(), found.is_whole(), "{opened:?}, and {found:?}");
    match opened {
        Ok(_) => {
            let [found, displaced] =
                [loaded.rows, loaded.beside].map(|rows| rows.into_inner().expect("no panic"));
            assert!(is_tweaked || found == rows, "other rows than were planned");
            assert!(is_tweaked || displaced == beside, "other rows beside pages than were planned");
            let named = loaded.bounds.into_inner().expect("no panic");
            assert!(is_tweaked || named == bounds, "other pages than were planned");
            assert!(is_tweaked || !is_damaged, "a block is damaged, and nothing was said");
        }
        Err(
            DurabilityError::Damaged { .. }
            | DurabilityError::Unknown { .. }
            | DurabilityError::Replay { .. }
            | DurabilityError::NotOurs { .. },
        ) => assert!(is_tweaked || is_damaged, "every block follows the rules"),
        Err(other) => panic!("nothing of the kind was done: {other}"),
    }
}
