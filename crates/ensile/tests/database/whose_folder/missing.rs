//! What is missing: each file and folder, with and without a checkpoint; devices that are not mounted (I2).

use std::fs;
use std::path::{Path, PathBuf};

use ensile::folder;
use ensile::prelude::*;
use ensile_durability::DurabilityError;

use super::{builder, copy, made, of, put, refused, rows, tree};
use crate::common::Folder;

/// Files and folders below a database's folder, relative to it.
fn entries(data: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("listed") {
            let path = entry.expect("listed").path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push(path.strip_prefix(data).expect("below").to_owned());
        }
    }
    found.sort();
    found
}

fn remove(path: &Path) {
    if path.is_dir() {
        fs::remove_dir_all(path).expect("removed");
    } else {
        fs::remove_file(path).expect("removed");
    }
}

/// Puts everything back as it was, into the same folders: their numbers stay.
fn restore(kept: &Path, data: &Path) {
    for entry in entries(kept) {
        let (from, to) = (kept.join(&entry), data.join(&entry));
        if from.is_dir() {
            fs::create_dir_all(&to).expect("made");
        } else {
            fs::copy(from, to).expect("copied");
        }
    }
}

#[test]
fn i2_each_file_and_folder_that_is_missing_is_named_or_not_needed() -> Result<()> {
    for checkpoint in [false, true] {
        let root = Folder::new();
        let (data, kept) = (root.path().join("data"), root.path().join("kept"));
        made(builder(&data), "here", checkpoint)?;
        copy(&data, &kept);
        for entry in entries(&kept).into_iter().filter(|entry| !kept.join(entry).is_dir()) {
            remove(&data.join(&entry));
            let before = tree(&data);
            let verified = folder::verify(&data)?;
            let name = entry.display().to_string();
            match builder(&data).open() {
                Ok(db) => {
                    assert!(
                        ["LOCK", "LEASES", "HINT", "RESERVE"].contains(&&*name),
                        "{name} is missing, and it opens"
                    );
                    assert!(verified.damage.is_empty(), "{name}: {verified:?}");
                    assert_eq!(rows(&db)?, of(0..10, "here"), "without {name}");
                    drop(db);
                    fs::remove_dir_all(&data).expect("removed");
                    made(builder(&data), "here", checkpoint)?;
                    fs::remove_dir_all(&kept).expect("removed");
                    copy(&data, &kept);
                    continue;
                }
                Err(Error::Storage(why)) => {
                    let DurabilityError::Damaged { file, .. } = why.cause() else { panic!("{name}: {why}") };
                    assert!(
                        *file == name || name.starts_with(file) || name.contains("log-"),
                        "{file}, not {name}"
                    );
                    // The mark of a folder in which nothing counts is told as a refusal.
                    let is_told = !verified.damage.is_empty() || !verified.refused.is_empty();
                    assert!(is_told, "{name}");
                }
                Err(other) => panic!("{name}: {other}"),
            }
            assert_eq!(tree(&data), before, "{name} is missing, and something was changed");
            restore(&kept, &data);
        }
        assert_eq!(rows(&builder(&data).open()?)?, of(0..10, "here"));
    }
    Ok(())
}

#[test]
fn i2_a_missing_folder_is_named_and_nothing_else_is_changed() -> Result<()> {
    for (checkpoint, name) in [(false, "log0"), (true, "log0"), (true, "checkpoint0")] {
        let root = Folder::new();
        let data = root.path().join("data");
        made(builder(&data), "here", checkpoint)?;
        fs::rename(data.join(name), root.path().join("aside")).expect("renamed");
        let before = tree(&data);
        let why = refused(builder(&data));
        let DurabilityError::Damaged { file, .. } = &why else { panic!("{why}") };
        assert_eq!(file, name);
        assert!(!folder::verify(&data)?.damage.is_empty());
        assert_eq!(tree(&data), before);
        fs::rename(root.path().join("aside"), data.join(name)).expect("renamed");
        assert_eq!(rows(&builder(&data).open()?)?, of(0..10, "here"));
    }
    Ok(())
}

#[test]
fn i2_a_missing_log_folder_is_not_cut_by_a_repair_unless_it_is_told_to() -> Result<()> {
    for checkpoint in [false, true] {
        let root = Folder::new();
        let (data, aside) = (root.path().join("data"), root.path().join("aside"));
        made(builder(&data), "here", checkpoint)?;
        fs::rename(data.join("log0"), &aside).expect("renamed");
        let before = tree(root.path());
        let why = refused(builder(&data)).to_string();
        assert!(why.contains("log0") && why.contains("is its device mounted"), "{why}");
        let verified = folder::verify(&data)?;
        assert!(
            matches!(&verified.remedy, Some(folder::Remedy::Copy(why)) if why.contains("log0")),
            "{verified:?}"
        );
        let why = folder::repair(&data).map(drop).expect_err("the device may not be mounted").to_string();
        assert!(why.contains("is its device mounted") && why.contains("--without-missing-folders"), "{why}");
        assert_eq!(tree(root.path()), before);
        fs::rename(&aside, data.join("log0")).expect("mounted");
        assert_eq!(rows(&builder(&data).open()?)?, of(0..10, "here"));
        fs::rename(data.join("log0"), &aside).expect("renamed");
        let options =
            folder::RepairOptions { without_missing_folders: true, ..folder::RepairOptions::default() };
        match folder::repair_with(&data, options) {
            // The checkpoint needs the log up to its last epoch.
            Err(why) if checkpoint => assert!(why.to_string().contains("checkpoint"), "{why}"),
            Ok(Some(_)) if !checkpoint => assert!(rows(&builder(&data).open()?)?.is_empty()),
            other => panic!("{other:?}"),
        }
    }
    Ok(())
}

#[test]
fn i2_a_missing_manifest_is_damage_with_and_without_a_checkpoint_and_nothing_is_removed() -> Result<()> {
    for checkpoint in [false, true] {
        let root = Folder::new();
        let data = root.path().join("data");
        made(builder(&data), "here", checkpoint)?;
        let manifest = fs::read(data.join("MANIFEST")).expect("read");
        // Alone, and with everything that can be named beside it.
        for others in [&[][..], &["HINT"], &["HINT", "LOCK"]] {
            fs::remove_file(data.join("MANIFEST")).expect("removed");
            others.iter().for_each(|name| fs::remove_file(data.join(name)).expect("removed"));
            let before = tree(&data);
            let why = refused(builder(&data));
            let DurabilityError::Damaged { file, detail, .. } = &why else { panic!("{why}") };
            assert!(file == "MANIFEST" && detail.contains("log0"), "{why}");
            assert!(detail.contains("checkpoint0"), "{why}");
            let verified = folder::verify(&data)?;
            assert_eq!(verified.damage[0].file, "MANIFEST");
            assert!(folder::repair(&data).is_err(), "no other file tells what it held");
            assert_eq!(tree(&data), before);
            fs::write(data.join("MANIFEST"), &manifest).expect("written");
            let _ = fs::write(data.join("HINT"), "");
        }
        assert_eq!(rows(&builder(&data).open()?)?, of(0..10, "here"));
    }
    Ok(())
}

#[test]
fn i2_an_empty_linked_folder_asks_for_its_device_and_offers_nothing_else() -> Result<()> {
    let root = Folder::new();
    let (data, log, checkpoints) =
        (root.path().join("data"), root.path().join("log"), root.path().join("checkpoints"));
    made(builder(&data).log_folders([&log]).checkpoint_folders([&checkpoints]), "here", true)?;
    for device in [&log, &checkpoints] {
        let aside = root.path().join("aside");
        fs::rename(device, &aside).expect("unmounted");
        fs::create_dir(device).expect("the mount point");
        let before = tree(root.path());
        let why = refused(builder(&data));
        assert!(matches!(why, DurabilityError::NotMounted { .. }), "{why}");
        assert!(
            why.to_string().contains("is its device mounted?") && !why.to_string().contains("repair"),
            "{why}"
        );
        for answer in [folder::verify(&data).map(drop), folder::repair(&data).map(drop)] {
            let Err(Error::Storage(why)) = answer else { panic!("{answer:?}") };
            assert!(matches!(why.cause(), DurabilityError::NotMounted { .. }), "{why}");
        }
        assert_eq!(tree(root.path()), before);
        fs::remove_dir(device).expect("removed");
        fs::rename(&aside, device).expect("mounted");
    }
    let db = builder(&data).open()?;
    assert_eq!(rows(&db)?, of(0..10, "here"));
    put(&db, 10..11, "here")
}
