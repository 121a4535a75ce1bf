//! A test for each decision over the next life.

use ensile_disk::FolderId;

use super::*;
use crate::files::manifest::installed_checkpoint::{FuzzyCheckpoint, InstalledCheckpoint, PartFiles};
use crate::identity::Identity;

const INTERVAL: Duration = Duration::from_millis(40);

fn salt() -> Salt {
    crate::samples::salt("1a2b3c4d")
}

fn manifest(reserved: u64) -> Manifest {
    let main = FolderId { inode: 7, born_nanos: None };
    let creating = Manifest::new(Identity::draw(), main);
    Manifest { state: Making::Created, reserved: Epoch::new(reserved), ..creating }
}

/// Of ten epochs, the last of which counts.
fn generation(number: u64) -> Generation {
    let durable = Some(Epoch::new(10 * number + 9));
    let (first, entries, format) = (Epoch::new(10 * number), EntryKind::Values, FORMAT);
    let (salt, database, spans) = (salt(), Identity::draw(), Vec::new());
    Generation { number, first, format, entries, logs: 1, salt, database, durable, spans }
}

/// The generations `numbers`, each with entries and, in an open, with a hundred bytes of log.
fn recovered(numbers: &[u64], log_bytes: Option<u64>) -> Decided {
    let number = numbers.last().map_or(1, |last| last + 1);
    let decided =
        |number: &u64| DecidedGeneration { generation: generation(*number), has_entries: true, log_bytes };
    Decided {
        generations: numbers.iter().map(decided).collect(),
        number,
        seen: numbers.last().map_or(Epoch::ZERO, |last| Epoch::new(10 * last + 10)),
        ended: None,
    }
}

fn plan(decided: Decided, before: &Manifest) -> Plan {
    Plan::new(decided, before, INTERVAL).expect("epochs are left")
}

#[test]
fn l4_l6_the_next_life_begins_above_all_that_was_reserved_and_not_given_back_or_seen() {
    let crashed = || recovered(&[1], None);
    let ended = Some(Epoch::new(131));
    for (why, decided, reserved, first) in [
        ("a new database", recovered(&[], None), 1, 1),
        ("a crash", crashed(), 5000, 5000),
        ("a clean close gives back what was not used", Decided { ended, ..crashed() }, 5000, 132),
        ("a torn block", Decided { seen: Epoch::new(300), ended, ..crashed() }, 5000, 301),
    ] {
        let (number, plan) = (decided.number, plan(decided, &manifest(reserved)));
        assert_eq!((plan.first, plan.number), (Epoch::new(first), number), "{why}");
        assert!(plan.reserved > plan.first, "{why}");
    }
    let last = Decided { seen: Epoch::new(Epoch::MAX.number() - 2), ..crashed() };
    assert_eq!(Plan::new(last, &manifest(5000), INTERVAL), None, "the epochs are used up");
}

#[test]
fn generations_without_entries_leave_the_list() {
    let mut some = recovered(&[1, 2, 3], None);
    some.generations.iter_mut().for_each(|decided| decided.has_entries = decided.generation.number == 2);
    let before = manifest(5000);
    let plan = plan(some, &before);
    assert_eq!([1, 2, 3].map(|number| plan.drops(number)), [true, false, true]);
    let next = plan.manifest(&before, salt(), EntryKind::Values, 2);
    let listed: Vec<_> = next.generations.iter().map(|listed| (listed.number, listed.logs)).collect();
    assert_eq!(listed, [(2, 1), (4, 2)]);
    assert_eq!(next.reserved, plan.reserved);
}

#[test]
fn k1_few_generations_those_of_a_repair_and_the_one_of_the_checkpoint_are_not_merged() {
    let numbers: Vec<u64> = (1..=UNMERGED_GENERATIONS_MAX as u64 + 1).collect();
    let mut with_checkpoint = manifest(5000);
    let files = PartFiles { database: with_checkpoint.identity, ..crate::samples::part_files(1, 1) };
    let (low, high) = (Epoch::new(12), Epoch::new(14));
    with_checkpoint.checkpoint = Some(InstalledCheckpoint::Fuzzy(FuzzyCheckpoint { low, high, files }));
    for (why, decided, before) in [
        ("few", recovered(&[1, 2], Some(100)), manifest(5000)),
        ("one too few are left", recovered(&numbers, Some(100)), with_checkpoint),
        ("a repair knows no bytes", recovered(&numbers, None), manifest(5000)),
    ] {
        assert!(plan(decided, &before).merge_sources().is_empty(), "{why}");
    }
}

#[test]
fn many_small_generations_are_listed_as_one_once_they_are_merged() {
    let numbers: Vec<u64> = (1..=UNMERGED_GENERATIONS_MAX as u64 + 1).collect();
    let before = manifest(5000);
    let mut plan = plan(recovered(&numbers, Some(100)), &before);
    let sources = plan.merge_sources().to_vec();
    assert_eq!(sources.len(), numbers.len());
    let merged =
        Generation { number: plan.number, durable: sources[sources.len() - 1].durable, ..sources[0].clone() };
    plan.replace_merged(merged.clone());
    assert!(numbers.iter().all(|number| plan.drops(*number)));
    let next = plan.manifest(&before, salt(), EntryKind::Values, 1);
    assert_eq!(next.generations[0], merged);
    assert_eq!((next.generations.len(), next.generations[1].number), (2, merged.number + 1));
}

#[test]
fn n23_what_leaves_the_list_is_remembered_with_its_end_unless_a_repair_gives_it_up() {
    // The manifest lists four; a repair cuts the second one to nothing, and gives up what is behind it.
    let generations: Vec<_> = (1..=4).map(generation).collect();
    let before = Manifest { generations, ..manifest(5000) };
    let mut decided = recovered(&[1, 2], None);
    decided.generations[1].has_entries = false;
    decided.generations[1].generation.durable = Some(Epoch::new(22));
    decided.number = 5;
    let next = plan(decided, &before).manifest(&before, salt(), EntryKind::Values, 1);
    assert_eq!(next.lineage.to_string(), "lineage 2:1a2b3c4d:22");
    assert_eq!(next.lives().to_string(), "lineage 1:1a2b3c4d:19,2:1a2b3c4d:22,5:1a2b3c4d");
    // The one that was open, in which nothing was written.
    let generations = vec![generation(1), Generation { durable: None, ..generation(2) }];
    let before = Manifest { generations, ..manifest(5000) };
    let mut decided = recovered(&[1, 2], Some(100));
    decided.generations[1].has_entries = false;
    let next = plan(decided, &before).manifest(&before, salt(), EntryKind::Values, 1);
    assert_eq!(next.lineage.to_string(), "lineage 2:1a2b3c4d:29");
}

#[test]
fn few_generations_are_left_alone_and_small_ones_become_one() {
    let mut lives = vec![100; UNMERGED_GENERATIONS_MAX];
    assert_eq!(choose(&lives), None);
    lives.push(100);
    assert_eq!(choose(&lives), Some(0));
    lives.insert(0, 10 * SMALL_BYTES);
    assert_eq!(choose(&lives), Some(1), "the large one is not written again for so little");
    lives.insert(1, 2 * SMALL_BYTES);
    assert_eq!(choose(&lives), Some(1), "small enough");
    lives[0] = MERGED_LOG_BYTES_MAX;
    assert_eq!(choose(&lives), Some(1), "does not fit one file with them");
    assert_eq!(choose(&[]), None);
}

#[test]
fn lives_of_any_size_leave_few_generations_and_are_rewritten_seldom() {
    let mut random = ensile_base::random::Random::from_seed(12);
    let (mut bytes, mut written, mut rewritten) = (Vec::new(), 0, 0);
    for _ in 0..20_000 {
        // Most lives have some hundred bytes, and a life has up to half a megabyte.
        let life = 100 + ((random.next_u64() % (1 << 19)) >> (random.next_u64() % 19));
        written += life;
        bytes.push(life);
        if let Some(from) = choose(&bytes) {
            let merged = bytes.drain(from..).sum();
            rewritten += merged;
            bytes.push(merged);
        }
        let near = bytes.iter().rev().scan(0, |sum, bytes| {
            *sum += bytes;
            (*sum <= MERGED_LOG_BYTES_MAX).then_some(())
        });
        assert!(near.count() <= UNMERGED_GENERATIONS_MAX, "{bytes:?}");
    }
    assert!(rewritten < 12 * written, "{rewritten} bytes written again, of {written}");
}
