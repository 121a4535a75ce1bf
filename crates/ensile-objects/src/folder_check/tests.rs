//! What contradicts itself is named, whatever the types are.

use ensile_base::{Epoch, Tid};
use ensile_durability::{Entry, Recoverable};

use super::{BodyForm, NamedObjects, ObjectBody};

fn body(form: BodyForm, version: u16, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ObjectBody { form, version, key, bytes: b"bytes" }.encode(&mut out);
    out
}

fn tid(epoch: u64, sequence: u64) -> Tid {
    let first = Tid::first_of(Epoch::new(epoch));
    (0..sequence).fold(first, |tid, _| tid.successor().expect("few"))
}

/// Replays operations on objects with these TIDs behind loaded ones; what is out of order.
fn judged(loaded: &[(&[u8], Tid)], logged: &[(&[u8], Tid)]) -> (Option<String>, u64) {
    let objects = NamedObjects::new();
    for (key, tid) in loaded {
        let body = body(BodyForm::Whole, 2, key);
        objects.load(0, &[Entry { tid: *tid, body: &body }]).expect("is understood");
    }
    for (key, tid) in logged {
        let body = body(BodyForm::Operation, 7, key);
        objects.replay(&[Entry { tid: *tid, body: &body }]).expect("is understood");
    }
    objects.advance_watermark(Epoch::MAX);
    let seen = objects.seen.into_inner();
    assert_eq!(seen.object_versions.contains(&2), !loaded.is_empty());
    (seen.disorder, seen.operations)
}

#[test]
fn operations_of_an_object_have_tids_of_their_own() {
    let (one, other): (&[u8], &[u8]) = (b"one", b"other");
    // What the loaded object includes is not applied; objects share TIDs.
    let fine = [(one, tid(4, 1)), (one, tid(4, 0)), (other, tid(4, 1)), (one, tid(5, 0))];
    assert_eq!(judged(&[(one, tid(4, 0))], &fine), (None, 3));
    let (disorder, _) = judged(&[], &[(one, tid(4, 1)), (other, tid(4, 1)), (one, tid(4, 1))]);
    let said = disorder.expect("it is seen");
    assert!(said.contains("object 6f6e65 (its key in hex): two of its operations have TID"), "{said}");
}

#[test]
fn an_object_stands_in_a_checkpoint_once() {
    let (disorder, _) = judged(&[(b"one", tid(4, 0)), (b"other", tid(4, 0)), (b"one", tid(4, 1))], &[]);
    assert!(disorder.is_some_and(|said| said.contains("stands in the checkpoint twice")));
}

#[test]
fn what_stands_in_the_wrong_place_is_refused() {
    let objects = NamedObjects::new();
    let (whole, operation) = (body(BodyForm::Whole, 1, b"k"), body(BodyForm::Operation, 1, b"k"));
    assert!(objects.replay(&[Entry { tid: tid(3, 0), body: &whole }]).is_err());
    assert!(objects.load(0, &[Entry { tid: tid(3, 0), body: &operation }]).is_err());
    assert!(objects.replay(&[Entry { tid: tid(3, 0), body: b"x" }]).is_err());
}
