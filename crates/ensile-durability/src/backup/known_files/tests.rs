//! What a backup has of a database: by every part of what a state says, and not by a name or a number.

use ensile_disk::FolderId;

use super::*;
use crate::files::manifest::generation::LogSpan;
use crate::files::manifest::installed_checkpoint::FuzzyCheckpoint;
use crate::near_duplicates;
use crate::samples::{self, identity};

fn files() -> PartFiles {
    samples::part_files(7, 4)
}

fn checkpoint(files: PartFiles) -> Option<InstalledCheckpoint> {
    Some(InstalledCheckpoint::Fuzzy(FuzzyCheckpoint { low: Epoch::new(62), high: Epoch::new(64), files }))
}

/// Closed, with files 2 to 4 of its log.
fn generation() -> Generation {
    let spans = vec![LogSpan { first: 2, last: 4, bytes: 2048 }];
    Generation { logs: 1, spans, ..samples::generation(4, 61, Some(66)) }
}

fn known() -> KnownFiles {
    let behind = Generation { logs: 0, ..samples::generation(5, 67, None) };
    let state = FilesState { checkpoint: checkpoint(files()), generations: vec![generation(), behind] };
    KnownFiles { states: vec![state.clone()], newest: Some(KeptState::Files(state)) }
}

/// A database with this checkpoint and these generations.
fn source(files: PartFiles, generations: Vec<Generation>) -> Manifest {
    let main = FolderId { inode: 1, born_nanos: None };
    Manifest { checkpoint: checkpoint(files), generations, ..Manifest::new(identity(), main) }
}

#[test]
fn n21_a_checkpoint_that_is_in_all_but_one_part_the_known_one_is_copied() {
    let part = PartName { checkpoint: 7, checkpointer: 1, file: 2 };
    assert!(known().has_part(part, &source(files(), vec![generation()])));
    for (name, twin) in near_duplicates::part_files(&files()) {
        assert!(!known().has_part(part, &source(twin, vec![generation()])), "{name}");
    }
    let other = PartName { checkpoint: 8, ..part };
    assert!(!known().has_part(other, &source(files(), vec![generation()])));
}

#[test]
fn n12_a_checkpoint_of_the_same_number_that_is_another_one_refuses_the_run() {
    assert_eq!(known().why_not(&source(files(), vec![generation()])), None);
    for (name, twin) in
        near_duplicates::part_files(&files()).into_iter().filter(|(name, _)| *name != "number")
    {
        let why = known().why_not(&source(twin, vec![generation()])).expect(name);
        assert!(why.contains("another checkpoint 7"), "{name}: {why}");
    }
    let older = PartFiles { number: 6, ..files() };
    let why = known().why_not(&source(older, vec![generation()])).expect("it is older");
    assert!(why.contains("checkpoint 7, and the database's is 6"), "{why}");
    assert_eq!(known().why_not(&source(PartFiles { number: 8, ..files() }, vec![generation()])), None);
}

#[test]
fn n21_a_generation_that_is_in_all_but_one_part_the_known_one_refuses_the_run() {
    let gone_on = |own: Generation| has_gone_on(&source(files(), vec![own]), &generation());
    assert!(gone_on(generation()));
    for (name, twin) in
        near_duplicates::generations(&generation()).into_iter().filter(|(name, _)| *name != "number")
    {
        assert!(!gone_on(twin.clone()), "{name}");
        let why = known().why_not(&source(files(), vec![twin])).expect(name);
        assert!(why.contains("another generation 4"), "{name}: {why}");
    }
    for (durable, has_all) in [(None, true), (Some(65), false), (Some(66), true), (Some(67), true)] {
        let durable = durable.map(Epoch::new);
        assert_eq!(
            gone_on(Generation { durable, spans: Vec::new(), ..generation() }),
            has_all,
            "{durable:?}"
        );
    }
    // A checkpoint covers it, or it is from before the database's first one.
    assert!(
        gone_on(Generation { number: 5, ..generation() })
            && !gone_on(Generation { number: 3, ..generation() })
    );
}

#[test]
fn n21_the_bytes_that_are_there_are_those_of_the_files_that_a_state_has() {
    let own = SegmentName { generation: 4, logger: 0, number: 3 };
    let bytes = |name: SegmentName| known().log_bytes(name);
    let at = |number: u64| bytes(SegmentName { number, ..own });
    assert_eq!([1, 2, 3, 4, 5].map(at), [0, u64::MAX, u64::MAX, 2048, 0]);
    for other in [SegmentName { generation: 3, ..own }, SegmentName { logger: 1, ..own }] {
        assert_eq!(bytes(other), 0, "{other:?}");
    }
}
