//! What a shared store promises, of one in memory.
//!
//! Neighbours: the tests of [`super`]; lives over a shared folder are in `tests/durability/shipping`.

use ::object_store::memory::InMemory;

use super::*;
use crate::shipping::shared_store::{Creation, SharedStore, SharedUpload};

fn store(prefix: &str) -> SharedObjects {
    SharedObjects::new(Arc::new(InMemory::new()), prefix).expect("a runtime")
}

fn read(store: &SharedObjects, name: &str) -> Option<Vec<u8>> {
    let (mut all, mut piece) = (Vec::new(), vec![0; 1 << 20]);
    loop {
        let read = store.read_at(name, &mut piece, all.len() as u64).expect("reads")?;
        if read == 0 {
            return Some(all);
        }
        all.extend_from_slice(&piece[..read]);
    }
}

#[test]
fn h2_of_two_that_create_an_object_one_does() {
    for prefix in ["", "shop/a"] {
        let store = store(prefix);
        assert_eq!(store.create("manifests/manifest-1", b"one").expect("creates"), Creation::Created);
        assert_eq!(store.create("manifests/manifest-1", b"two").expect("asks"), Creation::Taken);
        assert_eq!(read(&store, "manifests/manifest-1").as_deref(), Some(&b"one"[..]));
        assert_eq!(read(&store, "manifests/manifest-2"), None);
        let listed = store.list("manifests").expect("lists");
        let named: Vec<_> = listed.iter().map(|object| (object.name.as_str(), object.bytes)).collect();
        assert_eq!(named, [("manifests/manifest-1", 3)]);
        store.remove("manifests/manifest-1").expect("removes");
        store.remove("manifests/manifest-1").expect("it is gone");
        assert!(store.list("manifests").expect("lists").is_empty());
    }
}

#[test]
fn h1_an_object_is_there_as_a_whole_or_not_at_all() {
    let store = store("shop");
    for (name, bytes) in [("a/empty", 0), ("a/small", 1000), ("a/large", 2 * PART_BYTES + 77)] {
        let wanted: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let mut upload = store.upload(name).expect("begins");
        for piece in wanted.chunks(1 << 20) {
            upload.write(piece).expect("writes");
        }
        assert_eq!(read(&store, name), None, "it is not whole");
        upload.finish().expect("ends");
        assert_eq!(read(&store, name), Some(wanted));
    }
    let mut dropped = store.upload("a/dropped").expect("begins");
    dropped.write(&vec![1; PART_BYTES + 1]).expect("writes");
    drop(dropped);
    assert_eq!(read(&store, "a/dropped"), None);
    assert!(store.list_unfinished("a").expect("none").is_empty());
    store.settle("a").expect("nothing to do");
    assert_eq!(store.list("a").expect("lists").len(), 3);
}

/// Parts of an upload that nobody ends.
fn begun(store: &SharedObjects, name: &str) -> Box<dyn SharedUpload> {
    let mut upload = store.upload(name).expect("begins");
    upload.write(&vec![1; PART_BYTES + 1]).expect("writes");
    upload
}

#[test]
fn on_a_thread_that_drives_a_runtime_calls_are_errors_and_drops_wait_for_nothing() {
    let (kept, dropped) = (store("shop"), store("shop"));
    let uploads = (begun(&kept, "a/one"), begun(&dropped, "a/one"));
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let error = kept.list("a").expect_err("it cannot wait").to_string();
        assert!(error.contains("spawn_blocking"), "{error}");
        let error = kept.create("a/two", b"two").expect_err("it cannot wait").to_string();
        assert!(error.contains("spawn_blocking"), "{error}");
        drop(uploads);
        // It may be made here too.
        drop((dropped, store("shop")));
    });
    // And used again elsewhere.
    assert!(kept.list("a").expect("lists").is_empty());
}

#[test]
fn on_a_thread_for_calls_that_wait_it_is_used_as_on_any_other() {
    let shop = store("shop");
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let listed = runtime.block_on(runtime.spawn_blocking(move || {
        let created = shop.create("a/one", b"one").expect("creates");
        begun(&shop, "a/two").finish().expect("ends");
        (created, shop.list("a").expect("lists").len())
    }));
    assert_eq!(listed.expect("no panic"), (Creation::Created, 2));
}
