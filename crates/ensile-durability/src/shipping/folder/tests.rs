//! A folder as a shared store: what is there of an object before its end, and which names a listing has.

use ensile_sim::SimDisk;

use super::super::shared_store::{Creation, SharedStore};
use super::*;

fn on(disk: &SimDisk) -> SharedFolder {
    SharedFolder::new(Arc::new(disk.clone()))
}

fn put(store: &SharedFolder, name: &str, bytes: &[u8]) {
    let mut upload = store.upload(name).expect("begins");
    upload.write(bytes).expect("is written");
    upload.finish().expect("ends");
}

fn listed(store: &SharedFolder, folder: &str) -> Vec<String> {
    store.list(folder).expect("is listed").into_iter().map(|object| object.name).collect()
}

#[test]
fn an_upload_that_is_given_up_leaves_nothing() {
    let disk = SimDisk::new();
    let store = on(&disk);
    let mut upload = store.upload("one/log0/log-1-0").expect("begins");
    upload.write(b"half of it").expect("is written");
    assert_eq!((listed(&store, "one").len(), store.list_unfinished("one").expect("is listed").len()), (0, 1));
    drop(upload);
    assert_eq!(disk.files(), [""; 0]);
    // One that fails is given up too.
    let mut upload = store.upload("one/log0/log-1-0").expect("begins");
    disk.fail_write(1);
    upload.write(b"all of it").expect_err("the disk fails");
    drop(upload);
    assert_eq!(disk.files(), [""; 0]);
}

#[test]
fn a_creation_leaves_one_name_and_a_listing_has_the_objects_of_its_folder_alone() {
    let disk = SimDisk::new();
    let store = on(&disk);
    assert_eq!(store.create("manifests/manifest-1", b"first"), Ok(Creation::Created));
    assert_eq!(store.create("manifests/manifest-1", b"second"), Ok(Creation::Taken));
    disk.fail_write(1);
    store.create("manifests/manifest-2", b"third").expect_err("the disk fails");
    assert_eq!(disk.files(), ["manifests/manifest-1"]);
    assert_eq!(disk.bytes("manifests/manifest-1"), b"first");
    let disk = SimDisk::new();
    let store = on(&disk);
    for name in ["ab/log0/one", "abc/log0/one", "a/log0/one", "ab/log01/one", "ab/log0/one2"] {
        put(&store, name, name.as_bytes());
    }
    assert_eq!(listed(&store, "ab"), ["ab/log0/one", "ab/log0/one2", "ab/log01/one"]);
    assert_eq!(listed(&store, "ab/log0"), ["ab/log0/one", "ab/log0/one2"]);
    assert_eq!(listed(&store, "b"), [""; 0]);
    store.remove("ab/log0/one").expect("is removed");
    assert_eq!(listed(&store, "ab"), ["ab/log0/one2", "ab/log01/one"]);
}
