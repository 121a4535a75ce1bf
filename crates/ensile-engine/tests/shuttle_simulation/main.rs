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
mod pictures;
mod plan;

use std::sync::atomic::Ordering::SeqCst;

use ensile_sim::{environment, schedules};

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
    assert_seen(0, 100);
}

#[test]
fn lives_with_pictures_are_one_serializable_history() {
    schedules::check(300, life::STEPS_MAX, || life::run(Plan::with_pictures));
    // Some give way to commits, and their walks and ends have more steps.
    assert_seen(1, 60);
}

#[test]
fn lives_without_a_log_are_one_serializable_history_up_to_their_pictures() {
    schedules::check(300, life::STEPS_MAX, || life::run(Plan::without_log));
    assert_seen(1, 20);
}

/// More than this number of checkpoints of this kind were installed, and loaded.
fn assert_seen(kind: usize, least: u64) {
    let (installed, loaded) = (life::INSTALLED[kind].load(SeqCst), life::LOADED[kind].load(SeqCst));
    println!("{installed} checkpoints installed, {loaded} lives began with one");
    // One schedule that is run again need not have any.
    assert!(environment::count("ENSILE_SCHEDULES", 300) < 300 || installed.min(loaded) > least);
}
