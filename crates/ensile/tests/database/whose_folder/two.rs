//! Two that want the same folder (I1, I3).

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Barrier;
use std::thread;

use ensile::prelude::*;
use ensile::{ErrorKind, Tuning};
use ensile_durability::DurabilityError;

use super::{builder, made, of, open_in_a_child, put, refused, rows, tree, tuned};
use crate::common::Folder;

#[test]
fn i1_two_databases_with_one_checkpoint_folder_do_not_remove_each_others_checkpoint() -> Result<()> {
    let root = Folder::new();
    let (first, second, device) = (root.path().join("a"), root.path().join("b"), root.path().join("device"));
    made(builder(&first).checkpoint_folders([&device]), "of a", true)?;
    let before = (tree(&first), tree(&device));
    // Given by its path, or by a link that somebody made.
    assert!(builder(&second).checkpoint_folders([&device]).open().is_err());
    fs::remove_dir_all(&second).expect("removed");
    fs::create_dir(&second).expect("made");
    symlink(&device, second.join("checkpoint0")).expect("linked");
    let why = refused(builder(&second));
    assert!(matches!(why, DurabilityError::ForeignFolder { .. } | DurabilityError::Damaged { .. }), "{why}");
    assert_eq!((tree(&first), tree(&device)), before);
    assert_eq!(rows(&builder(&first).open()?)?, of(0..10, "of a"));
    Ok(())
}

#[test]
fn i1_a_log_folder_of_another_database_is_refused_and_so_is_one_that_holds_files() -> Result<()> {
    let root = Folder::new();
    let (first, second, device) = (root.path().join("a"), root.path().join("b"), root.path().join("device"));
    made(builder(&first).log_folders([&device]), "of a", false)?;
    made(builder(&second), "of b", false)?;
    let before = tree(root.path());
    symlink(&device, second.join("log1")).expect("linked");
    let why = refused(tuned(&second, Tuning { loggers: Some(2), ..Tuning::default() }));
    assert!(matches!(why, DurabilityError::ForeignFolder { .. }), "{why}");
    // The main folder of none: the folder of a log is no database.
    let why = refused(builder(&device));
    assert!(matches!(why, DurabilityError::NotADatabase { .. }), "{why}");
    fs::remove_file(second.join("log1")).expect("removed");
    assert_eq!(tree(root.path()), before);
    fs::create_dir(second.join("log1")).expect("made");
    fs::write(second.join("log1/notes.txt"), "mine").expect("written");
    let why = refused(tuned(&second, Tuning { loggers: Some(2), ..Tuning::default() }));
    assert!(matches!(why, DurabilityError::ForeignFolder { .. }), "{why}");
    assert_eq!(rows(&builder(&first).open()?)?, of(0..10, "of a"));
    assert_eq!(rows(&builder(&second).open()?)?, of(0..10, "of b"));
    Ok(())
}

#[test]
fn i3_of_two_new_databases_given_one_empty_log_folder_at_once_one_acknowledges() -> Result<()> {
    for _ in 0..5 {
        let root = Folder::new();
        let device = root.path().join("device");
        let names = ["a", "b"].map(|name| root.path().join(name));
        let both = Barrier::new(2);
        let opened: Vec<bool> = thread::scope(|scope| {
            let open = |path| {
                both.wait();
                let Ok(db) = builder(path).log_folders([&device]).open() else { return false };
                put(&db, 0..10, "acknowledged").is_ok()
            };
            let threads = names.each_ref().map(|path| scope.spawn(move || open(path)));
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(opened.iter().filter(|opened| **opened).count(), 1, "{opened:?}");
        for (path, opened) in names.iter().zip(opened) {
            if opened {
                assert_eq!(rows(&builder(path).open()?)?, of(0..10, "acknowledged"));
            } else {
                assert!(builder(path).log_folders([&device]).open().is_err(), "it is the other one's");
            }
        }
    }
    Ok(())
}

#[test]
fn i3_lock_removed_while_it_runs_lets_no_second_writer_in() -> Result<()> {
    let root = Folder::new();
    let data = root.path().join("data");
    let db = builder(&data).open()?;
    put(&db, 0..10, "here")?;
    fs::remove_file(data.join("LOCK")).expect("removed");
    assert!(matches!(refused(builder(&data)), DurabilityError::InUse { .. }));
    let said = open_in_a_child(&data);
    assert!(said.contains("in use"), "{said}");
    put(&db, 10..20, "here")?;
    db.close()?;
    drop(db);
    assert!(open_in_a_child(&data).contains("child: opened"));
    assert_eq!(rows(&builder(&data).open()?)?, of(0..20, "here"));
    Ok(())
}

#[test]
fn i1_a_folder_of_something_else_is_refused_and_left_as_it_is() {
    let root = Folder::new();
    fs::write(root.path().join("thesis.txt"), "words").expect("written");
    let before = tree(root.path());
    let why = refused(builder(root.path()));
    assert!(matches!(why, DurabilityError::NotADatabase { .. }), "{why}");
    assert!(why.to_string().contains("thesis.txt"), "{why}");
    assert_eq!(tree(root.path()), before);
    assert!(!root.path().join("LOCK").exists());
}

#[test]
fn i1_a_folder_that_holds_only_folders_is_refused_but_for_one_that_a_file_system_makes() -> Result<()> {
    let root = Folder::new();
    let home = root.path().join("home");
    fs::create_dir_all(home.join("letters")).expect("made");
    let before = tree(root.path());
    let why = refused(builder(&home));
    assert!(matches!(why, DurabilityError::NotADatabase { .. }), "{why}");
    assert!(why.to_string().contains("letters"), "{why}");
    assert_eq!(tree(root.path()), before);
    let device = root.path().join("device");
    fs::create_dir_all(device.join("lost+found")).expect("made");
    builder(&device).open()?.close()
}

#[test]
fn one_is_opened_made_or_both_as_it_is_asked_for() -> Result<()> {
    let root = Folder::new();
    let data = root.path().join("data");
    let no_database = |opened: Result<Database>| match opened {
        Err(Error::Storage(why)) if matches!(why.cause(), DurabilityError::NoDatabase { .. }) => {
            assert_eq!(why.kind(), ErrorKind::WrongFolder);
            why.to_string()
        }
        other => panic!("{other:?}"),
    };
    // Not there, and there and empty, as a device that is not mounted leaves it.
    assert!(no_database(Database::open_existing(&data)).contains("mounted"));
    fs::create_dir(&data).expect("made");
    assert!(no_database(Database::open_existing(&data)).contains("mounted"));
    assert!(tree(&data).is_empty(), "nothing was made");
    drop(Database::create_new(&data)?);
    match Database::create_new(&data) {
        Err(Error::Storage(why)) if matches!(why.cause(), DurabilityError::DatabaseExists { .. }) => {}
        other => panic!("{other:?}"),
    }
    drop(Database::open_existing(&data)?);
    drop(Database::open(&data)?);
    // Only the last folder of a path is made.
    assert!(Database::open(root.path().join("missing/data")).is_err());
    Ok(())
}
