//! Whose a folder is, by every part of its mark.

use ensile_sim::SimDisk;

use super::*;
use crate::identity::Identity;
use crate::near_duplicates;

/// A disk with these folders, and the manifest of a database that lists the first one.
fn with_folders(names: [&str; 2]) -> (SimDisk, Manifest) {
    let disk = SimDisk::new();
    names.iter().for_each(|name| disk.create_folder(name).expect("is made"));
    let mut manifest = Manifest::new(Identity::draw(), disk.folder_id("").expect("is there"));
    manifest.folders.insert(names[0].to_owned(), disk.folder_id(names[0]).expect("is there"));
    (disk, manifest)
}

/// Puts the mark into this folder.
fn put(disk: &SimDisk, folder: &str, mark: &Mark) {
    disk.put(&format!("{folder}/{FOLDER}"), mark.to_string().into_bytes());
}

/// Marks that differ from this one in one part.
fn others(of: &Mark) -> Vec<Mark> {
    let mains = near_duplicates::words(of.main.inode).into_iter();
    let mains = mains.map(|inode| Mark { main: FolderId { inode, ..of.main }, ..of.clone() });
    let databases = near_duplicates::identities(of.database).into_iter();
    let databases = databases.map(|database| Mark { database, ..of.clone() });
    let names = [format!("{}1", of.name), "log".to_owned(), "checkpoint1".to_owned()];
    let names = names.into_iter().map(|name| Mark { name, ..of.clone() });
    mains.chain(databases).chain(names).collect()
}

#[test]
fn i1_a_listed_folder_whose_mark_is_in_all_but_one_part_the_wanted_one_is_refused() {
    let (disk, manifest) = with_folders(["log1", "log7"]);
    let own = mark(&manifest, "log1");
    put(&disk, "log1", &own);
    check_listed(&disk, &manifest, "log1", false).expect("it is this database's");
    for other in others(&own) {
        put(&disk, "log1", &other);
        let refused = check_listed(&disk, &manifest, "log1", false).expect_err("it is another one's");
        assert!(matches!(refused, DurabilityError::Damaged { .. }), "{other:?}: {refused}");
    }
}

#[test]
fn i1_an_unlisted_folder_is_searched_if_every_part_of_its_mark_is_the_databases() {
    let (disk, manifest) = with_folders(["log1", "log7"]);
    let own = mark(&manifest, "log7");
    put(&disk, "log1", &mark(&manifest, "log1"));
    let searched = || folders_to_search(&disk, &manifest).expect("is listed").into_iter().collect::<Vec<_>>();
    assert_eq!(searched(), ["log1"], "it has no mark");
    put(&disk, "log7", &own);
    assert_eq!(searched(), ["log1", "log7"]);
    for other in others(&own) {
        put(&disk, "log7", &other);
        assert_eq!(searched(), ["log1"], "{other:?}");
        let refused = check_free(&disk, &manifest, "log7").expect_err("it is another one's");
        assert!(matches!(refused, DurabilityError::ForeignFolder { .. }), "{other:?}: {refused}");
    }
}
