//! The whole engine under shuttle's schedules, on a simulated disk and clock: workers, heartbeat and loggers are
//! threads that a seed interleaves; power fails in the midst; recovery, and on. What all transactions of all lives did
//! and saw is judged as one history. Some lives have checkpoints beside them, stepped by threads of their own.
//!
//! `ENSILE_SEED=7 ENSILE_SCHEDULES=1 RUSTFLAGS='--cfg shuttle' cargo test -p ensile-engine --test shuttle_simulation`
//! runs one schedule again; `ci/soak.sh` runs a hundred thousand.
#![cfg(shuttle)]

mod client;
mod hunt;
mod life;
#[path = "../picture_pages/mod.rs"]
mod picture_pages;
mod pictures;
mod plan;
mod recovered;
mod seen;

use ensile_engine::checkpoint::Strategy;
use ensile_sim::schedules;

use plan::Plan;

#[test]
fn commits_in_memory_are_serializable_in_any_schedule() {
    schedules::check(1_000, life::STEPS_MAX, || life::run(Plan::in_memory));
}

#[test]
fn lives_that_end_in_crashes_are_one_serializable_history() {
    schedules::check(300, life::STEPS_MAX, || life::run(Plan::on_disk));
}

#[test]
fn lives_with_checkpoints_are_one_serializable_history() {
    schedules::check(300, life::STEPS_MAX, || life::run(Plan::with_checkpoints));
    seen::assert(Strategy::Fuzzy, 100);
}

#[test]
fn lives_with_pictures_are_one_serializable_history() {
    schedules::check(300, life::STEPS_MAX, || life::run(Plan::with_pictures));
    // Some give way to commits, and their walks and ends have more steps.
    seen::assert(Strategy::Pictures, 60);
    seen::assert_without_snapshots(Strategy::Pictures, 20);
    seen::assert_pages(2);
}

#[test]
fn lives_without_a_log_are_one_serializable_history_up_to_their_pictures() {
    schedules::check(300, life::STEPS_MAX, || life::run(Plan::without_log));
    seen::assert(Strategy::Pictures, 20);
    seen::assert_pages(20);
}

#[test]
fn lives_with_checkpoints_that_go_round_by_ranges_are_one_serializable_history() {
    schedules::check(100, life::STEPS_MAX, || life::run(Plan::with_ranges));
    seen::assert_turns(100, 50);
}
