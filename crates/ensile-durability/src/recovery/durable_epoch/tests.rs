//! The table of the module's header, cell by cell. (A missing log is found before: see `tests/durability/damage.rs`.)

use super::*;
use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::block::origin::Origin;
use crate::files::log::file_chain::Tail;
use crate::files::manifest::installed_checkpoint::{ListedPageFile, PictureCheckpoint};
use crate::files::names::{PageFileName, SegmentFile, SegmentName};
use crate::recovery::chain::{BLOCK_SHOWS_IT, Chain, ChainEnd, Link, Lost};
use crate::samples;

/// The verdict, or the first of what is damaged.
fn decide(
    generation: &Generation,
    chains: &[Chain],
    hint: Option<&Hint>,
) -> Result<Verdict, DurabilityError> {
    super::decide(generation, chains, hint).map_err(|mut damages| damages.swap_remove(0))
}

fn generation(durable: Option<u64>) -> Generation {
    samples::generation(4, 3, durable)
}

fn chain(logger: u32, mark: u64, published: u64, tail_bytes: u64) -> Chain {
    let file = SegmentFile::from(SegmentName { generation: 4, logger, number: 2 });
    let Generation { salt, database: identity, entries, .. } = generation(None);
    let origin = Origin { identity, salt, entries };
    let link = Link { file, end: 640, synced_to: 0, largest: Epoch::ZERO, runs: Vec::new(), origin };
    Chain {
        generation: 4,
        logger,
        links: vec![link],
        mark: Epoch::new(mark),
        published: Epoch::new(published),
        seen: Epoch::new(mark),
        end: ChainEnd { file, offset: 640, detail: "the block's checksum is wrong" },
        blocks: mark,
        crc: 0,
        tail: Tail { bytes: tail_bytes, ..Tail::default() },
        lost: None,
        beyond: Vec::new(),
        discarded: Vec::new(),
    }
}

fn durable(verdict: Result<Verdict, DurabilityError>) -> (u64, usize) {
    let verdict = verdict.expect("not damaged");
    (verdict.durable.number(), verdict.torn.len())
}

fn assert_damaged(verdict: Result<Verdict, DurabilityError>, name: &str) {
    let Err(DurabilityError::Damaged { file, offset, detail }) = verdict else {
        panic!("damaged: {verdict:?}")
    };
    assert_eq!((&*file, offset), (name, 640));
    assert!(detail.contains("checksum") && detail.contains("was durable"), "{detail}");
}

#[test]
fn an_open_generation_is_durable_up_to_its_shortest_log_or_its_beginning_and_what_is_behind_is_torn() {
    assert_eq!(durable(decide(&generation(None), &[chain(0, 9, 7, 0), chain(1, 7, 6, 0)], None)), (7, 0));
    assert_eq!(durable(decide(&generation(None), &[chain(0, 2, 0, 0), chain(1, 0, 0, 0)], None)), (2, 0));
    assert_eq!(durable(decide(&generation(None), &[chain(0, 9, 7, 512), chain(1, 7, 6, 0)], None)), (7, 1));
    assert_eq!(
        durable(decide(&generation(Some(6)), &[chain(0, 9, 7, 512), chain(1, 7, 6, 9)], None)),
        (6, 0)
    );
}

#[test]
fn an_open_log_shorter_than_a_published_d_and_a_closed_one_below_its_d_are_damaged() {
    assert_damaged(
        decide(&generation(None), &[chain(0, 9, 8, 0), chain(1, 7, 6, 512)], None),
        "log1/log-4-2",
    );
    assert_damaged(
        decide(&generation(Some(8)), &[chain(0, 5, 5, 0), chain(1, 8, 6, 0)], None),
        "log0/log-4-2",
    );
}

#[test]
fn an_empty_log_is_damaged_though_nothing_shows_a_larger_d() {
    for closed in [None, Some(2)] {
        let file = SegmentFile::from(SegmentName { generation: 4, logger: 1, number: 0 });
        let end = ChainEnd { file, offset: 0, detail: "the file is empty" };
        let chains = [chain(0, 2, 2, 0), Chain { end, links: Vec::new(), ..chain(1, 0, 0, 0) }];
        let Err(DurabilityError::Damaged { file, offset, .. }) = decide(&generation(closed), &chains, None)
        else {
            panic!("damaged")
        };
        assert_eq!((&*file, offset), ("log1/log-4-0", 0));
    }
}

#[test]
fn the_hint_is_a_witness_of_the_open_generation() {
    let hint = |durable, closed: &[u64]| Hint {
        database: generation(None).database,
        generation: 4,
        durable: Epoch::new(durable),
        closed: closed.to_vec(),
        ended: None,
    };
    let chains = [chain(0, 9, 6, 0), chain(1, 7, 6, 512)];
    assert_eq!(durable(decide(&generation(None), &chains, Some(&hint(7, &[])))), (7, 1));
    assert_damaged(decide(&generation(None), &chains, Some(&hint(8, &[]))), "log1/log-4-2");
    // A log's blocks are as many as its mark here.
    assert_eq!(durable(decide(&generation(None), &chains, Some(&hint(7, &[9, 7])))), (7, 1));
    let Err(DurabilityError::Damaged { file, detail, .. }) =
        decide(&generation(None), &chains, Some(&hint(7, &[9, 8])))
    else {
        panic!("its last mark is gone")
    };
    assert!(file == "log1/log-4-2" && detail.contains("8 blocks"), "{file}: {detail}");
}

#[test]
fn what_a_later_block_shows_to_be_synced_is_not_torn_unless_an_earlier_recovery_decided() {
    for closed in [None, Some(6)] {
        let mut torn = chain(1, 7, 6, 512);
        torn.lost = Some(Lost { end: torn.end.clone(), why: BLOCK_SHOWS_IT });
        let verdict = decide(&generation(closed), &[chain(0, 9, 6, 0), torn], None);
        match closed {
            None => assert!(matches!(
                verdict,
                Err(DurabilityError::Damaged { file, offset: 640, .. }) if file == "log1/log-4-2"
            )),
            Some(closed) => assert_eq!(durable(verdict), (closed, 0)),
        }
    }
}

#[test]
fn n18_without_a_log_the_installed_picture_is_what_is_durable() {
    let without_log = Generation { logs: 0, ..generation(None) };
    let Generation { salt, database, .. } = without_log;
    let root = ExtentPlace { extent: Extent { folder: 0, first: 1, units: 1 }, header_crc: 0 };
    let name = PageFileName { folder: 0, number: 1 };
    let picture = InstalledCheckpoint::Picture(PictureCheckpoint {
        number: 1,
        generation: 4,
        epoch: Epoch::new(9),
        entries: 0,
        bytes: 4096,
        pages: 0,
        next_page: 1,
        root,
        database,
        files: vec![ListedPageFile { name, salt }],
    });
    let hint = |durable| Hint {
        database,
        generation: 4,
        durable: Epoch::new(durable),
        closed: Vec::new(),
        ended: None,
    };
    let decide = |picture, hint: Option<u64>, make: &dyn Fn(u64) -> Hint| {
        super::decide_without_log(&without_log, picture, hint.map(make).as_ref())
    };
    assert_eq!(decide(None, None, &hint).expect("whole").durable, Epoch::new(2), "what was before it");
    assert_eq!(decide(Some(&picture), None, &hint).expect("whole").durable, Epoch::new(9));
    assert_eq!(decide(Some(&picture), Some(9), &hint).expect("whole").durable, Epoch::new(9));
    for (picture, hinted) in [(None, 3), (Some(&picture), 10)] {
        let error = decide(picture, Some(hinted), &hint).expect_err("the manifest is an older one");
        assert!(matches!(&error, DurabilityError::Damaged { file, .. } if file == "MANIFEST"), "{error}");
    }
}

#[test]
fn k1_a_log_that_ends_one_epoch_below_an_installed_checkpoints_end_is_damaged() {
    let chains = [chain(0, 9, 6, 0), chain(1, 7, 6, 0)];
    let checked = |durable: u64, durable_min: u64| {
        let share = CheckpointShare { number: 5, durable_min: Epoch::new(durable_min) };
        check_checkpoint_durable(&share, Epoch::new(durable), &chains)
    };
    checked(7, 7).expect("it reaches the end");
    checked(8, 7).expect("it goes beyond the end");
    let error = checked(7, 8).expect_err("an epoch is missing").to_string();
    assert!(error.contains("log1/log-4-2") && error.contains("epoch 8 was durable"), "{error}");
}
