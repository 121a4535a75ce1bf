//! Damage in a checkpoint with blocks of all sizes: an error with file and offset; damage in the log beside it is cut.

use crate::prelude::*;

/// Half of the keys get values of one byte again and again, the others noise; most of them short, one larger than a
/// block usually is.
fn fill(life: &Life, random: &mut Random) {
    let mut worker = life.rig.worker();
    for key in 0..KEYS {
        let mut value =
            vec![key as u8; if key == 22 { 300_000 } else { 40 + random.next_below(400) as usize }];
        if key % 4 < 2 {
            random.fill(&mut value);
        }
        life.commit(&mut worker, key, Some(&value));
    }
    life.rig.settle();
}

/// A disk with an installed checkpoint, which has lost power since; and the checkpoint's bytes.
fn disk_with_checkpoint() -> (SimDisk, u64) {
    let (disk, life) = Life::first(1, settings());
    fill(&life, &mut Random::from_seed(1));
    let report = life.checkpoint().expect("installs");
    assert_eq!(report.entries, KEYS);
    assert_eq!(
        life.checkpoints.stats().bytes + 4 * (128 + 96),
        report.bytes,
        "what is counted is what is written"
    );
    drop(life);
    disk.crash(1);
    (disk, report.bytes)
}

#[test]
fn an_examination_counts_the_bytes_that_the_checkpoint_wrote() {
    let (disk, bytes) = disk_with_checkpoint();
    disk.set_read_only(true);
    let found = examine(&handle(disk.clone()), &Store::default()).expect("it can be read");
    assert!(found.damage.is_empty(), "{found:?}");
    assert_eq!(found.checkpoint.expect("a checkpoint").bytes, bytes);
}

#[test]
fn a_flipped_bit_or_a_cut_in_a_checkpoint_is_damage_with_file_and_offset() {
    let (disk, _) = disk_with_checkpoint();
    let mut random = Random::from_seed(3);
    let parts: Vec<String> = disk.files().into_iter().filter(|name| name.contains("ckpt-")).collect();
    assert_eq!(parts.len(), 4);
    for part in parts {
        let bytes = disk.bytes(&part);
        for number in 0..400 {
            let hurt = disk.fork();
            let at = random.next_below(bytes.len() as u64);
            if number % 4 == 0 {
                hurt.put(&part, bytes[..at as usize].to_vec());
            } else {
                hurt.flip(&part, at, 1 << random.next_below(8));
            }
            match Life::open(&hurt, 1, settings()).map(|_| ()) {
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
fn a_damaged_log_is_cut_beside_a_whole_checkpoint() {
    let (disk, life) = Life::first(1, settings());
    fill(&life, &mut Random::from_seed(4));
    life.checkpoint().expect("installs");
    let state = life.store.present();
    let mut worker = life.rig.worker();
    // The checkpoint's e_h stands in a synced mark before these.
    for round in 0..3 {
        life.commit_epoch(&mut worker, round, Some(b"behind the checkpoint"));
    }
    drop((worker, life));
    disk.crash(5);
    let log = disk.files().into_iter().rfind(|name| name.starts_with("log0/")).expect("a log");
    let bytes = disk.bytes(&log);
    let first = bytes.windows(6).position(|window| window == b"behind").expect("was logged") as u64;
    disk.flip(&log, first, 1);
    let done =
        repair(&handle(disk.clone()), &Framing).expect("it can be repaired").expect("something is damaged");
    assert!(done.loss.files.iter().any(|(file, _)| *file == log), "{done:?}");
    assert!(Life::open(&disk, 1, settings()).expect("opens").found == state);
}
