//! Copies that become databases of their own (I1).

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use ensile::folder;
use ensile::prelude::*;
use ensile_durability::DurabilityError;

use super::{builder, copy, made, of, put, refused, rows, tree};
use crate::common::{Folder, cause};

#[test]
fn i1_an_adopted_copy_goes_its_own_way_and_its_original_too() -> Result<()> {
    for checkpoint in [false, true] {
        let root = Folder::new();
        let (original, copied) = (root.path().join("a"), root.path().join("b"));
        made(builder(&original), "both", checkpoint)?;
        copy(&original, &copied);
        let before = tree(&original);
        let adopted = folder::adopt(&copied)?;
        assert_ne!(adopted.database, adopted.parent);
        assert_eq!(tree(&original), before);
        assert!(folder::verify(&copied)?.damage.is_empty());
        let (first, second) = (builder(&original).open()?, builder(&copied).open()?);
        put(&first, 10..12, "of a")?;
        put(&second, 10..15, "of b")?;
        first.checkpoint()?.wait()?;
        second.checkpoint()?.wait()?;
        drop((first, second));
        let rows_of = |path| -> Result<_> { rows(&builder(path).open()?) };
        let (mut of_a, mut of_b) = (of(0..10, "both"), of(0..10, "both"));
        of_a.extend(of(10..12, "of a"));
        of_b.extend(of(10..15, "of b"));
        assert_eq!((rows_of(&original)?, rows_of(&copied)?), (of_a, of_b));
    }
    Ok(())
}

#[test]
fn i1_a_copy_whose_link_leads_to_the_originals_log_is_adopted_with_a_copy_of_that() -> Result<()> {
    let root = Folder::new();
    let (original, copied, device, second) = (
        root.path().join("a"),
        root.path().join("b"),
        root.path().join("device"),
        root.path().join("second"),
    );
    made(builder(&original).log_folders([&device]), "of a", false)?;
    copy(&original, &copied);
    let before = tree(root.path());
    let Err(Error::Storage(why)) = folder::adopt(&copied) else { panic!("the log is the original's") };
    assert!(matches!(why.cause(), DurabilityError::ForeignFolder { .. }), "{why}");
    assert!(why.to_string().contains("make log0 a link to the copy"), "{why}");
    assert_eq!(tree(root.path()), before);
    copy(&device, &second);
    fs::remove_file(copied.join("log0")).expect("removed");
    symlink(&second, copied.join("log0")).expect("linked");
    assert!(matches!(refused(builder(&copied)), DurabilityError::Copied { .. }));
    folder::adopt(&copied)?;
    assert_eq!(rows(&builder(&copied).open()?)?, of(0..10, "of a"));
    assert_eq!(rows(&builder(&original).open()?)?, of(0..10, "of a"));
    Ok(())
}

#[test]
fn i1_neither_an_open_database_nor_a_hard_linked_copy_nor_nothing_is_adopted() -> Result<()> {
    let root = Folder::new();
    let (original, copied) = (root.path().join("a"), root.path().join("b"));
    made(builder(&original), "of a", true)?;
    let done = Command::new("cp").arg("-al").args([&original, &copied]).status().expect("cp runs");
    assert!(done.success(), "cp -al");
    let before = tree(root.path());
    match folder::adopt(&copied) {
        Err(Error::Misuse(why)) => assert!(why.contains("hard link"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(tree(root.path()), before);
    fs::remove_dir_all(&copied).expect("removed");
    let db = builder(&original).open()?;
    assert!(matches!(
        folder::adopt(&original).as_ref().err().and_then(cause),
        Some(DurabilityError::InUse { .. })
    ));
    drop(db);
    let empty = root.path().join("empty");
    fs::create_dir(&empty).expect("made");
    assert!(matches!(
        folder::adopt(&empty).as_ref().err().and_then(cause),
        Some(DurabilityError::NoDatabase { .. })
    ));
    Ok(())
}

#[test]
fn i1_a_lost_mark_is_written_anew_by_an_adoption() -> Result<()> {
    let root = Folder::new();
    let data = root.path().join("data");
    made(builder(&data), "here", false)?;
    fs::remove_file(data.join("log0/FOLDER")).expect("removed");
    assert!(refused(builder(&data)).to_string().contains("ensile adopt"));
    folder::adopt(&data)?;
    assert_eq!(rows(&builder(&data).open()?)?, of(0..10, "here"));
    Ok(())
}
