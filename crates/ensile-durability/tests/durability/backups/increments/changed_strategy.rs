//! The strategy of checkpoints was changed between two backups into one folder.

use super::super::back_up_picture;
use super::*;

#[test]
fn a_backup_goes_on_with_pictures_behind_files_and_with_files_behind_pictures() {
    let disk = SimDisk::new();
    let rounds: [(&str, CheckpointConfig); 8] = [
        ("files", settings()),
        ("pictures", pictures()),
        ("pictures", pictures()),
        ("files", settings()),
        ("files", cycling()),
        ("pictures", pictures()),
        ("files", settings()),
        ("files", settings()),
    ];
    let mut states = Vec::new();
    let mut kinds = Vec::new();
    for (round, (kind, strategy)) in rounds.into_iter().enumerate() {
        let (life, mut worker) = Life::with_worker(&disk.at("data"), 2, strategy);
        if round == 0 {
            put_all(&life, &mut worker, 1);
        }
        (0..6).for_each(|key| put(&life, &mut worker, 9 * round as u64 + key, round as u8));
        take_checkpoint(&life);
        let report = match kind {
            "pictures" => back_up_picture(&disk, "backup", 3),
            _ => back_up(&disk, "backup", 3),
        };
        let report = report.expect("is made");
        assert_eq!(report.pages > 0, kind == "pictures", "round {round}: {report:?}");
        states.push((report.epoch, life.store.present()));
        kinds.push(kind);
        let newest: Vec<_> = states.iter().rev().take(3).map(|(epoch, _)| *epoch).collect();
        assert_eq!(report.kept, newest, "round {round}");
        let found = examined(&disk, "backup");
        assert!(found.is_whole(), "round {round}: {found:#?}");
        let Some(BackupFacts::Backup { epoch, pictures, files, .. }) = found.backup else {
            panic!("it is one")
        };
        assert_eq!(epoch, Some(report.epoch));
        let of_kind = |wanted: &str| {
            let of_kind = states.iter().zip(&kinds).rev().take(3).filter(|(_, kind)| **kind == wanted);
            of_kind.map(|((epoch, _), _)| *epoch).collect::<Vec<_>>()
        };
        assert_eq!((pictures, files), (of_kind("pictures"), of_kind("files")), "round {round}");
        assert_eq!(opened(&disk, "backup"), life.store.present(), "round {round}");
        for (epoch, state) in states.iter().rev().take(3) {
            assert!(&restored_at(&disk, *epoch) == state, "round {round}, {epoch}");
        }
        life.rig.log.close().expect("closes");
    }
    // What states of one kind had goes with them.
    let life = Life::open(&disk.at("data"), 2, settings()).expect("opens");
    back_up(&disk, "backup", 1).expect("is made");
    assert!(bytes_of(&disk, "backup", "/pages-").is_empty());
    assert_eq!(bytes_of(&disk, "backup", "/ckpt-"), bytes_of(&disk, "data", "/ckpt-"));
    drop(life);
    disk.kill();
    let life = Life::open(&disk.at("data"), 2, pictures()).expect("opens");
    take_checkpoint(&life);
    back_up_picture(&disk, "backup", 1).expect("is made");
    assert!(bytes_of(&disk, "backup", "/ckpt-").is_empty() && bytes_of(&disk, "backup", "/log-").is_empty());
    assert_eq!(opened(&disk, "backup"), life.store.present());
}

#[test]
fn an_older_picture_does_not_follow_newer_files() {
    let disk = SimDisk::new();
    let (life, mut worker) = Life::with_worker(&disk.at("data"), 2, pictures());
    put_all(&life, &mut worker, 1);
    take_checkpoint(&life);
    let older = disk.fork();
    life.rig.log.close().expect("closes");
    drop((worker, life));
    let (life, mut worker) = Life::with_worker(&disk.at("data"), 2, settings());
    put(&life, &mut worker, 1, 2);
    take_checkpoint(&life);
    back_up(&disk, "backup", 2).expect("is made");
    let copy = crate::copies::backup(
        &super::of(&older, "data"),
        &super::of(&disk, "backup"),
        ensile_durability::CopyOptions::default(),
    );
    let error = copy.expect_err("it is older");
    assert!(matches!(error, DurabilityError::NotItsBackup { .. }), "{error}");
    assert_eq!(opened(&disk, "backup"), life.store.present());
}
