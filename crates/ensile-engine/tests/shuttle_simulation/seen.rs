//! What the runs of this process have met: a plan that never meets what it is for proves nothing.
//!
//! Neighbours: `life` and `recovered` count; the tests of `main` ask.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use ensile_engine::Database;
use ensile_engine::checkpoint::Strategy;
use ensile_sim::environment;

use crate::picture_pages::PagesSeen;

/// Checkpoints installed, and lives begun with one, by the strategy of the life.
static INSTALLED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static LOADED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// Of the installed ones, those of lives without snapshots.
static WITHOUT_SNAPSHOTS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// Lives whose newest checkpoint was a turn of one range of several.
static TURNS: AtomicU64 = AtomicU64::new(0);
/// Opens of what was left in the middle of a round: the ranges' last turns are of different epochs.
static ROUNDS: AtomicU64 = AtomicU64::new(0);
/// What became of the pages of pictures.
pub(crate) static PAGES: PagesSeen = PagesSeen::new();

/// Counts a life that ends.
pub(crate) fn count(strategy: Strategy, snapshots: bool, db: &Database) {
    let stats = db.stats().checkpoints;
    let installed = stats.as_ref().map_or(0, |stats| stats.installed);
    INSTALLED[strategy as usize].fetch_add(installed, SeqCst);
    if !snapshots {
        WITHOUT_SNAPSHOTS[strategy as usize].fetch_add(installed, SeqCst);
    }
    let loaded = db.recovery_report().is_some_and(|report| report.checkpoint.is_some());
    LOADED[strategy as usize].fetch_add(u64::from(loaded), SeqCst);
    let turn = stats.and_then(|stats| stats.last?.turn);
    TURNS.fetch_add(u64::from(turn.is_some_and(|turn| turn.taken < turn.ranges)), SeqCst);
}

/// Counts an open of what this manifest names.
pub(crate) fn count_opened(manifest: &str) {
    let low =
        |line: &str| line.split_once(" low ").map(|(_, rest)| rest.split(' ').next().map(str::to_owned));
    let lows: BTreeSet<_> = manifest.lines().filter(|line| line.starts_with("range ")).map(low).collect();
    ROUNDS.fetch_add(u64::from(lows.len() > 1), SeqCst);
}

/// One schedule that is run again need not have met anything.
fn is_asked_for_few(usual: u64) -> bool {
    environment::count("ENSILE_SCHEDULES", usual) < usual
}

/// More than this number of checkpoints of lives of this strategy were installed, and loaded.
pub(crate) fn assert(strategy: Strategy, least: u64) {
    let (installed, loaded) =
        (INSTALLED[strategy as usize].load(SeqCst), LOADED[strategy as usize].load(SeqCst));
    println!("{strategy:?}: {installed} checkpoints installed, {loaded} lives began with one");
    assert!(is_asked_for_few(300) || installed.min(loaded) > least);
}

/// More than this number of checkpoints of this strategy were installed in lives without snapshots.
pub(crate) fn assert_without_snapshots(strategy: Strategy, least: u64) {
    let installed = WITHOUT_SNAPSHOTS[strategy as usize].load(SeqCst);
    println!("{strategy:?}: {installed} checkpoints installed without snapshots");
    assert!(is_asked_for_few(300) || installed > least);
}

/// More increments than this kept pages, and in more than this pages were split, and joined. More pictures than this
/// had versions in tails of pages, and more increments came behind one.
pub(crate) fn assert_pages(least: u64) {
    let seen = PAGES.least();
    assert!(is_asked_for_few(300) || seen > least);
}

/// More lives than this have ended behind a turn of one range, and more opens met the middle of a round.
pub(crate) fn assert_turns(usual: u64, least: u64) {
    let (turns, rounds) = (TURNS.load(SeqCst), ROUNDS.load(SeqCst));
    println!("{turns} lives ended behind a turn of one range, {rounds} opens were in the middle of a round");
    assert!(is_asked_for_few(usual) || turns.min(rounds) > least);
}
