//! Folders that were copied, restored, moved, renamed or linked (I1).

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use ensile::folder;
use ensile::prelude::*;
use ensile_durability::DurabilityError;

use super::{builder, copy, made, of, open_in_a_child, put, refused, rows, tree};
use crate::common::Folder;

#[test]
fn i1_a_copy_is_refused_and_says_what_to_do_and_the_original_opens() -> Result<()> {
    let root = Folder::new();
    let (original, copied) = (root.path().join("a"), root.path().join("b"));
    made(builder(&original), "of a", true)?;
    copy(&original, &copied);
    let before = tree(root.path());
    let why = refused(builder(&copied));
    assert!(matches!(why, DurabilityError::Copied { .. }), "{why}");
    assert!(why.to_string().contains(&format!("ensile adopt {}", copied.display())), "{why}");
    assert_eq!(tree(root.path()), before);
    // It can be looked at.
    let examined = folder::verify(&copied)?;
    assert!(examined.damage.is_empty() && !examined.refused.is_empty(), "{examined:?}");
    assert_eq!(rows(&builder(&original).open()?)?, of(0..10, "of a"));
    Ok(())
}

#[test]
fn i1_a_copy_whose_log_is_a_link_leaves_the_originals_log_alone() -> Result<()> {
    let root = Folder::new();
    let (original, copied, device) =
        (root.path().join("a"), root.path().join("b"), root.path().join("device"));
    made(builder(&original).log_folders([&device]), "of a", false)?;
    copy(&original, &copied);
    let before = tree(root.path());
    for _ in 0..2 {
        let why = refused(builder(&copied));
        assert!(matches!(why, DurabilityError::Copied { .. }), "{why}");
    }
    assert_eq!(tree(root.path()), before);
    // Neither while the original is open.
    let db = builder(&original).open()?;
    put(&db, 10..11, "of a")?;
    let why = refused(builder(&copied));
    assert!(matches!(why, DurabilityError::Copied { .. }), "{why}");
    drop(db);
    assert_eq!(rows(&builder(&original).open()?)?, of(0..11, "of a"));
    Ok(())
}

#[test]
fn i1_a_folder_that_was_moved_opens() -> Result<()> {
    let root = Folder::new();
    let (before, after, device) = (root.path().join("a"), root.path().join("b"), root.path().join("device"));
    made(builder(&before).log_folders([&device]), "moved", true)?;
    fs::rename(&before, &after).expect("renamed");
    assert_eq!(rows(&builder(&after).open_existing()?)?, of(0..10, "moved"));
    // Its linked folder too, the link made anew.
    let elsewhere = root.path().join("elsewhere");
    fs::rename(&device, &elsewhere).expect("renamed");
    let why = refused(builder(&after));
    assert!(matches!(why, DurabilityError::FolderMissing { .. }), "{why}");
    fs::remove_file(after.join("log0")).expect("removed");
    symlink(&elsewhere, after.join("log0")).expect("linked");
    assert_eq!(rows(&builder(&after).open()?)?, of(0..10, "moved"));
    Ok(())
}

#[test]
fn i1_a_restored_copy_is_refused_even_in_the_originals_place() -> Result<()> {
    let root = Folder::new();
    let (data, backup) = (root.path().join("data"), root.path().join("backup"));
    made(builder(&data), "old", true)?;
    copy(&data, &backup);
    fs::remove_dir_all(&data).expect("lost");
    copy(&backup, &data);
    let before = tree(&data);
    let why = refused(builder(&data));
    assert!(matches!(why, DurabilityError::Copied { .. }), "{why}");
    assert_eq!(tree(&data), before);
    Ok(())
}

#[test]
fn i3_a_hard_linked_copy_is_refused_while_the_original_runs_and_afterwards() -> Result<()> {
    let root = Folder::new();
    let (original, copied) = (root.path().join("a"), root.path().join("b"));
    let db = builder(&original).open()?;
    put(&db, 0..10, "of a")?;
    let done = Command::new("cp").arg("-al").args([&original, &copied]).status().expect("cp runs");
    assert!(done.success(), "cp -al");
    // The same inodes: `LOCK` is held.
    assert!(matches!(refused(builder(&copied)), DurabilityError::InUse { .. }));
    let said = open_in_a_child(&copied);
    assert!(said.contains("in use"), "{said}");
    db.close()?;
    drop(db);
    let before = tree(root.path());
    let why = refused(builder(&copied));
    assert!(
        matches!(why, DurabilityError::Copied { .. }) && why.to_string().contains("hard-linked"),
        "{why}"
    );
    assert_eq!(tree(root.path()), before);
    assert_eq!(rows(&builder(&original).open()?)?, of(0..10, "of a"));
    Ok(())
}

#[test]
fn i3_a_folder_renamed_while_it_runs_and_another_database_in_its_place_both_keep_their_rows() -> Result<()> {
    let root = Folder::new();
    let (data, aside) = (root.path().join("data"), root.path().join("aside"));
    let first = builder(&data).open()?;
    put(&first, 0..5, "of the first")?;
    fs::rename(&data, &aside).expect("renamed");
    let second = builder(&data).open()?;
    put(&second, 0..3, "of the second")?;
    put(&first, 5..10, "of the first")?;
    first.checkpoint()?.wait()?;
    second.checkpoint()?.wait()?;
    put(&first, 10..15, "of the first")?;
    put(&second, 3..6, "of the second")?;
    first.close()?;
    second.close()?;
    drop((first, second));
    assert_eq!(rows(&builder(&aside).open()?)?, of(0..15, "of the first"));
    assert_eq!(rows(&builder(&data).open()?)?, of(0..6, "of the second"));
    Ok(())
}
