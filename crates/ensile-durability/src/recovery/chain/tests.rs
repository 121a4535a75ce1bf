//! The chain: what belongs to it, where it ends, what is seen behind the gap (L5, L4).

use std::sync::Arc;

use super::Chain;
use crate::log::block::{HEADER_BYTES, Header, Kind, Salt};
use crate::log::buffer::Buffer;
use crate::log::segments::Segments;
use crate::names::SegmentName;
use ensile_base::random::Random;
use ensile_base::{Epoch, Tid};
use ensile_disk::Disk;
use ensile_sim::SimDisk;

const NAME: SegmentName = SegmentName { generation: 3, logger: 1, number: 0 };
/// A data block with one entry of 20 bytes, and the mark behind it.
const STEP_BYTES: usize = HEADER_BYTES + 32 + HEADER_BYTES;

fn salt() -> Salt {
    Salt::draw(&mut Random::seeded(7))
}

/// A log of `steps` steps from epoch 11 on, one entry filled with `fill` and a mark in each; `files` files.
fn write_log(steps: u64, fill: u8, segment_bytes: u64) -> SimDisk {
    let disk = SimDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut segments =
        Segments::create(&shared, NAME, segment_bytes, Epoch::new(10), salt()).expect("creates");
    for epoch in (11..11 + steps).map(Epoch::new) {
        let mut buffer = Buffer::usual();
        buffer.push(Tid::first_of(epoch), |body| body.extend_from_slice(&[fill; 20]));
        segments.data(&mut buffer, epoch.previous(), Epoch::new(9)).expect("writes");
        segments.mark(epoch, Epoch::new(9)).expect("writes");
        segments.flush().expect("writes");
        segments.sync().expect("syncs");
        if segments.is_full() {
            segments.roll(epoch, Epoch::new(9)).expect("rolls");
        }
    }
    disk
}

fn read(disk: &SimDisk, files: u64) -> Chain {
    Chain::read(disk, NAME.generation, NAME.logger, files).expect("reads")
}

/// Puts bytes where others stood.
fn splice(disk: &SimDisk, at: usize, bytes: &[u8]) {
    disk.open(&NAME.to_string()).expect("opens").write_at(bytes, at as u64).expect("writes");
}

const fn step_at(step: usize) -> usize {
    HEADER_BYTES + step * STEP_BYTES
}

#[test]
fn a_whole_log_is_a_chain_over_all_its_files() {
    let disk = write_log(40, 1, 4096);
    let files = disk.list("").expect("lists").len() as u64;
    assert!(files > 1);
    let chain = read(&disk, files);
    assert_eq!((chain.mark, chain.seen, chain.blocks.len()), (Epoch::new(50), Epoch::new(50), 40));
    assert_eq!((chain.end.number, chain.tail.bytes), (files - 1, 0));
}

#[test]
fn intact_blocks_out_of_their_order_do_not_belong() {
    let disk = write_log(4, 1, 1 << 20);
    let second = disk.bytes(&NAME.to_string())[step_at(1)..step_at(2)].to_vec();
    splice(&disk, step_at(2), &second);
    let chain = read(&disk, 1);
    assert_eq!((chain.mark, chain.end.offset), (Epoch::new(12), step_at(2) as u64));
    assert_eq!(chain.blocks.len(), 2);
    assert_eq!(chain.seen, Epoch::new(14), "what stands behind the gap is seen (L4)");
}

#[test]
fn a_block_of_the_right_number_from_another_history_does_not_belong() {
    let disk = write_log(4, 1, 1 << 20);
    let other = write_log(4, 2, 1 << 20).bytes(&NAME.to_string());
    splice(&disk, step_at(2), &other[step_at(2)..step_at(3)]);
    let chain = read(&disk, 1);
    assert_eq!((chain.mark, chain.end.offset), (Epoch::new(12), step_at(2) as u64));
}

#[test]
fn a_later_file_does_not_continue_a_broken_one() {
    let disk = write_log(40, 1, 4096);
    splice(&disk, step_at(3) + 4, &[0xff]);
    let chain = read(&disk, 2);
    assert_eq!((chain.end.number, chain.end.offset), (0, step_at(3) as u64));
    assert_eq!((chain.mark, chain.blocks.len()), (Epoch::new(13), 3));
    assert!(chain.seen > Epoch::new(40));
}

#[test]
fn zeros_behind_the_last_block_are_no_tail_and_other_bytes_are() {
    let disk = write_log(2, 1, 1 << 20);
    assert_eq!(read(&disk, 1).tail.bytes, 0);
    splice(&disk, step_at(2) + 1000, b"x");
    let chain = read(&disk, 1);
    assert_eq!((chain.end.offset, chain.tail.bytes), (step_at(2) as u64, 1001));
    assert_eq!(chain.mark, Epoch::new(12));
}

#[test]
fn what_later_blocks_show_to_be_synced_is_known() {
    let disk = write_log(3, 1, 1 << 20);
    // The third data block shows the second mark; the third mark is shown by nothing.
    assert_eq!(read(&disk, 1).synced_to, (0, step_at(2) as u64));
}

/// What the author of a value can make: everything right but the salt.
fn forged(kind: Kind, salt: Salt) -> [u8; HEADER_BYTES] {
    let header = Header {
        kind,
        compressed: false,
        logger: NAME.logger,
        generation: NAME.generation,
        sequence: 1000,
        payload_bytes: 0,
        entries: u32::from(kind == Kind::Data),
        epoch_min: Epoch::new(900),
        epoch_max: Epoch::new(999),
        mark: Epoch::new(999),
        published: Epoch::new(999),
        previous_crc: 0,
        payload_crc: 0,
    };
    let mut block = [0; HEADER_BYTES];
    header.encode(&mut block, salt);
    block
}

#[test]
fn l5_a_block_forged_inside_a_value_is_not_believed() {
    for kind in [Kind::Data, Kind::Mark] {
        for (salt, is_known) in [(Salt::FIRST, false), (salt(), true)] {
            let disk = write_log(3, 1, 1 << 20);
            splice(&disk, step_at(2) + 4, &[0xff]);
            splice(&disk, step_at(3) + 800, &forged(kind, salt));
            let chain = read(&disk, 1);
            assert_eq!((chain.mark, chain.blocks.len()), (Epoch::new(12), 2));
            let found = (chain.published, chain.seen == Epoch::new(999), chain.tail.published);
            if is_known {
                assert_eq!(found, (Epoch::new(999), true, Epoch::new(999)), "the log's own would be");
            } else {
                assert_eq!(found, (Epoch::new(10), false, Epoch::new(9)));
            }
        }
    }
}
