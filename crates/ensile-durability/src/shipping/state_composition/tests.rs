//! What of the store counts as a file of the database, and from which file on a state needs a log.

use super::*;
use crate::files::manifest::installed_checkpoint::{FuzzyCheckpoint, PartFiles};
use crate::near_duplicates;
use crate::samples::{self, identity, salt};

/// An open generation with one log.
fn generation() -> Generation {
    Generation { logs: 1, ..samples::generation(4, 5, None) }
}

/// Of its log.
fn name(number: u64) -> SegmentName {
    SegmentName { generation: 4, logger: 0, number }
}

/// The largest epoch in the file of this number: ten more than in the one before.
fn largest(number: u64) -> Epoch {
    Epoch::new(10 + 10 * number)
}

fn shared(salt: Salt) -> SharedFile {
    SharedFile { shipper: identity(), salt, bytes: 4096, crc: 0x0a1b_2c3d, object_bytes: None }
}

fn shipped(number: u64) -> ShippedLog {
    let before = number.checked_sub(1).map_or(Epoch::ZERO, largest);
    let marks = vec![(before, 128), (largest(number), 4096)];
    ShippedLog { shared: shared(generation().salt), largest: largest(number), before, marks }
}

const PART: PartName = PartName { checkpoint: 7, checkpointer: 0, file: 0 };

/// A checkpoint of one file that covers epochs below `low`.
fn checkpoint(low: u64) -> InstalledCheckpoint {
    let files = PartFiles {
        number: 7,
        generation: 4,
        checkpointers: 1,
        files: 1,
        entries: 1,
        bytes: 4096,
        salt: salt("5e6f7a8b"),
        seal: 1,
        database: identity(),
    };
    let (low, high) = (Epoch::new(low), Epoch::new(low + 1));
    InstalledCheckpoint::Fuzzy(FuzzyCheckpoint { low, high, files })
}

/// A store with these files of the log, and the checkpoint's.
fn inventory(numbers: impl IntoIterator<Item = u64>) -> ShippedFiles {
    let logs = numbers.into_iter().map(|number| (name(number).into(), shipped(number))).collect();
    ShippedFiles { parts: BTreeMap::from([(PART, shared(salt("5e6f7a8b")))]), logs }
}

/// Files that get no more blocks, as the database lists them.
fn closed(numbers: impl IntoIterator<Item = u64>) -> Vec<ClosedFile> {
    let file = |number| SegmentFile { to: Some(largest(number)), ..name(number).into() };
    let of = |number| ClosedFile { file: file(number), largest: largest(number), bytes: 4096 };
    numbers.into_iter().map(of).collect()
}

/// What the newest manifest says, with the checkpoint that covers epochs below 20.
fn manifest() -> SharedManifest {
    let base = Base::of_life(Some(checkpoint(20)), &[generation()], &[]);
    let composed = base.compose(&inventory([1, 2]), &[], identity()).expect("a state");
    let ComposedState { state, next, parts, logs } = composed;
    SharedManifest {
        store: identity(),
        number: 3,
        term: 1,
        attempt: 5,
        shipper: identity(),
        reserved: Epoch::new(5000),
        durable: None,
        application: None,
        types: Vec::new(),
        fenced: Vec::new(),
        next,
        parts,
        logs,
        state,
    }
}

/// The numbers of the files that the store lacks.
fn lacks(inventory: &ShippedFiles, covered: u64) -> Vec<u64> {
    let sources = LogSources { inventory, closed: &closed(0..4) };
    let lacking = sources.unshipped_logs(&[generation()], Epoch::new(covered));
    lacking.iter().map(|closed| closed.file.name.number).collect()
}

#[test]
fn h3_a_log_is_needed_from_the_first_file_whose_last_epoch_is_not_covered() {
    for (covered, needed) in
        [(10, vec![0, 1, 2, 3]), (11, vec![1, 2, 3]), (20, vec![1, 2, 3]), (21, vec![2, 3])]
    {
        assert_eq!(lacks(&inventory([]), covered), needed, "epochs below {covered} are covered");
    }
    // What the checkpoint covers is needed where the log ends.
    assert_eq!((lacks(&inventory([]), 40), lacks(&inventory([]), 41)), (vec![3], vec![3]));
    assert_eq!(lacks(&inventory([1, 2]), 20), [3]);
}

#[test]
fn h3_a_state_names_the_file_in_which_the_first_epoch_stands_that_its_checkpoint_does_not_cover() {
    let composed = |numbers: &[u64], low: u64| {
        let base = Base::of_life(Some(checkpoint(low)), &[generation()], &[]);
        base.compose(&inventory(numbers.iter().copied()), &[], identity())
    };
    let named = |numbers: &[u64], low: u64| {
        let logs = composed(numbers, low)?.logs;
        Some(logs.iter().map(|log| log.file.name.number).collect::<Vec<_>>())
    };
    assert_eq!(named(&[0, 1, 2, 3], 20), Some(vec![1, 2, 3]));
    assert_eq!(named(&[1, 2, 3], 20), Some(vec![1, 2, 3]));
    assert_eq!(named(&[2, 3], 20), None, "epoch 20 stands in the file before");
    assert_eq!(named(&[2, 3], 21), Some(vec![2, 3]));
    assert_eq!(named(&[1, 3], 20), None, "e_h is in a file behind the gap");
    let state = composed(&[1, 2, 3], 20).expect("a state").state;
    assert_eq!(state.epoch(), largest(3), "S is the last mark");
}

#[test]
fn h1_a_file_that_is_in_all_but_one_part_the_named_one_is_not_there() {
    let manifest = manifest();
    assert!(inventory([1, 2]).has_all_of(&manifest));
    assert!(!inventory([1]).has_all_of(&manifest));
    for (part, twin) in near_duplicates::shared_files(&shared(salt("5e6f7a8b"))) {
        let mut other = inventory([1, 2]);
        other.parts.insert(PART, twin);
        assert!(!other.has_all_of(&manifest), "{part} of the checkpoint's file");
    }
    for (part, twin) in near_duplicates::shared_files(&shared(generation().salt)) {
        let mut other = inventory([1, 2]);
        other.logs.insert(name(2).into(), ShippedLog { shared: twin, ..shipped(2) });
        assert!(!other.has_all_of(&manifest), "{part} of a log file");
    }
}

#[test]
fn h1_a_log_file_with_another_salt_is_of_another_generation() {
    for twin in near_duplicates::salts(generation().salt) {
        assert!(!inventory([1, 2]).has_log(name(2).into(), twin), "{twin}");
        let mut other = inventory([]);
        for number in 0..4 {
            other.logs.insert(name(number).into(), ShippedLog { shared: shared(twin), ..shipped(number) });
        }
        assert_eq!(lacks(&other, 20), [1, 2, 3], "those of {twin} are none of this log");
        let base = Base::of_life(Some(checkpoint(20)), &[generation()], &[]);
        assert_eq!(base.compose(&other, &[], identity()), None, "{twin}");
    }
    // Nor does one of those lie behind the end of a log that is closed.
    let closed_files = closed([1, 2]);
    let ended = Generation { durable: Some(largest(2)), ..generation() };
    let base = Base::of_life(Some(checkpoint(20)), &[ended], &closed_files);
    let mut other = inventory([1, 2]);
    let state = base.compose(&other, &closed_files, identity()).expect("all of its files are there");
    let stale = near_duplicates::salts(generation().salt)[0];
    other.logs.insert(name(5).into(), ShippedLog { shared: shared(stale), ..shipped(5) });
    assert_eq!(base.compose(&other, &closed_files, identity()), Some(state));
    let closed = SegmentFile { to: Some(largest(2)), ..name(2).into() };
    assert!(inventory([1, 2]).has_log(closed, generation().salt), "by either of its names");
    for number in [0, 3, 12, 22] {
        assert!(!inventory([1, 2]).has_log(name(number).into(), generation().salt));
    }
}

#[test]
fn k1_a_checkpoint_whose_file_has_another_salt_is_not_there() {
    let base = Base::of_life(Some(checkpoint(20)), &[generation()], &[]);
    assert!(base.parts(&inventory([1])).is_some());
    for twin in near_duplicates::salts(salt("5e6f7a8b")) {
        let mut other = inventory([1, 2]);
        other.parts.insert(PART, shared(twin));
        assert_eq!((base.parts(&other), base.compose(&other, &[], identity())), (None, None), "{twin}");
    }
}

#[test]
fn h3_a_generation_goes_on_that_has_the_number_and_the_salt_of_the_one_to_come() {
    let manifest = manifest();
    assert_eq!(manifest.next, (4, generation().salt));
    let live = |listed: Generation| Base::of_shared(&manifest, &[listed], &[]).live;
    assert_eq!(live(generation()), [generation()]);
    for twin in near_duplicates::salts(generation().salt) {
        assert_eq!(live(Generation { salt: twin, ..generation() }), [], "{twin}");
    }
    for number in near_duplicates::words(4) {
        assert_eq!(live(Generation { number, ..generation() }), [], "{number}");
    }
}

#[test]
fn h1_an_object_that_is_listed_with_another_length_is_not_there() {
    let objects = |inventory: &ShippedFiles| inventory.objects().into_iter().map(|name| (name, 4096));
    let all: BTreeMap<String, u64> = objects(&inventory([1, 2])).collect();
    assert_eq!(all.len(), 3);
    let mut whole = inventory([1, 2]);
    assert_eq!((whole.keep_listed(&all), whole.logs.len(), whole.parts.len()), (None, 2, 1));
    for object in all.keys() {
        for bytes in [0, 4095, 4097, 4096 | 1 << 32] {
            let mut listed = all.clone();
            listed.insert(object.clone(), bytes);
            let mut kept = inventory([1, 2]);
            assert_eq!(kept.keep_listed(&listed).as_ref(), Some(object), "of {bytes} bytes");
            assert_eq!(kept.logs.len() + kept.parts.len(), 2, "the others are there");
        }
        let mut listed = all.clone();
        listed.remove(object);
        listed.insert(format!("{object}0"), 4096);
        assert_eq!(inventory([1, 2]).keep_listed(&listed).as_ref(), Some(object));
    }
}
