//! The token clock, which rows skewed updates meet, and the load on a small database.
//!
//! Neighbours: [`super`].

use ensile::Database;
use ensile_base::clock::Clock;
use ensile_base::random::Random;

use super::{Benchmark, Choice, HOT_EVERY, HeldUpdates, TokenClock, Touched};

#[test]
fn tokens_fall_due_at_their_times_whoever_takes_them() {
    let tokens = TokenClock { begun: 1_000_000_000, per_s: 1_000.0 };
    assert_eq!(tokens.due(0), 0, "before it began");
    assert_eq!((tokens.due(1_000_999_999), tokens.due(1_001_000_000)), (0, 1));
    assert_eq!(tokens.due(11_000_000_000), 10_000, "a stall of ten seconds is made up for");
    for count in [1, 7, 1_000, 123_457] {
        assert!(tokens.due(tokens.when(count)) >= count, "{count}");
        assert!(tokens.due(tokens.when(count) - 2_000) < count, "{count}");
    }
}

#[test]
fn skewed_updates_meet_the_hot_rows_and_all_others_too() {
    const ROWS: u64 = 1_000;
    let mut random = Random::from_seed(3);
    let mut counts = vec![0_u64; ROWS as usize];
    for _ in 0..200_000 {
        counts[Choice::Skewed.draw(&mut random, ROWS) as usize] += 1;
    }
    let hot: u64 = counts.iter().step_by(HOT_EVERY as usize).sum();
    assert!((197_000..199_000).contains(&hot), "99 % of 200,000: {hot}");
    let unmet = counts.iter().filter(|count| **count == 0).count();
    assert!(unmet < ROWS as usize / 4, "about two updates for each cold row: {unmet} met none");
}

#[test]
fn a_row_is_counted_once_however_often_it_is_updated() {
    let touched = Touched::of(130);
    for row in [0, 63, 64, 129, 0, 64, 129] {
        touched.mark(row);
    }
    assert_eq!(touched.count.into_inner(), 4);
}

#[test]
fn updates_change_rows_and_end_when_they_are_told() {
    let db = Database::in_memory().expect("it opens");
    let benchmark = Benchmark::load(db, (1_000, 300), 2, true).expect("it is filled");
    let clock = Clock::machine();
    let updates = HeldUpdates::new(&benchmark, Choice::Uniform, 1e6);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| updates.work(1, 5, &clock));
        while updates.done() < 1_000 {
            std::thread::yield_now();
        }
        updates.end();
        working.join().expect("it does not panic").expect("nothing fails");
    });
    let (done, touched) = (updates.done(), updates.touched());
    assert!(touched <= done.min(1_000) && touched >= 400, "{touched} rows of {done} updates");
    assert!(benchmark.db.stats().commits >= done / 5);
    let (conflicts, _) = benchmark.read([0, 1, 2, 3, 999]).expect("they are read");
    assert_eq!(conflicts, 0, "nobody else is there");
}
