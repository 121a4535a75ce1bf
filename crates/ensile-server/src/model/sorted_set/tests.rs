//! A sorted set beside a plain model.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ensile::{Database, Error, Prefix, Readable, Result, Transaction};
use ensile_base::random::Random;

use super::{MemberPlace, SortedSet, WalkDirection, order_of, score_of};
use crate::effects::Effects;
use crate::model::elements::{Access, OpenError};
use crate::model::{Keyspace, Model};

const KEY: &[u8] = b"z";

/// A sorted set in a database, and the same members in a map.
struct Pair {
    db: Database,
    model: Model,
    scores: BTreeMap<Vec<u8>, f64>,
}

fn engine(error: OpenError) -> Error {
    match error {
        OpenError::Engine(error) => error,
        OpenError::WrongKind => Error::Misuse("the key has no other type".to_owned()),
    }
}

impl Pair {
    fn new() -> Self {
        let db = Database::in_memory().expect("a new database");
        let model = Model::open(&db, 1).expect("new tables");
        Self { db, model, scores: BTreeMap::new() }
    }

    fn with<T>(&self, access: Access, f: impl Fn(SortedSet<'_, '_, '_>) -> Result<T>) -> T {
        let run = |tx: &mut Transaction<'_>| {
            let mut effects = Effects::default();
            let mut keyspace = Keyspace::new(tx, &self.model, &mut effects, 0, 0, 0);
            f(SortedSet::open(&mut keyspace, KEY, access).map_err(engine)?)
        };
        self.db.run(run).expect("the transaction commits")
    }

    fn set(&mut self, member: &[u8], score: f64) {
        self.scores.insert(member.to_vec(), score);
        self.with(Access::Write, |mut set| {
            let old = set.score(member)?;
            set.set(member, old, score)?;
            set.finish()
        });
    }

    fn remove(&mut self, member: &[u8]) {
        let was_there = self.scores.remove(member).is_some();
        let removed = self.with(Access::Write, |mut set| {
            let removed = set.remove(member)?;
            set.finish().map(|()| removed)
        });
        assert_eq!(removed, was_there);
    }

    /// The members of the map in their order.
    fn sorted(&self) -> Vec<MemberPlace> {
        let mut all: Vec<MemberPlace> =
            self.scores.iter().map(|(member, score)| MemberPlace::of_member(*score, member)).collect();
        all.sort();
        all
    }

    fn walked(&self, from: &MemberPlace, to: &MemberPlace, direction: WalkDirection) -> Vec<MemberPlace> {
        self.with(Access::Read, |mut set| {
            let mut found = Vec::new();
            set.walk(from, to, direction, |score, member| {
                found.push(MemberPlace::of_member(score, member));
                ControlFlow::Continue(())
            })?;
            Ok(found)
        })
    }

    /// Compares all members, and the ranks of every `step`-th member and of places between.
    fn check(&self, step: usize) {
        let sorted = self.sorted();
        assert_eq!(
            self.walked(&MemberPlace::FIRST, &MemberPlace::END, WalkDirection::Up),
            sorted,
            "Y4: the shown members"
        );
        let shown_down = self.walked(&MemberPlace::FIRST, &MemberPlace::END, WalkDirection::Down);
        assert!(shown_down.iter().eq(sorted.iter().rev()), "a walk downwards shows the same members");
        let ranks = |set: &mut SortedSet<'_, '_, '_>| {
            assert_eq!(set.count()?, sorted.len() as u64, "Y5: the number of members");
            for (rank, place) in sorted.iter().enumerate().step_by(step) {
                assert_eq!(set.score(&place.member)?, Some(score_of(place.order)));
                assert_eq!(set.count_before(place)?, rank as u64, "Y5: a rank");
                assert_eq!(set.count_before(&place.place_behind())?, rank as u64 + 1);
                assert_eq!(&set.place_at(rank as u64)?, place);
            }
            assert_eq!(set.count_before(&MemberPlace::END)?, sorted.len() as u64);
            assert_eq!(set.place_at(sorted.len() as u64)?, MemberPlace::END);
            Ok(())
        };
        self.with(Access::Read, |mut set| ranks(&mut set));
        self.check_rows();
    }

    /// Checks the invariants of the rows. Returns the number of levels.
    fn check_rows(&self) -> usize {
        let rows = |tx: &mut Transaction<'_>| {
            let mut effects = Effects::default();
            let mut keyspace = Keyspace::new(tx, &self.model, &mut effects, 0, 0, 0);
            let Some(object) =
                SortedSet::open(&mut keyspace, KEY, Access::Read).map_err(engine)?.elements.object()
            else {
                return Ok(0);
            };
            let model = &self.model;
            let scores: Vec<MemberPlace> = tx
                .range(&model.scores, Prefix((object,)))
                .map(|row| row.map(|((_, order, member), ())| MemberPlace { order, member }))
                .collect::<Result<_>>()?;
            let mut elements: Vec<MemberPlace> = tx
                .range(&model.elements, Prefix((object,)))
                .map(|row| {
                    row.and_then(|((.., member), value)| {
                        Ok(MemberPlace::of_member(super::score_in(&value)?, &member))
                    })
                })
                .collect::<Result<_>>()?;
            elements.sort();
            assert_eq!(scores, elements, "Y4: scores and elements have the same members");
            let mut levels: Vec<Vec<(MemberPlace, u64)>> = Vec::new();
            for row in tx.range(&model.ranks, Prefix((object,))) {
                let ((_, level, order, member), count) = row?;
                levels.resize(levels.len().max(usize::from(level) + 1), Vec::new());
                levels[usize::from(level)].push((MemberPlace { order, member }, count));
            }
            for (level, blocks) in levels.iter().enumerate() {
                assert_eq!(blocks[0].0, MemberPlace::FIRST, "level {level}");
                for (at, (first, count)) in blocks.iter().enumerate() {
                    let end = blocks.get(at + 1).map_or(MemberPlace::END, |(next, _)| next.clone());
                    let inside = scores.partition_point(|place| *place < end)
                        - scores.partition_point(|place| place < first);
                    assert_eq!(inside as u64, *count, "Y5: level {level}, block {at}");
                    if let Some(below) = level.checked_sub(1) {
                        assert!(levels[below].iter().any(|(begin, _)| begin == first), "level {level}");
                    }
                }
            }
            let top = levels.last().map_or(0, Vec::len);
            assert!(levels.len() == 1 || top > 1, "the highest level has a use");
            Ok(levels.len())
        };
        self.db.run(rows).expect("a read")
    }
}

#[test]
fn the_order_of_scores_is_the_order_of_numbers() {
    let scores = [f64::NEG_INFINITY, -1e300, -1.0, -5e-324, 0.0, 5e-324, 0.1, 1.0, 1e300, f64::INFINITY];
    assert!(scores.map(order_of).is_sorted_by(|left, right| left < right));
    assert_eq!(scores.map(|score| score_of(order_of(score))), scores);
    assert_eq!(order_of(-0.0), order_of(0.0));
    assert!(MemberPlace::behind_score(f64::INFINITY) < MemberPlace::END);
    assert!(MemberPlace::FIRST < MemberPlace::before_score(f64::NEG_INFINITY));
}

#[test]
fn members_and_ranks_are_those_of_a_plain_model() {
    for seed in 0..4 {
        let (mut pair, mut random) = (Pair::new(), Random::from_seed(seed));
        // The set grows beyond a row and beyond blocks, shrinks, and grows again.
        for (round, members_max) in [40, 400, 3_000, 30, 0, 1_000, 8_000, 2_000, 50].into_iter().enumerate() {
            for _ in 0..100_000 {
                let has_enough = match members_max.cmp(&pair.scores.len()) {
                    std::cmp::Ordering::Equal => break,
                    std::cmp::Ordering::Less => true,
                    std::cmp::Ordering::Greater => false,
                };
                // Few different scores in some rounds, so that members decide the order.
                let scores = if seed % 2 == 0 { 3 } else { 100_000 };
                let member = if has_enough && random.percent(80) {
                    let at = random.next_below(pair.scores.len() as u64) as usize;
                    pair.scores.keys().nth(at).expect("a member").clone()
                } else {
                    format!("m{}", random.next_below(20_000)).into_bytes()
                };
                if random.percent(if has_enough { 90 } else { 10 }) {
                    pair.remove(&member);
                } else {
                    pair.set(&member, random.next_below(scores) as f64 - 1.0);
                }
            }
            pair.check(1 + members_max / 500);
            assert_eq!(pair.scores.len(), members_max, "seed {seed}, round {round}");
        }
    }
}
