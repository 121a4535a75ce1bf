//! Checkpoints whose blocks are compressed: they come back, beside plain ones and plain blocks, and damage in one is told
//! with file and offset.

use std::sync::Arc;

use ensile_base::random::Random;
use ensile_disk::Disk;
use ensile_durability::examine::{Remedy, examine, repair};
use ensile_durability::{CheckpointConfig, DurabilityError};
use ensile_sim::SimDisk;

use crate::checkpoints::store::{Changes, Framing, KEYS, Life, Store, settings};

fn compressing(compress: bool) -> CheckpointConfig {
    CheckpointConfig { compress, ..settings() }
}

/// Half of the keys get values of one byte again and again, the others noise; most of them short, one larger than a
/// block usually is.
fn fill(life: &Life, random: &mut Random) {
    let mut worker = life.rig.worker();
    for key in 0..KEYS {
        let mut value = vec![key as u8; if key == 22 { 300_000 } else { 40 + random.below(400) as usize }];
        if key % 4 < 2 {
            random.fill(&mut value);
        }
        life.commit(&mut worker, key, Some(&value));
    }
    life.rig.settle();
}

/// A disk with an installed checkpoint, which has lost power since; the state, and bytes of the checkpoint.
fn disk_with_checkpoint(compress: bool) -> (SimDisk, Changes, u64) {
    let disk = SimDisk::new();
    let life = Life::open(&disk, 1, compressing(compress)).expect("opens");
    fill(&life, &mut Random::seeded(1));
    let report = life.checkpoint().expect("installs");
    assert_eq!(report.entries, KEYS);
    assert_eq!(
        life.checkpoints.stats().bytes + 4 * (128 + 96),
        report.bytes,
        "what is counted is what is written"
    );
    let state = life.store.present();
    drop(life);
    disk.crash(1);
    (disk, state, report.bytes)
}

#[test]
fn a_compressed_checkpoint_is_smaller_and_comes_back() {
    let ((plain, state, plain_bytes), (compressed, same, bytes)) =
        (disk_with_checkpoint(false), disk_with_checkpoint(true));
    assert!(state == same && bytes < plain_bytes / 2, "{bytes} of {plain_bytes} bytes");
    for (disk, stored) in [(plain, plain_bytes), (compressed, bytes)] {
        let on: Arc<dyn Disk> = Arc::new(disk.clone());
        disk.set_read_only(true);
        let found = examine(&on, &Store::default()).expect("it can be read");
        disk.set_read_only(false);
        assert!(found.damage.is_empty(), "{found:?}");
        let facts = found.checkpoint.expect("a checkpoint");
        assert_eq!((facts.bytes, facts.plain_bytes), (stored, plain_bytes));
        drop(on);
        // Whatever is set now, what is there is read.
        for compress in [false, true] {
            let life = Life::open(&disk.fork(), 1, compressing(compress)).expect("opens");
            assert!(life.found == state);
        }
    }
}

#[test]
fn compression_goes_on_and_off_between_lives_that_lose_power() {
    let (disk, mut random) = (SimDisk::new(), Random::seeded(2));
    let mut state = Changes::new();
    for (life, compress) in [true, false, true, true, false].into_iter().enumerate() {
        let open = Life::open(&disk, 1 + life % 2, compressing(compress)).expect("opens");
        assert!(open.found == state, "before life {life}");
        fill(&open, &mut random);
        open.checkpoint().expect("installs");
        let mut worker = open.rig.worker();
        open.commit(&mut worker, life as u64, None);
        open.commit(&mut worker, 10 + life as u64, Some(b"behind the checkpoint"));
        open.rig.settle();
        state = open.store.present();
        drop((worker, open));
        disk.crash(life as u64);
    }
    assert!(Life::open(&disk, 1, compressing(true)).expect("opens").found == state);
}

#[test]
fn a_flipped_bit_or_a_cut_in_a_compressed_checkpoint_is_damage_with_file_and_offset() {
    let (disk, ..) = disk_with_checkpoint(true);
    let mut random = Random::seeded(3);
    let parts: Vec<String> = disk.files().into_iter().filter(|name| name.contains("ckpt-")).collect();
    assert_eq!(parts.len(), 4);
    for part in parts {
        let bytes = disk.bytes(&part);
        for number in 0..400 {
            let hurt = disk.fork();
            let at = random.below(bytes.len() as u64);
            if number % 4 == 0 {
                hurt.put(&part, bytes[..at as usize].to_vec());
            } else {
                hurt.flip(&part, at, 1 << random.below(8));
            }
            match Life::open(&hurt, 1, compressing(true)).map(|_| ()) {
                Err(DurabilityError::Damaged { file, offset, .. }) => {
                    assert!(file == part && offset <= at, "{file} at {offset}, not {part} at {at}");
                }
                other => panic!("damage must be found in {part} at {at}, not {other:?}"),
            }
        }
        let on: Arc<dyn Disk> = Arc::new({
            let hurt = disk.fork();
            hurt.flip(&part, bytes.len() as u64 / 2, 1);
            hurt
        });
        let found = examine(&on, &Store::default()).expect("it can be read");
        assert!(found.damage.len() == 1 && found.damage[0].file == part, "{found:?}");
        assert!(matches!(&found.remedy, Some(Remedy::Copy(why)) if why.contains(&part)), "{found:?}");
        let refused = repair(&on, &Framing);
        assert!(matches!(&refused, Err(DurabilityError::Config(why)) if why.contains(&part)), "{refused:?}");
    }
}

#[test]
fn a_damaged_log_is_cut_beside_a_compressed_checkpoint() {
    let disk = SimDisk::new();
    let life = Life::open(&disk, 1, compressing(true)).expect("opens");
    fill(&life, &mut Random::seeded(4));
    life.checkpoint().expect("installs");
    let state = life.store.present();
    let mut worker = life.rig.worker();
    // The checkpoint's e_h stands in a synced mark before these.
    for round in 0..3 {
        life.commit(&mut worker, round, Some(b"behind the checkpoint"));
        life.rig.settle();
    }
    drop((worker, life));
    disk.crash(5);
    let log = disk.files().into_iter().rfind(|name| name.starts_with("log0/")).expect("a log");
    let bytes = disk.bytes(&log);
    let first = bytes.windows(6).position(|window| window == b"behind").expect("was logged") as u64;
    disk.flip(&log, first, 1);
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    let done = repair(&on, &Framing).expect("it can be repaired").expect("something is damaged");
    assert!(done.loss.files.iter().any(|(file, _)| *file == log), "{done:?}");
    drop(on);
    assert!(Life::open(&disk, 1, compressing(true)).expect("opens").found == state);
}
