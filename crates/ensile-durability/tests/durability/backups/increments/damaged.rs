//! Files of a backup that are damaged before the next one: it is seen, and named.

use super::*;

#[test]
fn n12_damage_in_a_file_that_stays_is_seen_before_the_next_backup_counts() {
    let (disk, life, mut worker) = filled_disk(settings());
    back_up(&disk, "backup", 1).expect("is made");
    put(&life, &mut worker, 1, 2);
    let text = manifest(&disk, "backup");
    let files = [bytes_of(&disk, "backup", "/ckpt-"), bytes_of(&disk, "backup", "/log-")];
    let (mut seen, mut not_needed) = (0, 0);
    for (name, bytes) in files.iter().flatten() {
        for offset in (0..bytes.len() as u64).step_by(331) {
            let copy = disk.fork();
            copy.at("backup").flip(name, offset, 4);
            let is_whole = examined(&copy, "backup").is_whole();
            match back_up(&copy, "backup", 1) {
                Ok(_) => {
                    not_needed += 1;
                    assert!(is_whole, "{name} at {offset}");
                    assert_eq!(opened(&copy, "backup"), life.store.present(), "{name} at {offset}");
                }
                Err(error @ DurabilityError::TargetFailed { .. }) => {
                    seen += 1;
                    assert_eq!(manifest(&copy, "backup"), text);
                    // As the error says: the file is removed, and comes from the database again.
                    let advice = format!("remove {name} from the backup");
                    assert!(error.to_string().contains(&advice), "{name} at {offset}: {error}");
                    copy.at("backup").mounted().remove(name).expect("is there");
                    back_up(&copy, "backup", 1).expect("is made");
                    assert_eq!(opened(&copy, "backup"), life.store.present(), "{name} at {offset}");
                    assert!(examined(&copy, "backup").is_whole(), "{name} at {offset}");
                }
                Err(error) => panic!("{name} at {offset}: {error}"),
            }
        }
    }
    assert!(seen > 40 && not_needed < seen / 4, "{seen} seen, {not_needed} not needed");
}

#[test]
fn n12_a_log_file_that_was_cut_in_the_backup_is_not_emptied_for_the_next_one() {
    let (disk, life, mut worker) = filled_disk(settings());
    let first = back_up(&disk, "backup", 2).expect("is made");
    let before = bytes_of(&disk, "backup", "/log-");
    put(&life, &mut worker, 1, 2);
    back_up(&disk, "backup", 2).expect("is made");
    let after = bytes_of(&disk, "backup", "/log-");
    let (name, bytes) =
        after.iter().find(|(name, bytes)| before[*name].len() < bytes.len()).expect("one grew");
    put(&life, &mut worker, 2, 3);
    let state = restored_at(&disk, first.epoch);
    // As much is left as the older state needs, or less.
    for left in [0, 20, before[name].len() - 8, before[name].len(), bytes.len() - 8] {
        let copy = disk.fork();
        copy.at("backup").put(name, bytes[..left].to_vec());
        let text = manifest(&copy, "backup");
        let error = back_up(&copy, "backup", 2).expect_err("it is cut");
        assert!(matches!(error, DurabilityError::TargetFailed { .. }), "{error}");
        let said = format!("{name} is cut: it has {left} bytes, and the backup had {} of it", bytes.len());
        assert!(error.to_string().contains(&said), "{error}");
        assert_eq!((manifest(&copy, "backup"), copy.at("backup").bytes(name).len()), (text, left));
        if left >= before[name].len() {
            assert_eq!(restored_at(&copy, first.epoch), state, "an older state has what it had");
        }
        // As the error says.
        assert!(error.to_string().contains(&format!("remove {name} from the backup")), "{error}");
        copy.at("backup").mounted().remove(name).expect("is there");
        back_up(&copy, "backup", 2).expect("is made");
        assert_eq!(opened(&copy, "backup"), life.store.present());
        assert!(examined(&copy, "backup").is_whole());
    }
}

#[test]
fn damage_that_only_an_older_state_of_files_reaches_is_named() {
    let (disk, life, mut worker) = filled_disk(settings());
    let mut epochs: Vec<Epoch> = Vec::new();
    for round in 0..2 {
        put_all(&life, &mut worker, round);
        take_checkpoint(&life);
        put(&life, &mut worker, 3, round);
        epochs.push(back_up(&disk, "backup", 2).expect("is made").epoch);
    }
    let (mut of_older, mut of_newest) = (0, 0);
    let files = [bytes_of(&disk, "backup", "/ckpt-"), bytes_of(&disk, "backup", "/log-")];
    for (name, bytes) in files.iter().flatten() {
        for offset in (0..bytes.len() as u64).step_by(1009) {
            let copy = disk.fork();
            copy.at("backup").flip(name, offset, 4);
            let is_broken = |at: Epoch| match restored(&copy, "backup", &format!("restored-{at}"), Some(at)) {
                Ok(_) => false,
                Err(DurabilityError::TargetFailed { .. } | DurabilityError::Damaged { .. }) => true,
                Err(error) => panic!("{name} at {offset}: {error}"),
            };
            let (older, newest) = (is_broken(epochs[0]), is_broken(epochs[1]));
            let found = examined(&copy, "backup");
            assert_eq!(found.is_whole(), !older && !newest, "{name} at {offset}: {found:#?}");
            of_newest += usize::from(newest);
            if older && !newest {
                of_older += 1;
                let said = &found.damage[0].detail;
                assert!(said.contains("(in an older state, of epoch"), "{said}");
                let remedy = format!("{:?}", found.remedy);
                assert!(remedy.contains("the newest state is whole"), "{remedy}");
                assert_eq!(opened(&copy, "backup"), life.store.present(), "{name} at {offset}");
            }
        }
    }
    assert!(of_older > 10 && of_newest > 10, "{of_older} of the older one only, {of_newest} of the newest");
}
