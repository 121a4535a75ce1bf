//! The chain: what belongs to it, where it ends, what is seen behind the gap (L5, L4).

use std::sync::Arc;

use ensile_base::Tid;
use ensile_base::random::Random;
use ensile_disk::FolderId;
use ensile_sim::SimDisk;

use super::*;
use crate::buffers::Buffer;
use crate::files::block::origin::PartPlace;
use crate::files::block::{BlockKind, FORMAT, HEADER_BYTES, Header, Salt};
use crate::files::log::next_file::NextFile;
use crate::files::manifest::Manifest;
use crate::identity::Identity;
use crate::log::LogConfig;
use crate::log::segments::Segments;
use crate::near_duplicates;
use crate::recovery::cleanup::free_covered;
use crate::recovery::log_files;
use crate::samples;

const NAME: SegmentName = SegmentName { generation: 3, logger: 1, number: 0 };
/// A data block with one entry of 20 bytes, and the mark behind it.
const STEP_BYTES: usize = HEADER_BYTES + 32 + HEADER_BYTES;

fn salt() -> Salt {
    Salt::draw(&mut Random::from_seed(7))
}

fn origin() -> Origin {
    Origin { salt: salt(), ..samples::origin() }
}

/// A log of `steps` steps from epoch 11 on, one entry filled with `fill` and a mark in each; `files` files.
fn write_log(steps: u64, fill: u8, segment_bytes: u64) -> SimDisk {
    let disk = SimDisk::new();
    disk.create_folder("log1").expect("makes a folder");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = LogConfig { segment_bytes, ..LogConfig::default() };
    let mut segments = Segments::create(&shared, NAME, &config, Epoch::new(10), origin()).expect("creates");
    for epoch in (11..11 + steps).map(Epoch::new) {
        let mut buffer = Buffer::usual();
        buffer.push(Tid::first_of(epoch), |body| body.extend_from_slice(&[fill; 20]));
        assert!(segments.data(buffer, epoch.previous(), Epoch::new(9)).is_some());
        segments.mark(epoch, Epoch::new(9));
        segments.flush(|_| {}).expect("writes");
        segments.sync().expect("syncs");
        if segments.is_due(0) {
            let mut next =
                NextFile::create(&shared, segments.next_name(), 0).expect("creates").expect("has space");
            next.make_ready(&*shared, segments.first_bytes(), true).expect("makes").expect("has space");
            let used = segments.continue_in(&mut Some(next), epoch, Epoch::new(9), 0).expect("rolls");
            used.expect("has space").close(&*shared).expect("closes");
        }
    }
    disk
}

/// Of a database that has this log's folder.
fn manifest() -> Manifest {
    let number = FolderId { inode: 2, born_nanos: None };
    let mut manifest = Manifest::new(Identity::draw(), number);
    manifest.folders.insert("log1".to_owned(), number);
    manifest
}

/// The log's files in the order of their numbers.
fn files(disk: &SimDisk) -> Vec<SegmentFile> {
    log_files::find(disk, &manifest())
        .expect("lists")
        .logs
        .remove(&(NAME.generation, NAME.logger))
        .expect("files")
}

fn read_covered(disk: &SimDisk, covered: Epoch) -> Result<Chain, DurabilityError> {
    let files = files(disk);
    let next = files.iter().skip(1).copied().map(Some).chain([None]);
    let read = files.iter().zip(next).map(|(file, next)| FileChain::read(disk, *file, next));
    Chain::stitch(disk, read.collect::<Result<_, _>>()?, covered)
}

fn read(disk: &SimDisk) -> Chain {
    read_covered(disk, Epoch::ZERO).expect("reads")
}

/// Entries of its chain.
fn entries(chain: &Chain) -> u64 {
    chain.links.iter().flat_map(|link| &link.runs).map(|run| run.entries).sum()
}

/// Puts bytes where others stood.
fn splice(disk: &SimDisk, at: usize, bytes: &[u8]) {
    disk.open(&files(disk)[0].to_string()).expect("opens").write_at(bytes, at as u64).expect("writes");
}

const fn step_at(step: usize) -> usize {
    OPENING_BYTES + step * STEP_BYTES
}

#[test]
fn a_whole_log_is_a_chain_over_all_its_files_and_a_file_is_read_by_itself() {
    let disk = write_log(40, 1, 4096);
    let files = files(&disk);
    assert!(files.len() > 1);
    let chain = read(&disk);
    assert_eq!((chain.mark, chain.seen, entries(&chain)), (Epoch::new(50), Epoch::new(50), 40));
    assert_eq!((chain.end.file, chain.tail.bytes), (files[files.len() - 1], 0));
    let disk = write_log(60, 1, 4096);
    let whole = read(&disk);
    let link = &whole.links[1];
    let alone = FileChain::read(&disk, link.file, None).expect("reads");
    assert_eq!((alone.end, alone.largest, &alone.runs), (link.end, link.largest, &link.runs));
    assert!(alone.synced_to < alone.end, "nothing in it shows that its last mark is synced");
    assert_eq!(link.synced_to, link.end, "the next file does");
    let disk = write_log(40, 1, 4096);
    disk.create(&format!("{NAME}")).expect("creates");
    assert!(matches!(log_files::find(&disk, &manifest()), Err(DurabilityError::Damaged { .. })));
}

#[test]
fn closed_files_are_named_by_their_largest_epoch_and_read_by_either_name() {
    let disk = write_log(40, 1, 4096);
    let before = read(&disk);
    let (last, closed) = before.links.split_last().expect("links");
    assert_eq!(last.file.to, None);
    for link in closed {
        assert_eq!(link.file.to, Some(link.largest));
        disk.rename(&link.file.to_string(), &link.file.name.to_string()).expect("renames");
    }
    let after = read(&disk);
    assert_eq!((after.mark, entries(&after)), (before.mark, 40));
    assert!(after.links.iter().zip(&before.links).all(|(a, b)| a.runs == b.runs && a.largest == b.largest));
}

#[test]
fn a_log_may_begin_with_a_later_file_if_a_checkpoint_covers_what_is_gone() {
    let disk = write_log(60, 1, 4096);
    let whole = read(&disk);
    let [first, second, third, ..] = &whole.links[..] else { panic!("more files: {whole:?}") };
    disk.lose(&first.file.to_string());
    for (covered, is_enough) in [(Epoch::ZERO, false), (first.largest, false), (first.largest.next(), true)] {
        match read_covered(&disk, covered) {
            Ok(chain) => {
                assert!(is_enough);
                assert_eq!((chain.mark, chain.links[0].file), (whole.mark, second.file));
            }
            Err(DurabilityError::Damaged { file, .. }) => {
                assert!(!is_enough);
                assert_eq!(file, first.file.name.to_string(), "the file that is missing");
            }
            Err(other) => panic!("{other}"),
        }
    }
    // A removal was under way: what stands before the gap is void if all up to the gap is covered.
    let disk = write_log(60, 1, 4096);
    disk.lose(&second.file.to_string());
    assert!(read_covered(&disk, first.largest.next()).is_err());
    let chain = read_covered(&disk, second.largest.next()).expect("covered");
    assert_eq!((chain.discarded, chain.links[0].file), (vec![first.file], third.file));
}

#[test]
fn payloads_are_looked_at_only_where_nothing_shows_that_they_were_synced() {
    for (step, is_synced) in [(0, true), (1, true), (2, false)] {
        let disk = write_log(3, 1, 1 << 20);
        splice(&disk, step_at(step) + HEADER_BYTES + 3, &[0xff]);
        let chain = read(&disk);
        let expected = if is_synced { 3 } else { 2 };
        assert_eq!(entries(&chain), expected, "step {step}: replay finds the others");
        assert_eq!(chain.mark.number(), 10 + expected);
    }
    // In a closed file none is.
    let disk = write_log(60, 1, 4096);
    let last = read(&disk).links[0].runs[0].entries as usize - 1;
    splice(&disk, step_at(last) + HEADER_BYTES + 3, &[0xff]);
    assert_eq!(entries(&read(&disk)), 60);
}

#[test]
fn neighbouring_blocks_are_one_run_and_later_blocks_show_what_was_synced() {
    let chain = read(&write_log(1000, 1, 1 << 20));
    assert_eq!(chain.links[0].runs.len(), 1);
    assert_eq!(entries(&chain), 1000);
    let disk = write_log(3, 1, 1 << 20);
    // The third data block shows the second mark; the third mark is shown by nothing.
    assert_eq!(read(&disk).links[0].synced_to, step_at(2) as u64);
}

#[test]
fn intact_blocks_out_of_their_order_or_of_another_history_do_not_belong() {
    let disk = write_log(4, 1, 1 << 20);
    let second = disk.bytes(&NAME.to_string())[step_at(1)..step_at(2)].to_vec();
    splice(&disk, step_at(2), &second);
    let chain = read(&disk);
    assert_eq!((chain.mark, chain.end.offset), (Epoch::new(12), step_at(2) as u64));
    assert_eq!(entries(&chain), 2);
    assert_eq!(chain.seen, Epoch::new(14), "what stands behind the gap is seen (L4)");
    let disk = write_log(4, 1, 1 << 20);
    let other = write_log(4, 2, 1 << 20).bytes(&NAME.to_string());
    splice(&disk, step_at(2), &other[step_at(2)..step_at(3)]);
    let chain = read(&disk);
    assert_eq!((chain.mark, chain.end.offset), (Epoch::new(12), step_at(2) as u64));
}

#[test]
fn a_later_file_does_not_continue_a_broken_one_and_is_searched_with_the_logs_salt() {
    let disk = write_log(40, 1, 4096);
    let first = files(&disk)[0];
    splice(&disk, step_at(3) + 4, &[0xff]);
    let chain = read(&disk);
    assert_eq!((chain.end.file, chain.end.offset), (first, step_at(3) as u64));
    assert_eq!((chain.mark, entries(&chain)), (Epoch::new(13), 3));
    assert!(chain.seen > Epoch::new(40));
    assert_eq!(chain.beyond, files(&disk)[1..]);
    let disk = write_log(60, 1, 4096);
    let second = files(&disk)[1];
    let whole = read(&disk);
    disk.open(&second.to_string()).expect("opens").write_at(&[0xff], 4).expect("writes");
    let chain = read(&disk);
    assert_eq!((chain.end.file, chain.mark), (whole.links[0].file, whole.links[0].largest));
    assert_eq!((chain.seen, chain.tail.epochs), (whole.seen, Some((chain.mark.next(), whole.mark))));
}

#[test]
fn zeros_behind_the_last_block_are_no_tail_and_other_bytes_are() {
    let disk = write_log(2, 1, 1 << 20);
    assert_eq!(read(&disk).tail.bytes, 0);
    splice(&disk, step_at(2) + 1000, b"x");
    let chain = read(&disk);
    assert_eq!((chain.end.offset, chain.tail.bytes), (step_at(2) as u64, 1001));
    assert_eq!(chain.mark, Epoch::new(12));
}

/// What the author of a value can make: everything right but the salt.
fn forged(kind: BlockKind, salt: Salt) -> [u8; HEADER_BYTES] {
    let header = Header {
        sequence: 1000,
        entries: u32::from(kind == BlockKind::Data),
        epoch_min: Epoch::new(900),
        epoch_max: Epoch::new(999),
        mark: Epoch::new(999),
        published: Epoch::new(999),
        ..Header::new(kind, NAME.logger, NAME.generation)
    };
    let mut block = [0; HEADER_BYTES];
    header.encode(&mut block, salt);
    block
}

/// The next file's opening block shows that all of the file before it was synced; that of another log does not.
#[test]
fn l5_an_opening_block_that_is_in_one_part_another_logs_proves_nothing_of_the_file_before() {
    let disk = write_log(60, 1, 4096);
    let [first, second, ..] = files(&disk)[..] else { panic!("more files") };
    let whole = FileChain::read(&disk, first, Some(second)).expect("reads");
    let last = whole.runs[0].entries as usize - 1;
    splice(&disk, step_at(last) + HEADER_BYTES + 3, &[0xff]);
    let end = |header: &Header, origin: Origin| {
        let (block, _) = origin.encode(header.clone(), PartPlace::default());
        disk.put(&second.to_string(), block.to_vec());
        FileChain::read(&disk, first, Some(second)).expect("reads").end
    };
    let header = Header {
        sequence: whole.next_sequence,
        mark: whole.mark,
        ..Header::new(BlockKind::LogOpening, NAME.logger, NAME.generation)
    };
    assert_eq!(end(&header, origin()), whole.end, "replay finds the damage");
    let unproven = step_at(last) as u64;
    let headers = near_duplicates::headers(&header).into_iter();
    for (part, twin) in headers.filter(|(part, _)| ["owner", "generation"].contains(part)) {
        assert_eq!(end(&twin, origin()), unproven, "{part}: {twin:?}");
    }
    for salt in near_duplicates::salts(salt()) {
        assert_eq!(end(&header, Origin { salt, ..origin() }), unproven, "{salt}");
    }
    let earlier = Header { sequence: whole.next_sequence - 2, ..header };
    assert_eq!(end(&earlier, origin()), unproven, "it comes before that block");
}

/// With the salt of this log's generation.
#[test]
fn l4_blocks_of_other_logs_behind_a_gap_show_no_epoch_of_this_one() {
    let mark = |generation: u64, owner: u32| {
        let (epoch, kind) = (Epoch::new(999), BlockKind::Mark);
        let header =
            Header { sequence: 1000, mark: epoch, published: epoch, ..Header::new(kind, owner, generation) };
        let mut block = [0; HEADER_BYTES];
        header.encode(&mut block, salt());
        block
    };
    let seen = |block: &[u8]| {
        let disk = write_log(3, 1, 1 << 20);
        splice(&disk, step_at(3) + 800, block);
        let chain = read(&disk);
        assert_eq!((chain.mark, entries(&chain)), (Epoch::new(13), 3));
        (chain.seen, chain.published)
    };
    assert_eq!(seen(&mark(NAME.generation, NAME.logger)), (Epoch::new(999), Epoch::new(999)));
    let none = (Epoch::new(13), Epoch::new(10));
    for generation in near_duplicates::words(NAME.generation) {
        assert_eq!(seen(&mark(generation, NAME.logger)), none, "generation {generation}");
    }
    for owner in near_duplicates::half_words(NAME.logger) {
        assert_eq!(seen(&mark(NAME.generation, owner)), none, "log {owner}");
    }
}

#[test]
fn l5_a_block_forged_inside_a_value_is_not_believed() {
    let guess = Salt::draw(&mut Random::from_seed(8));
    for kind in [BlockKind::Data, BlockKind::Mark, BlockKind::LogOpening] {
        for (salt, is_known) in [(guess, false), (salt(), kind != BlockKind::LogOpening)] {
            let disk = write_log(3, 1, 1 << 20);
            splice(&disk, step_at(2) + 4, &[0xff]);
            splice(&disk, step_at(3) + 800, &forged(kind, salt));
            let chain = read(&disk);
            assert_eq!((chain.mark, entries(&chain)), (Epoch::new(12), 2));
            let found = (chain.published, chain.seen == Epoch::new(999));
            let expected = if is_known { (Epoch::new(999), true) } else { (Epoch::new(10), false) };
            assert_eq!(found, expected, "{kind:?}: only the log's own would be");
        }
    }
}

/// The first file of a log, and the second one, which follows.
fn two_files() -> (FileChain, FileChain) {
    let disk = write_log(60, 1, 4096);
    let files = files(&disk);
    let read = |at: usize| FileChain::read(&disk, files[at], Some(files[at + 1])).expect("reads");
    (read(0), read(1))
}

#[test]
fn l5_a_file_that_is_in_all_but_one_part_the_next_one_does_not_continue_the_log() {
    let (first, second) = two_files();
    let opening = second.opening.clone().expect("it has one");
    assert!(is_opened_next(&first, &opening));
    let of = opening.clone();
    let sequences =
        near_duplicates::words(of.sequence).map(|sequence| FileOpening { sequence, ..of.clone() });
    let crcs = near_duplicates::half_words(of.previous_crc);
    let crcs = crcs.map(|previous_crc| FileOpening { previous_crc, ..of.clone() });
    let origins = near_duplicates::origins(of.origin);
    let origins = origins.into_iter().map(|(_, origin)| FileOpening { origin, ..of.clone() });
    for twin in sequences.into_iter().chain(crcs).chain(origins) {
        assert!(!is_opened_next(&first, &twin), "{twin:?} is not {opening:?}");
    }
    let later = FileOpening { before: opening.before.next(), ..opening };
    assert!(is_opened_next(&first, &later), "epochs are no part of the chain");
}

#[test]
fn i1_a_file_whose_opening_block_is_in_one_part_of_another_log_is_refused() {
    let (first, _) = two_files();
    let generation = Generation {
        number: NAME.generation,
        first: Epoch::new(11),
        format: FORMAT,
        entries: origin().entries,
        logs: 2,
        salt: origin().salt,
        database: origin().identity,
        durable: None,
        spans: Vec::new(),
    };
    check_origin(&generation, &first).expect("it is of this log");
    for (part, twin) in near_duplicates::origins(origin()) {
        let opening = first.opening.clone().map(|opening| FileOpening { origin: twin, ..opening });
        let mut file = first.clone();
        (file.identity, file.opening) = (Some(twin.identity), opening);
        let refused = check_origin(&generation, &file).expect_err(part);
        match part {
            "identity" => assert!(matches!(refused, DurabilityError::NotOurs { .. }), "{refused}"),
            _ => assert!(matches!(refused, DurabilityError::Damaged { .. }), "{refused}"),
        }
    }
}

/// A file of another log under the name of this log's second one: nothing that it says counts.
#[test]
fn l4_epochs_that_a_file_with_another_salt_shows_were_not_seen_here() {
    for (salt, is_seen) in [(salt(), true)]
        .into_iter()
        .chain(near_duplicates::salts(salt()).into_iter().map(|salt| (salt, false)))
    {
        let disk = write_log(20, 1, 4096);
        let [.., last] = files(&disk)[..] else { panic!("a log has a file") };
        let header = Header {
            sequence: 1000,
            epoch_max: Epoch::new(900),
            mark: Epoch::new(950),
            published: Epoch::new(940),
            ..Header::new(BlockKind::LogOpening, NAME.logger, NAME.generation)
        };
        let (block, _) = Origin { salt, ..origin() }.encode(header, PartPlace::default());
        let next = SegmentName { number: last.name.number + 1, ..NAME };
        disk.put(&next.to_string(), block.to_vec());
        let chain = read(&disk);
        assert_eq!((chain.mark, entries(&chain)), (Epoch::new(30), 20));
        assert_eq!(
            (chain.seen, chain.published.number() == 940, chain.lost.is_some()),
            (Epoch::new(if is_seen { 950 } else { 30 }), is_seen, is_seen)
        );
    }
}

#[test]
fn k1_a_file_with_entries_of_the_first_epoch_that_a_checkpoint_does_not_cover_stays() {
    let disk = write_log(80, 1, 4096);
    let mut chain = read(&disk);
    let (count, largest) = (chain.links.len(), chain.links[0].largest);
    assert!(count > 2);
    let name = chain.links[0].file.to_string();
    free_covered(&disk, None, &mut chain, largest).expect("removes");
    assert!(disk.exists(&name).expect("looks"));
    assert_eq!(chain.links.len(), count);
    free_covered(&disk, None, &mut chain, largest.next()).expect("removes");
    assert!(!disk.exists(&name).expect("looks"));
    assert_eq!(chain.links.len(), count - 1);
}
