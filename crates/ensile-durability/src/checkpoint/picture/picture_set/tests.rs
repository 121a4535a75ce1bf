//! Pictures of a small state, one after the other, into page files: what stands there is read block by block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use ensile_base::checksum::crc32c;
use ensile_base::{Epoch, Tid};
use ensile_sim::SimDisk;

use super::*;
use crate::checkpoint::disk_space::DiskSpace;
use crate::checkpoint::pages::{Pages, PagesEnded, PictureAttempt, PublishedPages, TakenPage};
use crate::checkpoint::picture::picture_part_writer::PicturePartWriter;
use crate::checkpoint::request::Ticket;
use crate::checkpoint::slices::{PartSlices, PartStep};
use crate::checkpoint::walk::{Slice, Walk};
use crate::files::block::Header;
use crate::files::block::entries::FramedEntries;
use crate::files::block::scan::{At, Scanner};
use crate::files::checkpoint::block::CheckpointBlock;
use crate::files::checkpoint::page::PageContents;
use crate::files::names::checkpoint_folder;
use crate::files::picture::directory::{decode_part, is_part};
use crate::files::picture::extents::FreeUnits;
use crate::files::picture::location::BlockName;
use crate::files::picture::pending_removes::{DisplacedBlock, section_and_body};
use crate::files::picture::root::{BesidePlace, Root};

const CHECKPOINTERS: usize = 2;
const SECTION: u32 = 3;
/// Keys are below this.
const KEYS: u8 = 64;

/// Body by key, and the epoch of the change.
type Rows = BTreeMap<u8, (u64, Vec<u8>)>;

/// A state with one section, and what commits have left beside its pages.
#[derive(Debug, Default)]
struct Made {
    rows: Mutex<Rows>,
    /// First keys of pages; the first page has none.
    bounds: Mutex<BTreeSet<u8>>,
    left: Mutex<Rows>,
}

fn tid(epoch: u64) -> Tid {
    Tid::first_of(Epoch::new(epoch))
}

fn bound(key: u8) -> Box<[u8]> {
    if key == 0 { Box::default() } else { [key].into() }
}

fn key_of(bound: &[u8]) -> u8 {
    bound.first().copied().unwrap_or(0)
}

impl Walk for Made {
    fn slices(&self, _: usize) -> Vec<Vec<Slice>> {
        unreachable!("pages are taken")
    }

    fn walk(&self, _: &Slice, _: &mut Vec<u8>, _: Epoch, _: &mut CheckpointBlock) -> bool {
        unreachable!("pages are taken")
    }
}

impl Pages for Made {
    fn publish_pages(&self, _: usize, _: WantedPages) -> PublishedPages {
        unreachable!("slices are given")
    }

    fn carry_marks(&self, _: PictureAttempt) -> Result<(), PagesEnded> {
        unreachable!("slices are given")
    }

    fn page_slices(&self, _: PictureAttempt, _: usize) -> Result<Vec<Vec<Slice>>, PagesEnded> {
        unreachable!("slices are given")
    }

    fn take_page(
        &self,
        _: PictureAttempt,
        slice: &Slice,
        resume: &mut Vec<u8>,
        _: Epoch,
        page: &mut PageContents,
    ) -> Result<TakenPage, PagesEnded> {
        let first = key_of(if resume.is_empty() { &slice.from } else { resume });
        let next = self.bounds.lock().expect("no panic").range(first + 1..).next().copied();
        for (key, (epoch, value)) in self.rows.lock().expect("no panic").range(first..next.unwrap_or(KEYS)) {
            page.push(tid(*epoch), |body| {
                body.push(*key);
                body.extend_from_slice(value);
            });
        }
        let to = slice.to.as_deref().map(key_of);
        Ok(match next.filter(|next| Some(*next) != to) {
            Some(next) => {
                *resume = vec![next];
                TakenPage::More
            }
            None => TakenPage::Last,
        })
    }

    fn take_displaced(
        &self,
        _: PictureAttempt,
        _: Epoch,
        block: &mut DisplacedBlock<'_>,
    ) -> Result<bool, PagesEnded> {
        let mut left = self.left.lock().expect("no panic");
        while let Some(first) = left.first_entry() {
            if !block.has_room(1 + first.get().1.len()) {
                return Ok(true);
            }
            let (key, (epoch, value)) = first.remove_entry();
            block.push(SECTION, tid(epoch), |body| {
                body.push(key);
                body.extend_from_slice(&value);
            });
        }
        Ok(false)
    }

    fn end_pages(&self, _: PictureAttempt) {}

    fn picture_installed(&self, _: PictureAttempt) {}
}

impl Made {
    /// Where the page of this key begins, and where the next one does.
    fn page_of(&self, key: u8) -> (u8, Option<u8>) {
        let bounds = self.bounds.lock().expect("no panic");
        (bounds.range(..=key).next_back().copied().unwrap_or(0), bounds.range(key + 1..).next().copied())
    }

    /// The pages of these keys, as slices of one page each, in turn to all parts.
    fn slices_of(&self, keys: impl IntoIterator<Item = u8>) -> Vec<Vec<Slice>> {
        let pages: BTreeSet<(u8, Option<u8>)> = keys.into_iter().map(|key| self.page_of(key)).collect();
        let mut parts = vec![Vec::new(); CHECKPOINTERS];
        for (part, (from, to)) in pages.into_iter().enumerate() {
            let slice = Slice { section: SECTION, from: bound(from), to: to.map(bound) };
            parts[part % CHECKPOINTERS].push(slice);
        }
        parts
    }

    fn put(&self, key: u8, epoch: u64, value: Vec<u8>) {
        self.rows.lock().expect("no panic").insert(key, (epoch, value));
    }

    fn rows(&self) -> Rows {
        self.rows.lock().expect("no panic").clone()
    }
}

fn keeper() -> PictureKeeper {
    let identity = crate::samples::identity();
    let origin = PagesOrigin { identity, entries: EntryKind::Values, generation: 1 };
    PictureKeeper::new(origin, CHECKPOINTERS, &[], 0, None).expect("numbers are left")
}

fn disk() -> SimDisk {
    let disk = SimDisk::new();
    for checkpointer in 0..CHECKPOINTERS {
        disk.create_folder(&checkpoint_folder(checkpointer as u32)).expect("makes the folder");
    }
    disk.sync_folder("").expect("syncs");
    disk
}

/// The picture with this number, of e_c = 10 times that, up to its root.
fn write(
    keeper: &PictureKeeper,
    made: &Made,
    disk: &SimDisk,
    (number, parts): (u64, Vec<Vec<Slice>>),
) -> Result<ClosedPicture, String> {
    keeper.begin(PictureStamp { checkpoint: number, generation: 1, epoch: Epoch::new(10 * number) });
    let ticket = Arc::new(Ticket::default());
    ticket.set_slices(parts.iter().map(Vec::len).sum::<usize>() as u64);
    for (checkpointer, slices) in parts.into_iter().enumerate() {
        let (stamp, file) = keeper.open_page_file(disk, checkpointer)?;
        let slices = PartSlices::new(slices, Arc::clone(&ticket), Arc::new(DiskSpace::default()));
        let (attempt, writer) = (PictureAttempt::new(number), BlockWriter::new(&file, stamp));
        let block = CheckpointBlock::new();
        let mut work = PicturePartWriter::new(slices, attempt, EntryKind::Values, writer, 64 << 10, block);
        while work.step(made, keeper, true)? != Some(PartStep::Ended) {}
        keeper.part_written(work.end()?);
    }
    keeper.close()
}

/// The picture that is installed, as a manifest would name it.
#[derive(Clone, Debug)]
struct Installed {
    number: u64,
    closed: ClosedPicture,
    rows: Rows,
}

/// The same, installed; what the one before took is free then.
fn install(
    keeper: &PictureKeeper,
    made: &Made,
    disk: &SimDisk,
    number: u64,
    keys: impl IntoIterator<Item = u8>,
) -> Installed {
    install_parts(keeper, made, disk, (number, made.slices_of(keys)))
}

/// The same of these parts. Each unit is in the picture then, or free.
fn install_parts(
    keeper: &PictureKeeper,
    made: &Made,
    disk: &SimDisk,
    (number, parts): (u64, Vec<Vec<Slice>>),
) -> Installed {
    let closed = write(keeper, made, disk, (number, parts)).expect("is written");
    keeper.promote_to_base();
    keeper.release().expect("cuts");
    let (bytes, free) = keeper.figures();
    let opening_bytes = CHECKPOINTERS as u64 * UNIT_BYTES as u64;
    assert_eq!(bytes - free, closed.bytes + opening_bytes, "bytes that are neither in the picture nor free");
    Installed { number, closed, rows: made.rows() }
}

struct Reader<'d> {
    disk: &'d SimDisk,
    files: &'d [ListedPageFile],
    reached: Vec<Extent>,
}

impl Reader<'_> {
    fn block(&mut self, place: &ExtentPlace, name: BlockName) -> Result<(Header, Vec<u8>), String> {
        let file = self.files.iter().find(|file| file.name.folder == u32::from(place.extent.folder));
        let file = file.ok_or("no such file")?;
        let opened = self.disk.open_to_read(&file.name.to_string()).map_err(|error| error.to_string())?;
        let mut scanner = Scanner::new(opened).map_err(|error| error.to_string())?;
        let found = scanner.block_at(place.extent.offset(), file.salt).map_err(|error| error.to_string())?;
        let At::Block(header, crc) = found else { return Err(format!("{name:?}: {found:?}")) };
        if !name.is_at(place, &header, crc) {
            return Err(format!("{header:?} is not {name:?}"));
        }
        self.reached.push(place.extent);
        let payload = scanner.payload(place.extent.offset(), &header).map_err(|error| error.to_string())?;
        Ok((header, payload.expect("it was compared").to_vec()))
    }
}

impl Reader<'_> {
    fn tail(&mut self, tail: &TailPlace, checkpoint: u64) -> Result<(Header, Vec<u8>), String> {
        let file = self.files.iter().find(|file| file.name.folder == u32::from(tail.folder));
        let file = file.ok_or("no such file")?;
        let opened = self.disk.open_to_read(&file.name.to_string()).map_err(|error| error.to_string())?;
        let mut scanner = Scanner::new(opened).map_err(|error| error.to_string())?;
        let found = scanner.block_at(tail.offset(), file.salt).map_err(|error| error.to_string())?;
        let At::Block(header, crc) = found else { return Err(format!("{tail:?}: {found:?}")) };
        if !tail.matches_block(&header, crc, checkpoint) {
            return Err(format!("{header:?} is not {tail:?}"));
        }
        let payload = scanner.payload(tail.offset(), &header).map_err(|error| error.to_string())?;
        Ok((header, payload.expect("it was compared").to_vec()))
    }
}

fn add(rows: &mut Rows, tid: Tid, body: &[u8]) -> Result<(), String> {
    let (key, value) = body.split_first().expect("a key");
    let row = (tid.epoch().number(), value.to_vec());
    if rows.entry(*key).or_insert_with(|| row.clone()) == &row {
        Ok(())
    } else {
        Err(format!("N11: key {key} has two TIDs"))
    }
}

/// All rows of a picture, each block of which is where it is said to be, and nothing else.
fn read(disk: &SimDisk, picture: &Installed) -> Result<Rows, String> {
    let closed = &picture.closed;
    let mut reader = Reader { disk, files: &closed.files, reached: Vec::new() };
    let (header, payload) = reader.block(&closed.root, BlockName::root(picture.number))?;
    let root = Root::decode(&payload, header.kind, header.entries, picture.number).ok_or("no root")?;
    let (mut rows, mut pages_found, mut entries) = (Rows::new(), 0, 0);
    let mut units = BTreeSet::new();
    for (at, part) in root.parts.iter().enumerate() {
        let (header, payload) = reader.block(&part.place, part.block_name())?;
        let pages = decode_part(&payload, header.entries).ok_or("no part")?;
        assert!(is_part(&pages, part, root.parts.get(at + 1)));
        for page in pages {
            let mut payload = Vec::new();
            for (index, place) in page.extents.iter().enumerate() {
                let (header, bytes) = reader.block(place, page.block_name(index))?;
                assert_eq!(header.section, SECTION);
                assert_eq!(header.entries, if index == 0 { page.entries } else { index as u32 });
                let before = index.checked_sub(1).map_or(0, |before| page.extents[before].header_crc);
                assert_eq!(header.previous_crc, before);
                payload.extend(bytes);
            }
            assert_eq!(crc32c(&payload), page.payload_crc);
            for entry in FramedEntries::new(&payload) {
                let (tid, body) = entry.expect("framed");
                add(&mut rows, tid, body)?;
            }
            (pages_found, entries) = (pages_found + 1, entries + u64::from(page.entries));
            assert!(page.number < closed.next_page);
            let last = page.extents.last().filter(|_| page.checkpoint == picture.number);
            units.extend(last.map(|last| (last.extent.folder, last.extent.end() - 1)));
        }
    }
    for tail in &root.tails {
        assert!(units.contains(&(tail.folder, tail.unit)), "N10: of a page that this picture wrote");
    }
    for at in 0..root.removes_block_count() {
        let (header, payload) = match root.beside_at(at) {
            BesidePlace::Block(block) => reader.block(&block.place, block.block_name())?,
            BesidePlace::Tail(tail) => reader.tail(tail, picture.number)?,
        };
        for entry in FramedEntries::new(&payload) {
            let (tid, body) = entry.expect("framed");
            let (section, body) = section_and_body(body).expect("a section");
            assert_eq!(section, SECTION);
            add(&mut rows, tid, body)?;
        }
        entries += u64::from(header.entries);
    }
    assert_eq!((pages_found, entries), (closed.pages, closed.entries));
    assert_eq!(reader.reached.iter().map(|extent| extent.bytes()).sum::<u64>(), closed.bytes);
    for (folder, file) in closed.files.iter().enumerate() {
        let folder = folder as u16;
        let reached = reader.reached.iter().filter(|extent| extent.folder == folder).copied().collect();
        let bytes = disk.open_to_read(&file.name.to_string()).expect("opens").len().expect("has a length");
        FreeUnits::of_reached(folder, bytes.div_ceil(4096) as u32, reached).expect("no two share a unit");
    }
    Ok(rows)
}

/// With a row for each key, and a page for each eight.
fn made() -> Made {
    let made = Made::default();
    made.bounds.lock().expect("no panic").extend((8..KEYS).step_by(8));
    (0..KEYS).for_each(|key| made.put(key, 5, vec![key; 700]));
    made
}

#[test]
fn a_picture_keeps_the_pages_that_have_not_changed() {
    let (keeper, made, disk) = (keeper(), made(), disk());
    assert_eq!(keeper.pages_to_write(), WantedPages::All);
    let first = install(&keeper, &made, &disk, 1, 0..KEYS);
    assert_eq!(keeper.pages_to_write(), WantedPages::Changed);
    assert_eq!((first.closed.pages, first.closed.pages_written), (8, 8));
    assert_eq!(read(&disk, &first), Ok(made.rows()));
    made.put(20, 15, vec![1; 100]);
    let second = install(&keeper, &made, &disk, 2, [20]);
    assert_eq!((second.closed.pages, second.closed.pages_written), (8, 1));
    assert_eq!(second.closed.next_page, first.closed.next_page, "it keeps its range, so its number too");
    assert!(second.closed.bytes_written < first.closed.bytes_written / 3);
    assert_eq!(read(&disk, &second), Ok(made.rows()));
    assert!(read(&disk, &Installed { closed: first.closed, ..second }).is_err(), "the one before is gone");
}

/// Of a file with 32 pages of a unit each, so many are written anew behind the others; then one more is.
fn units_behind(rewritten: usize) -> (u64, u64) {
    let (keeper, made, disk) = (keeper(), Made::default(), disk());
    made.bounds.lock().expect("no panic").extend(1..KEYS);
    (0..KEYS).for_each(|key| made.put(key, 5, vec![key; 700]));
    install(&keeper, &made, &disk, 1, 0..KEYS);
    let of_second = |keys: &mut dyn Iterator<Item = u8>| vec![Vec::new(), made.slices_of(keys).concat()];
    let units = || disk.bytes("checkpoint1/pages-2").len().div_ceil(UNIT_BYTES) as u64;
    assert_eq!(units(), 33);
    let parts = of_second(&mut (1..KEYS).step_by(2).take(rewritten));
    install_parts(&keeper, &made, &disk, (2, parts));
    let before = units();
    let last = install_parts(&keeper, &made, &disk, (3, of_second(&mut [1].into_iter())));
    assert_eq!(read(&disk, &last), Ok(made.rows()));
    (before, units())
}

#[test]
fn pages_move_once_more_than_a_third_of_their_file_is_free() {
    // One of the free units is taken before that is looked at.
    let (before, behind) = units_behind(18);
    assert_eq!((before, behind), (51, 51), "17 of 51");
    let (before, behind) = units_behind(19);
    assert!(before == 52 && behind < before, "18 of 52: {behind}");
}

#[test]
fn n17_pages_are_cut_and_joined_and_emptied() {
    let (keeper, made, disk) = (keeper(), made(), disk());
    let first = install(&keeper, &made, &disk, 1, 0..KEYS);
    made.bounds.lock().expect("no panic").insert(20);
    made.bounds.lock().expect("no panic").remove(&40);
    (48..56).for_each(|key| drop(made.rows.lock().expect("no panic").remove(&key)));
    let second = install(&keeper, &made, &disk, 2, [16, 20, 32, 48]);
    assert_eq!((second.closed.pages, second.closed.pages_written), (8, 4));
    assert_eq!(second.closed.next_page, first.closed.next_page + 3, "two halves and what is joined are new");
    assert_eq!(read(&disk, &second), Ok(made.rows()));
}

#[test]
fn a_page_of_large_rows_is_cut_into_blocks_with_a_tail_behind_the_last_one() {
    let (keeper, made, disk) = (keeper(), made(), disk());
    made.put(9, 5, vec![7; 5 << 20]);
    made.put(10, 5, vec![8; 1 << 20]);
    let first = install(&keeper, &made, &disk, 1, 0..KEYS);
    assert_eq!(read(&disk, &first), Ok(made.rows()));
    // What it took is used again by the next one, or cut off.
    made.put(9, 15, vec![7; 10]);
    let second = install(&keeper, &made, &disk, 2, [9]);
    assert_eq!(read(&disk, &second), Ok(made.rows()));
    let (bytes, free) = keeper.figures();
    assert!(bytes - free < 2 << 20, "{bytes} bytes, {free} free");
    let (keeper, made, disk) = (self::keeper(), self::made(), self::disk());
    made.put(9, 5, vec![7; 5 << 20]);
    made.put(10, 5, vec![8; 1 << 20]);
    install(&keeper, &made, &disk, 1, 0..KEYS);
    // Its last block has what is above 6 MiB, and leaves 3.7 KiB of its second unit.
    leave(&made, [11, 12]);
    let with = install(&keeper, &made, &disk, 2, [9]);
    let root = root_of(&disk, &with);
    assert_eq!((root.removes.len(), root.tails.len()), (0, 1), "{root:?}");
    assert_eq!(read(&disk, &with), Ok(made.rows()));
}

#[test]
fn n10_what_was_left_beside_pages_counts_for_its_own_picture_only() {
    let (keeper, made, disk) = (keeper(), made(), disk());
    made.left.lock().expect("no panic").insert(3, (5, vec![3; 700]));
    made.left.lock().expect("no panic").insert(60, (5, vec![60; 700]));
    let row = made.rows.lock().expect("no panic").remove(&60);
    let first = install(&keeper, &made, &disk, 1, 0..KEYS);
    let mut expected = made.rows();
    expected.insert(60, row.expect("it was there"));
    assert_eq!(read(&disk, &first), Ok(expected), "a row comes from a page, from a block, or from both");
    let second = install(&keeper, &made, &disk, 2, [3, 60]);
    assert_eq!(second.closed.entries, u64::from(KEYS) - 1);
    assert_eq!(read(&disk, &second), Ok(made.rows()));
}

/// They are too long for what pages leave of their last units.
#[test]
fn n12_blocks_beside_pages_are_free_once_another_picture_is_installed() {
    let (keeper, made, disk) = (keeper(), made(), disk());
    for (number, left) in [(1, 3), (2, 40), (3, 0)] {
        let long = (0..left).map(|key| (key, (5, vec![key; 3000])));
        made.left.lock().expect("no panic").extend(long);
        // The rows are in these blocks alone.
        (0..left).for_each(|key| _ = made.rows.lock().expect("no panic").remove(&key));
        let installed = install(&keeper, &made, &disk, number, 0..KEYS);
        let root = root_of(&disk, &installed);
        assert_eq!(root.removes.is_empty(), left == 0, "{root:?}");
        assert!(root.tails.is_empty(), "{root:?}");
    }
}

/// Versions of these keys that pages have too.
fn leave(made: &Made, keys: impl IntoIterator<Item = u8>) {
    let rows = made.rows();
    let mut left = made.left.lock().expect("no panic");
    left.extend(keys.into_iter().map(|key| (key, rows[&key].clone())));
}

/// The root of a picture.
fn root_of(disk: &SimDisk, picture: &Installed) -> Root {
    let mut reader = Reader { disk, files: &picture.closed.files, reached: Vec::new() };
    let (header, payload) =
        reader.block(&picture.closed.root, BlockName::root(picture.number)).expect("it is there");
    Root::decode(&payload, header.kind, header.entries, picture.number).expect("a root")
}

#[test]
fn what_waits_goes_into_the_tails_of_pages_that_are_written_and_costs_no_unit() {
    let (keeper, made, disk) = (keeper(), made(), disk());
    // Eight rows of 700 bytes are two units, and leave 2.3 KiB of the second.
    let without = install(&keeper, &made, &disk, 1, 0..KEYS);
    leave(&made, 0..12);
    let with = install(&keeper, &made, &disk, 2, 0..KEYS);
    let root = root_of(&disk, &with);
    assert_eq!((root.removes.len(), root.tails.len()), (0, 4), "{root:?}");
    assert_eq!(with.closed.entries, without.closed.entries + 12);
    assert_eq!(with.closed.bytes_written, without.closed.bytes_written, "the root has room for their places");
    assert_eq!(read(&disk, &with), Ok(made.rows()));
    // More than fits: the rest is a block, behind the last page of the part that took it.
    leave(&made, 0..KEYS);
    let more = install(&keeper, &made, &disk, 3, 0..KEYS);
    let root = root_of(&disk, &more);
    assert_eq!((root.removes.len(), root.tails.len()), (1, 4), "{root:?}");
    assert_eq!(read(&disk, &more), Ok(made.rows()));
}

#[test]
fn n10_the_tail_of_a_page_that_is_kept_or_moved_is_void() {
    let (keeper, made, disk) = (keeper(), made(), disk());
    let gone = [1, 9, 17, 25];
    let bytes = |key: u8| if gone.contains(&key) { 300 } else { 9000 };
    (0..KEYS).for_each(|key| made.put(key, 5, vec![key; bytes(key)]));
    install(&keeper, &made, &disk, 1, 0..KEYS);
    // Tails of the pages that stand last in their files.
    (32..KEYS).for_each(|key| made.put(key, 15, vec![key; 9000]));
    leave(&made, gone);
    let before = install(&keeper, &made, &disk, 2, 32..KEYS);
    let tails: BTreeSet<_> = root_of(&disk, &before).tails.iter().map(TailPlace::in_unit).collect();
    assert!(!tails.is_empty());
    assert_eq!(read(&disk, &before), Ok(made.rows()));
    // Pages of the installed picture with what was such a tail.
    let with_one = || {
        let kept = keeper.kept.lock();
        let pages = &kept.base.as_ref().expect("it was installed").directory;
        let last_unit = |page: &PagePlace| page.extents.last().map(|last| last.extent);
        let units = pages.pages().filter_map(last_unit).map(|last| (last.folder, last.end() - 1));
        units.filter(|unit| tails.contains(unit)).count()
    };
    assert_eq!(with_one(), tails.len());
    // The rows are deleted, and the pages with tails are kept. Much becomes free, so they move.
    gone.iter().for_each(|key| drop(made.rows.lock().expect("no panic").remove(key)));
    (0..32).filter(|key| !gone.contains(key)).for_each(|key| made.put(key, 25, vec![key; 100]));
    for number in 3..12 {
        made.put(0, 10 * number - 5, vec![7; 100]);
        let next = install(&keeper, &made, &disk, number, if number == 3 { 0..32 } else { 0..1 });
        assert_eq!(read(&disk, &next), Ok(made.rows()), "picture {number}");
        assert!(root_of(&disk, &next).tails.is_empty());
        assert!(number > 3 || with_one() == tails.len(), "they are kept");
    }
    assert!(with_one() < tails.len(), "one was moved");
}

#[test]
fn n13_a_picture_that_fails_leaves_the_one_before_and_its_extents_are_free_at_once() {
    let (keeper, made, disk) = (keeper(), made(), disk());
    let first = install(&keeper, &made, &disk, 1, 0..KEYS);
    let before = keeper.figures();
    for key in 0..KEYS {
        made.put(key, 15, vec![9; 900]);
    }
    leave(&made, 0..8);
    // Whichever call fails; at last none does.
    for call in 1.. {
        let at = disk.calls().all + call;
        disk.fail_calls(at..=at, ensile_sim::Fault::INPUT_OUTPUT);
        let result = write(&keeper, &made, &disk, (1 + call, made.slices_of(0..KEYS)));
        disk.heal();
        if result.is_ok() {
            assert!(call > 8, "{call} calls");
            break;
        }
        keeper.abandon().expect("cuts");
        assert_eq!(keeper.figures(), before, "call {call}");
        assert_eq!(read(&disk, &first).as_ref(), Ok(&first.rows), "call {call}");
    }
    assert_eq!(read(&disk, &first), Ok(first.rows.clone()), "N12: until the manifest names another one");
}

#[test]
fn n12_power_that_is_cut_at_any_call_leaves_the_installed_picture() {
    let mut reached = 0;
    for call in 1.. {
        let (keeper, made, disk) = (keeper(), made(), disk());
        // Some devices lose all of the page that they were writing.
        disk.set_torn_pages(call % 2 == 0);
        let mut random = Random::from_seed(call);
        let mut installed = install(&keeper, &made, &disk, 1, 0..KEYS);
        let at = disk.calls().all + call;
        disk.cut_power_at(at);
        for number in 2..7 {
            let keys: Vec<u8> = (0..10).map(|_| random.next_below(u64::from(KEYS)) as u8).collect();
            keys.iter().for_each(|key| {
                made.put(*key, 10 * number - 5, vec![number as u8; random.next_below(9000) as usize]);
            });
            leave(&made, (0..4).map(|_| random.next_below(u64::from(KEYS)) as u8));
            let slices = made.slices_of(keys);
            let Ok(closed) = write(&keeper, &made, &disk, (number, slices)) else { break };
            let next = Installed { number, closed, rows: made.rows() };
            for picture in [&installed, &next] {
                // The manifest names one of the two.
                let copy = disk.fork();
                copy.crash(call);
                assert_eq!(read(&copy, picture).as_ref(), Ok(&picture.rows), "call {call}");
            }
            installed = next;
            keeper.promote_to_base();
            if keeper.release().is_err() {
                break;
            }
        }
        let is_reached = disk.is_without_power();
        disk.heal();
        disk.crash(call);
        assert_eq!(read(&disk, &installed).as_ref(), Ok(&installed.rows), "call {call}");
        if !is_reached {
            break;
        }
        reached += 1;
    }
    assert!(reached > 50, "{reached} calls");
}

#[test]
fn files_stay_short_however_often_pages_change() {
    let (keeper, made, disk) = (keeper(), made(), disk());
    let mut random = Random::from_seed(4);
    let first = install(&keeper, &made, &disk, 1, 0..KEYS);
    let used = first.closed.bytes;
    for number in 2..200 {
        let keys = [(); 6].map(|()| random.next_below(u64::from(KEYS)) as u8);
        for key in keys {
            made.put(key, 10 * number - 5, vec![number as u8; 1 + random.next_below(1400) as usize]);
        }
        let picture = install(&keeper, &made, &disk, number, keys);
        if number % 20 == 0 {
            assert_eq!(read(&disk, &picture).as_ref(), Ok(&picture.rows));
        }
        let (bytes, free) = keeper.figures();
        assert!(bytes < 4 * used && bytes - free < 3 * used, "{bytes} bytes, {free} free, {used} at first");
        let files = picture.closed.files.iter().map(|file| disk.bytes(&file.name.to_string()).len() as u64);
        assert!(files.sum::<u64>() <= bytes, "a file ends behind its last used unit");
    }
}

#[test]
fn pages_of_the_last_units_move_once_much_is_free_and_the_file_ends_sooner() {
    let (keeper, made, disk) = (keeper(), made(), disk());
    (0..KEYS).for_each(|key| made.put(key, 5, vec![key; 9000]));
    let first = install(&keeper, &made, &disk, 1, 0..KEYS);
    // All but the last two pages of each file become small.
    (0..32).for_each(|key| made.put(key, 15, vec![key; 100]));
    install(&keeper, &made, &disk, 2, 0..32);
    let (before, _) = keeper.figures();
    assert!(before > first.closed.bytes * 9 / 10, "the last pages hold the ends");
    for number in 3..12 {
        made.put(40, 10 * number - 5, vec![7; 9000]);
        let picture = install(&keeper, &made, &disk, number, [40]);
        assert_eq!((picture.closed.pages, picture.closed.pages_written), (8, 1));
        assert_eq!(picture.closed.next_page, first.closed.next_page, "it keeps its number");
        assert_eq!(read(&disk, &picture).as_ref(), Ok(&picture.rows), "picture {number}");
    }
    let (bytes, free) = keeper.figures();
    assert!(bytes < before * 4 / 5, "{bytes} bytes, {free} free, {before} before");
}
