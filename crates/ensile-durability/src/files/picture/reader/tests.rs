//! A small picture, read: whole, with every bit flipped and at every length, and with all that can be wrong with it
//! though every checksum is right.

use ensile_base::checksum::crc32c;
use ensile_sim::SimDisk;

use super::super::blocks::{encode, encode_block, encode_opening};
use super::super::directory::encode_part;
use super::super::location::{PageBound, PictureStamp};
use super::super::root::{DirectoryPlace, RemovesPlace, TailPlace};
use super::*;
use crate::files::block::Salt;
use crate::files::block::extent::Extent;
use crate::files::block::origin::{OPENING_BYTES, Origin, PartPlace};
use crate::files::manifest::installed_checkpoint::ListedPageFile;
use crate::identity::Identity;
use crate::samples::{identity, reseal};
use crate::{Refused, near_duplicates};

const OWN: PictureStamp = PictureStamp { checkpoint: 9, generation: 3, epoch: Epoch::new(20) };
const BEFORE: PictureStamp = PictureStamp { checkpoint: 7, generation: 2, epoch: Epoch::new(12) };
const NEXT_PAGE: u64 = 100;
/// A page with more is cut into blocks.
const BLOCK_BYTES: usize = 60;

/// An entry: its key, and its TID's epoch.
pub(crate) type DraftEntry = (&'static str, u64);

/// A page before it is written, with all that it says of itself.
#[derive(Clone)]
pub(crate) struct DraftPage {
    pub(crate) section: u32,
    pub(crate) first_key: &'static str,
    pub(crate) number: u64,
    pub(crate) stamp: PictureStamp,
    pub(crate) folder: u16,
    pub(crate) entries: Vec<DraftEntry>,
}

/// A picture before it is written.
#[derive(Clone)]
pub(crate) struct Draft {
    /// The pages of each part.
    pub(crate) parts: Vec<Vec<DraftPage>>,
    /// What was left beside pages: a block each.
    pub(crate) removes: Vec<Vec<u8>>,
    /// The same in tails, each of the page with this number.
    pub(crate) tails: Vec<(u64, Vec<u8>)>,
    /// Changes of what is right, each behind what it changes was made and before that is written.
    pub(crate) change_header: fn(Header) -> Header,
    pub(crate) change_page: fn(PagePlace) -> PagePlace,
    pub(crate) change_part: fn(DirectoryPlace) -> DirectoryPlace,
    pub(crate) change_root: fn(&mut Root),
    pub(crate) change_picture: fn(&mut PictureCheckpoint),
}

pub(crate) fn page(section: u32, first_key: &'static str, number: u64, entries: &[DraftEntry]) -> DraftPage {
    DraftPage { section, first_key, number, stamp: OWN, folder: 0, entries: entries.to_vec() }
}

fn entry(key: &[u8], epoch: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&Tid::first_of(Epoch::new(epoch)).bits().to_le_bytes());
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
}

pub(crate) fn beside(section: u32, key: &str, epoch: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    entry(&[&section.to_le_bytes()[..], key.as_bytes()].concat(), epoch, &mut payload);
    payload
}

/// Two tables in two parts and two folders: pages of this picture and of one before, an empty one, one of several
/// blocks; and four versions beside them, two of them in tails.
pub(crate) fn whole() -> Draft {
    let older = DraftPage { stamp: BEFORE, folder: 1, ..page(3, "g", 12, &[("h", 12), ("k", 4)]) };
    let long = [("p1", 20), ("p2", 1), ("p3", 2), ("p4", 3), ("p5", 4), ("p6", 5), ("p7", 6), ("p8", 7)];
    Draft {
        parts: vec![
            vec![page(3, "", 40, &[("a", 3), ("b", 20)]), older],
            vec![
                page(3, "p", 41, &long),
                DraftPage { folder: 1, ..page(5, "", 42, &[]) },
                page(5, "x", 43, &[("x", 2)]),
            ],
        ],
        removes: vec![beside(3, "k", 4), beside(5, "y", 20)],
        tails: vec![(40, beside(5, "z", 7)), (41, beside(3, "c", 9))],
        change_header: |header| header,
        change_page: |page| page,
        change_part: |part| part,
        change_root: |_| {},
        change_picture: |_| {},
    }
}

fn salt(folder: u16) -> Salt {
    Salt::parse(&format!("5e6f7a{folder:02x}")).expect("a salt")
}

/// Page files while they are made.
struct Making {
    files: [Vec<u8>; 2],
    change_header: fn(Header) -> Header,
    tails: Vec<TailPlace>,
}

/// The number of the first tail.
const TAIL: u64 = 50;

impl Making {
    fn write(&mut self, header: Header, folder: u16, payload: &[u8]) -> ExtentPlace {
        let file = &mut self.files[usize::from(folder)];
        file.resize(file.len().next_multiple_of(UNIT_BYTES), 0);
        let first = (file.len() / UNIT_BYTES) as u32;
        let extent = Extent { folder, first, units: Extent::units_of(payload.len()) };
        let header = Header { owner: u32::from(folder), first_unit: first, ..header };
        let header = Header { first_unit: first, ..(self.change_header)(header) };
        let mut block = Vec::new();
        let place = encode_block(header, extent, payload, salt(folder), &mut block);
        file.extend_from_slice(&block);
        place
    }

    /// Puts a tail behind the block that was written last into this folder's file.
    fn tail(&mut self, folder: u16, payload: &[u8]) {
        let file = &mut self.files[usize::from(folder)];
        let (unit, unit_offset) = ((file.len() / UNIT_BYTES) as u32, (file.len() % UNIT_BYTES) as u16);
        let number = TAIL + self.tails.len() as u64;
        let extent = Extent { folder, first: unit, units: 1 };
        let header = Header { entries: 1, ..OWN.header(BlockKind::PendingRemoves, number, extent) };
        let mut block = Vec::new();
        let header_crc = encode((self.change_header)(header), payload, salt(folder), &mut block);
        file.extend_from_slice(&block);
        let bytes = block.len() as u16;
        self.tails.push(TailPlace { number, folder, unit, unit_offset, bytes, header_crc });
    }

    fn page(&mut self, page: &DraftPage) -> PagePlace {
        let DraftPage { section, number, stamp, folder, .. } = *page;
        let anywhere = Extent { folder, first: 1, units: 1 };
        let mut payload = Vec::new();
        page.entries.iter().for_each(|(key, epoch)| entry(key.as_bytes(), *epoch, &mut payload));
        let mut extents: Vec<ExtentPlace> = Vec::new();
        for chunk in payload.chunks(BLOCK_BYTES) {
            let (kind, entries, previous_crc) = match extents.last() {
                None => (BlockKind::Page, page.entries.len() as u32, 0),
                Some(before) => (BlockKind::Continuation, extents.len() as u32, before.header_crc),
            };
            let header = Header { section, entries, previous_crc, ..stamp.header(kind, number, anywhere) };
            extents.push(self.write(header, folder, chunk));
        }
        PagePlace {
            bound: PageBound { section, first_key: page.first_key.as_bytes().into() },
            number,
            checkpoint: stamp.checkpoint,
            entries: page.entries.len() as u32,
            payload_crc: crc32c(&payload),
            extents: extents.into(),
        }
    }
}

/// A disk with the picture, and what the manifest says of it.
pub(crate) fn written(draft: &Draft) -> (SimDisk, PictureCheckpoint) {
    let name = |folder| PageFileName { folder, number: 6 + u64::from(folder) };
    let of_file = |folder: u16| {
        let origin = Origin { identity: identity(), salt: salt(folder), entries: EntryKind::Values };
        encode_opening(&origin, name(u32::from(folder)), 1).to_vec()
    };
    let files = [of_file(0), of_file(1)];
    let mut making = Making { files, change_header: draft.change_header, tails: Vec::new() };
    let anywhere = Extent { folder: 1, first: 1, units: 1 };
    let (mut root, mut entries, mut bytes, mut pages) = (Root::default(), 0, 0, 0);
    for (number, part) in draft.parts.iter().enumerate() {
        let mut places: Vec<PagePlace> = Vec::new();
        for page in part {
            places.push((draft.change_page)(making.page(page)));
            for (_, payload) in draft.tails.iter().filter(|(number, _)| *number == page.number) {
                making.tail(page.folder, payload);
                entries += 1;
            }
        }
        let header = OWN.header(BlockKind::DirectoryPart, number as u64, anywhere);
        let header = Header { entries: places.len() as u32, ..header };
        let place = making.write(header, 1, &encode_part(&places));
        let own_bytes = places.iter().map(PagePlace::bytes).sum::<u64>();
        entries += places.iter().map(|page| u64::from(page.entries)).sum::<u64>();
        bytes += own_bytes + place.extent.bytes();
        pages += places.len() as u64;
        root.parts.push((draft.change_part)(DirectoryPlace {
            bound: places[0].bound.clone(),
            number: number as u64,
            checkpoint: OWN.checkpoint,
            pages: places.len() as u32,
            bytes: own_bytes,
            place,
        }));
    }
    for (number, payload) in draft.removes.iter().enumerate() {
        let header = OWN.header(BlockKind::PendingRemoves, number as u64, anywhere);
        let place = making.write(Header { entries: 1, ..header }, 0, payload);
        root.removes.push(RemovesPlace { number: number as u64, checkpoint: OWN.checkpoint, place });
        (entries, bytes) = (entries + 1, bytes + place.extent.bytes());
    }
    root.tails = std::mem::take(&mut making.tails);
    root.tails.sort_unstable_by_key(TailPlace::in_unit);
    (draft.change_root)(&mut root);
    let header = Header { entries: root.parts.len() as u32, ..OWN.header(root.kind(), 0, anywhere) };
    let place = making.write(header, 1, &root.encode(OWN.checkpoint));
    let listed = |folder: u16| ListedPageFile { name: name(u32::from(folder)), salt: salt(folder) };
    let mut of = PictureCheckpoint {
        number: OWN.checkpoint,
        generation: OWN.generation,
        epoch: OWN.epoch,
        entries,
        bytes: bytes + place.extent.bytes(),
        pages,
        next_page: NEXT_PAGE,
        root: place,
        database: identity(),
        files: vec![listed(0), listed(1)],
    };
    (draft.change_picture)(&mut of);
    let disk = SimDisk::new();
    for (folder, bytes) in making.files.into_iter().enumerate() {
        disk.put(&name(folder as u32).to_string(), bytes);
    }
    (disk, of)
}

/// A body is a key.
pub(crate) struct Keys;

impl Recoverable for Keys {
    fn replay(&self, _: &[Entry<'_>]) -> Result<(), Refused> {
        unreachable!("nothing is replayed")
    }

    fn load(&self, _: u32, _: &[Entry<'_>]) -> Result<(), Refused> {
        unreachable!("entries are taken apart here")
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        Some(body)
    }
}

/// By section and key, the epoch.
type Rows = BTreeMap<(u32, Vec<u8>), Epoch>;

/// All of a picture.
fn read(disk: &SimDisk, of: &PictureCheckpoint) -> Result<(Rows, PictureReader), DurabilityError> {
    let reader = PictureReader::open(disk, of)?;
    reader.check_kind(EntryKind::Values)?;
    let mut rows = Rows::new();
    let mut take = |read: &ReadEntries<'_>| {
        let sections = read.by_section(&Keys);
        let sections =
            sections.map_err(|detail| DurabilityError::damaged_file(read.file, read.offset, detail))?;
        for (section, entries) in sections {
            for Entry { tid, body } in entries {
                let before = rows.insert((section, body.to_vec()), tid.epoch());
                assert!(before.is_none_or(|before| before == tid.epoch()), "N11");
            }
        }
        Ok(())
    };
    for part in 0..reader.root().parts.len() {
        reader.pages_of(part, &mut take)?;
    }
    for block in 0..reader.root().removes_block_count() {
        take(&reader.removes(block, &mut PageBuffers::default())?)?;
    }
    reader.check_reached()?;
    Ok((rows, reader))
}

/// The file, the offset and what is wrong.
fn damage(outcome: Result<(Rows, PictureReader), DurabilityError>) -> Option<(String, u64, String)> {
    match outcome {
        Ok(_) => None,
        Err(DurabilityError::Damaged { file, offset, detail }) => Some((file, offset, detail)),
        Err(other) => panic!("not damage: {other}"),
    }
}

fn rows_of(draft: &Draft) -> Rows {
    let pages = draft.parts.iter().flatten();
    let entries = pages.flat_map(|page| page.entries.iter().map(|(key, epoch)| (page.section, *key, *epoch)));
    let beside = [(3, "k", 4), (5, "y", 20), (5, "z", 7), (3, "c", 9)];
    let row =
        |(section, key, epoch): (u32, &str, u64)| ((section, key.as_bytes().to_vec()), Epoch::new(epoch));
    entries.chain(beside).map(row).collect()
}

#[test]
fn a_picture_is_read_as_it_was_written_and_counted() {
    let draft = whole();
    let (disk, of) = written(&draft);
    let (rows, reader) = read(&disk, &of).expect("whole");
    assert_eq!(rows, rows_of(&draft));
    let blocks_read = reader.blocks_read();
    let sections: Vec<_> =
        blocks_read.sections.iter().map(|(number, of)| (*number, of.pages, of.entries)).collect();
    assert_eq!(sections, [(3, 3, 12), (5, 2, 1)]);
    // An entry is framed by twelve bytes.
    let payload: Vec<_> = blocks_read.sections.values().map(|of| of.payload_bytes).collect();
    assert_eq!(payload, [4 * 13 + 8 * 14, 13]);
    assert_eq!((blocks_read.removes, blocks_read.tails, blocks_read.displaced), (2, 2, 4));
    assert_eq!(blocks_read.tail_bytes, 2 * (HEADER_BYTES as u64 + 24));
    let ages: Vec<_> = blocks_read.ages.iter().map(|(checkpoint, age)| (*checkpoint, age.pages)).collect();
    assert_eq!(ages, [(7, 1), (9, 4)]);
    let used: u64 = reader.files().map(|(file, _)| blocks_read.bytes_in(file)).sum();
    assert_eq!(used, of.bytes);
}

#[test]
fn every_flipped_bit_and_every_length_is_damage_with_file_and_offset_or_changes_nothing() {
    let (disk, of) = written(&whole());
    let expected = read(&disk, &of).expect("whole").0;
    let (mut found, mut harmless) = (0, 0);
    for name in disk.files() {
        let bytes = disk.bytes(&name);
        let used = |at: usize| bytes[at - at % UNIT_BYTES..].iter().take(UNIT_BYTES).rposition(|b| *b != 0);
        let mut judge = |hurt: &SimDisk, at: usize, is_used: bool| match read(hurt, &of) {
            Ok((rows, _)) => {
                assert!(rows == expected && !is_used, "byte {at} of {name}");
                harmless += 1;
            }
            Err(DurabilityError::Damaged { file, offset, .. }) => {
                assert!(file == name && offset <= at as u64, "{file} at {offset}, not {name} at {at}");
                found += 1;
            }
            // A bit of the format or the kind, and of the checksum: not of one bit alone.
            Err(other) => panic!("byte {at} of {name}: {other}"),
        };
        for at in 0..bytes.len() {
            // Far behind a block one bit says what all others do.
            let last = used(at).unwrap_or(0) + 16;
            if at % UNIT_BYTES > last && at % 97 > 0 {
                continue;
            }
            for bit in 0..8 {
                let hurt = disk.fork();
                hurt.flip(&name, at as u64, 1 << bit);
                judge(&hurt, at, at % UNIT_BYTES < 80);
            }
            let hurt = disk.fork();
            hurt.put(&name, bytes[..at].to_vec());
            judge(&hurt, at, true);
        }
    }
    assert!(found > 10_000 && harmless > 1_000, "{found} and {harmless}");
}

#[test]
fn what_contradicts_itself_is_damage_though_every_checksum_is_right() {
    let with = |change: fn(&mut Draft)| {
        let mut draft = whole();
        change(&mut draft);
        draft
    };
    let cases: [(&str, Draft); 29] = [
        ("not below the picture's freeze", with(|d| d.parts[0][0].entries[1].1 = 21)),
        ("not below the picture's freeze", with(|d| d.parts[0][1].entries[0].1 = 13)),
        ("not below the picture's freeze", with(|d| d.removes[1] = beside(5, "y", 21))),
        ("not within its page", with(|d| d.parts[0][0].entries[1].0 = "g")),
        ("not within its page", with(|d| d.parts[0][1].entries[1].0 = "p")),
        ("not within its page", with(|d| d.parts[1][0].entries[0].0 = "o")),
        ("not above the one before", with(|d| d.parts[0][0].entries[1].0 = "a")),
        ("its section", with(|d| d.removes[1] = beside(5, "", 20)[..12 + 3].to_vec())),
        ("number that MANIFEST says", with(|d| d.parts[0][0].number = NEXT_PAGE)),
        ("the number of another one", with(|d| d.parts[1][2].number = 40)),
        ("other pages than MANIFEST", with(|d| d.change_picture = |of| of.pages += 1)),
        (
            "not the one that stands here",
            with(|d| {
                d.change_header = |header| match header.checkpoint {
                    7 => Header { epoch_max: OWN.epoch, ..header },
                    _ => header,
                }
            }),
        ),
        (
            "not the one that stands here",
            with(|d| {
                d.change_header = |header| match header.kind {
                    BlockKind::PendingRemoves => Header { generation: 2, ..header },
                    _ => header,
                }
            }),
        ),
        (
            "of its page that stands here",
            with(|d| {
                d.change_header = |header| match header.kind {
                    BlockKind::Continuation => Header { entries: 1 + header.entries, ..header },
                    _ => header,
                }
            }),
        ),
        ("of its page that stands here", with(|d| d.change_header = other_section)),
        ("of its page that stands here", with(|d| d.change_header = other_block_before)),
        (
            "of its page that stands here",
            with(|d| {
                d.parts[0][1].entries = LONG_AND_OLDER.to_vec();
                d.change_header = other_epoch;
            }),
        ),
        ("not the one that stands here", with(|d| d.change_header = later_generation)),
        ("not below the picture's freeze", with(|d| d.tails[0].1 = beside(5, "z", 21))),
        // N10: a page that was kept has no tail of this picture.
        ("behind no page of this picture", with(|d| d.tails[0].0 = 12)),
        (
            "does not begin where the block of its page ends",
            with(|d| d.change_root = |root| root.tails[0].unit_offset += 8),
        ),
        (
            "not the one that stands here",
            with(|d| {
                d.change_header = |header| match header.sequence {
                    TAIL => Header { checkpoint: 7, ..header },
                    _ => header,
                }
            }),
        ),
        ("the root contradicts itself", with(|d| d.change_root = |root| root.tails[0].number = 1)),
        (
            "not the one that was written here",
            with(|d| d.change_root = |root| root.tails[0].header_crc = root.tails[1].header_crc),
        ),
        ("does not have its checksum", with(|d| d.change_page = other_checksum)),
        ("not the one that was written here", with(|d| d.change_root = |root| swap_removes(root))),
        (
            "the root contradicts itself",
            with(|d| d.change_part = |part| DirectoryPlace { number: 0, ..part }),
        ),
        (
            "the part of the directory contradicts itself",
            with(|d| d.change_part = |part| DirectoryPlace { bytes: part.bytes + 1, ..part }),
        ),
        (
            "a folder that MANIFEST does not list",
            with(|d| d.change_picture = |of| of.files.retain(|file| file.name.folder == 1)),
        ),
    ];
    for (wanted, draft) in cases {
        // The body of a version that lacks its section is shorter than it says; its length is made right.
        let mut draft = draft;
        if wanted == "its section" {
            draft.removes[1][8..12].copy_from_slice(&3_u32.to_le_bytes());
        }
        let (disk, of) = written(&draft);
        let (file, _, detail) = damage(read(&disk, &of)).unwrap_or_else(|| panic!("it is read: {wanted}"));
        assert!(detail.contains(wanted), "{wanted}: {file}: {detail}");
        assert!(file.contains("/pages-"), "{file}: {detail}");
    }
}

/// Entries of a page of the picture before, with several blocks.
const LONG_AND_OLDER: [DraftEntry; 6] = [("g1", 12), ("h1", 4), ("h2", 5), ("h3", 6), ("h4", 7), ("k", 4)];

/// A page's later block is of another section than the page.
fn other_section(header: Header) -> Header {
    let is_later = header.kind == BlockKind::Continuation;
    Header { section: header.section ^ u32::from(is_later), ..header }
}

/// A page's later block names another block before it.
fn other_block_before(header: Header) -> Header {
    let is_later = header.kind == BlockKind::Continuation;
    Header { previous_crc: header.previous_crc ^ u32::from(is_later), ..header }
}

/// A later block of an older page is of an older picture than the page.
fn other_epoch(header: Header) -> Header {
    let is_older = header.kind == BlockKind::Continuation && header.checkpoint == BEFORE.checkpoint;
    Header { epoch_max: if is_older { header.epoch_max.previous() } else { header.epoch_max }, ..header }
}

/// A page of an older picture is of a later generation than this one.
fn later_generation(header: Header) -> Header {
    let is_older = header.checkpoint == BEFORE.checkpoint;
    Header { generation: if is_older { OWN.generation + 1 } else { header.generation }, ..header }
}

fn other_checksum(page: PagePlace) -> PagePlace {
    let payload_crc = if page.entries > 0 { page.payload_crc ^ 1 } else { page.payload_crc };
    PagePlace { payload_crc, ..page }
}

/// Each has the header checksum of the other.
fn swap_removes(root: &mut Root) {
    let (one, other) = (root.removes[0].place.header_crc, root.removes[1].place.header_crc);
    (root.removes[0].place.header_crc, root.removes[1].place.header_crc) = (other, one);
}

#[test]
fn a_page_that_is_stale_or_another_ones_is_damage() {
    let (disk, of) = written(&whole());
    // What the picture before had at the same place: everything of it is right.
    let older = |draft: &mut Draft| draft.parts[0][0].entries[1].1 = 19;
    let mut draft = whole();
    older(&mut draft);
    let (before, _) = written(&draft);
    let name = "checkpoint0/pages-6";
    let unit = |disk: &SimDisk, at: usize| disk.bytes(name)[at * UNIT_BYTES..(at + 1) * UNIT_BYTES].to_vec();
    let put = |at: usize, bytes: &[u8]| {
        let hurt = disk.fork();
        let mut all = hurt.bytes(name);
        all[at * UNIT_BYTES..(at + 1) * UNIT_BYTES].copy_from_slice(bytes);
        hurt.put(name, all);
        hurt
    };
    for (hurt, at) in
        [(put(1, &unit(&before, 1)), 1), (put(1, &unit(&disk, 2)), 1), (put(2, &unit(&disk, 1)), 2)]
    {
        let (file, offset, detail) = damage(read(&hurt, &of)).expect("refused");
        assert_eq!((&*file, offset), (name, at as u64 * UNIT_BYTES as u64), "{detail}");
        assert!(detail.contains("was written here"), "{detail}");
    }
}

#[test]
fn two_blocks_that_share_a_unit_are_damage_though_both_are_right() {
    // A page whose entry holds, at a unit's beginning, all of another page's block.
    let mut making =
        Making { files: [vec![0; 128], vec![0; 128]], change_header: |header| header, tails: Vec::new() };
    let anywhere = Extent { folder: 0, first: 1, units: 1 };
    let mut payload = Vec::new();
    entry(b"b", 2, &mut payload);
    let inner_extent = Extent { first: 2, ..anywhere };
    let header = Header { section: 3, entries: 1, ..OWN.header(BlockKind::Page, 2, inner_extent) };
    let mut block = Vec::new();
    let inner = encode_block(header, inner_extent, &payload, salt(0), &mut block);
    let inner_crc = crc32c(&payload);
    let mut body = vec![b'a'; UNIT_BYTES - HEADER_BYTES - 12];
    body.extend_from_slice(&block);
    let mut payload = Vec::new();
    entry(&body, 2, &mut payload);
    let header = Header { section: 3, entries: 1, ..OWN.header(BlockKind::Page, 1, anywhere) };
    let outer = making.write(header, 0, &payload);
    let blocks_read = |extents: &[ExtentPlace]| {
        let mut blocks_read = BlocksRead::default();
        extents.iter().for_each(|place| blocks_read.add(place.extent));
        let file = PageFileName { folder: 0, number: 6 };
        blocks_read.fault_in(file, making.files[0].len() as u64)
    };
    assert_eq!((outer.extent.units, inner_crc == 0), (2, false));
    assert_eq!(blocks_read(&[outer]), None);
    assert_eq!(blocks_read(&[inner]), None);
    let (extent, detail) = blocks_read(&[outer, inner]).expect("they overlap");
    assert!(extent == inner.extent && detail.contains("share this place"), "{extent:?}: {detail}");
}

#[test]
fn a_file_that_is_missing_or_another_one_is_refused() {
    let (disk, of) = written(&whole());
    let name = "checkpoint1/pages-7";
    let missing = disk.fork();
    missing.lose(name);
    assert!(damage(read(&missing, &of)).expect("refused").2.contains("is missing"));
    let other = PictureCheckpoint { database: Identity::draw(), ..of.clone() };
    assert!(matches!(read(&disk, &other), Err(DurabilityError::NotOurs { .. })));
    let mut renamed = of.clone();
    renamed.files[1].name.number = 8;
    let copy = disk.fork();
    copy.put("checkpoint1/pages-8", disk.bytes(name));
    assert!(damage(read(&copy, &renamed)).expect("refused").2.contains("another page file"));
    let mut salted = of.clone();
    salted.files[1].salt = salt(9);
    assert!(damage(read(&disk, &salted)).expect("refused").2.contains("another page file"));
    let reader = PictureReader::open(&disk, &of).expect("opens");
    assert!(matches!(reader.check_kind(EntryKind::Operations), Err(DurabilityError::Unknown { .. })));
}

#[test]
fn i1_a_page_file_whose_opening_block_is_in_one_part_another_ones_is_refused() {
    let (disk, of) = written(&whole());
    let listed = of.files[1];
    let name = listed.name.to_string();
    let own = Origin { identity: identity(), salt: listed.salt, entries: EntryKind::Values };
    let header = Header { sequence: listed.name.number, ..Header::new(BlockKind::PagesOpening, 1, 1) };
    let opened = |header: &Header, origin: Origin, place: PartPlace| {
        let (copy, mut bytes) = (disk.fork(), disk.bytes(&name));
        bytes[..OPENING_BYTES].copy_from_slice(&origin.encode(header.clone(), place).0);
        copy.put(&name, bytes);
        read(&copy, &of).map(drop)
    };
    assert!(opened(&header, own, PartPlace::default()).is_ok());
    let headers = near_duplicates::headers(&header).into_iter();
    for (part, twin) in headers.filter(|(part, _)| ["owner", "sequence"].contains(part)) {
        assert!(opened(&twin, own, PartPlace::default()).is_err(), "{part}: {twin:?}");
    }
    for (generation, is_refused) in [(of.generation, false), (of.generation + 1, true)] {
        let found = opened(&Header { generation, ..header.clone() }, own, PartPlace::default());
        assert_eq!(found.is_err(), is_refused, "generation {generation}");
    }
    for (part, twin) in near_duplicates::origins(own).into_iter().filter(|(part, _)| *part != "entries") {
        assert!(opened(&header, twin, PartPlace::default()).is_err(), "{part}");
    }
    for place in [PartPlace { checkpoint: 1, file: 0 }, PartPlace { checkpoint: 0, file: 1 }] {
        assert!(opened(&header, own, place).is_err(), "{place:?}");
    }
}

#[test]
fn l7_what_a_newer_version_wrote_is_said_to_be_that() {
    let (disk, of) = written(&whole());
    let name = "checkpoint1/pages-7";
    let at = of.root.extent.offset() as usize;
    // An unknown kind, an unknown flag, a later format: of the root, and of the opening block.
    for (byte, value) in [(6, 77), (7, 2), (4, 6)] {
        for (block, salt) in [(at, salt(1)), (0, Salt::OPENING)] {
            let (disk, mut of, mut bytes) = (disk.fork(), of.clone(), disk.bytes(name));
            bytes[block + byte] = value;
            let crc = reseal(&mut bytes[block..], salt);
            disk.put(name, bytes);
            if block > 0 {
                of.root.header_crc = crc;
            }
            match read(&disk, &of).map(drop) {
                Err(DurabilityError::Unknown { file, offset, detail }) => {
                    assert_eq!((&*file, offset as usize), (name, block));
                    assert!(detail.contains("newer version"), "{detail}");
                }
                other => panic!("byte {byte} of the block at {block}: {other:?}"),
            }
        }
    }
}
