//! Pictures: each is the state at the end of one epoch, whatever is committed beside it; power that is cut or a disk
//! that fails at any call; a strategy that changes between two opens.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_sim::Fault;

use super::pages::MadePages;
use crate::prelude::*;

/// What was committed.
pub(crate) type History = Vec<(u64, ensile_base::Tid, Option<Vec<u8>>)>;

/// What is present at the end of `epoch`.
pub(crate) fn at_end_of(history: &History, epoch: Epoch) -> Changes {
    let mut changes = Changes::new();
    for (key, tid, value) in history.iter().filter(|(_, tid, _)| tid.epoch() <= epoch) {
        change(&mut changes, *key, *tid, value.as_deref());
    }
    present(&changes)
}

/// A put or a delete of some key.
pub(crate) fn commit(life: &Life, worker: &mut Worker, random: &mut Random, history: &mut History) {
    let key = random.next_below(KEYS);
    let bytes = random.next_below(300) as usize;
    let value = (!random.percent(30)).then(|| vec![random.next_u64() as u8; bytes]);
    if life.rig.log.health() == Health::Running {
        let tid = life.commit(worker, key, value.as_deref());
        history.push((key, tid, value));
    }
}

/// What the installed checkpoint holds, and nothing of the log.
fn loaded(disk: &SimDisk) -> Changes {
    let store = Store::default();
    let recovery = Recovery::open(Arc::new(disk.clone()), config(1)).expect("reads");
    while recovery.load_step(&store).expect("loads") {}
    store.present()
}

/// A checkpoint with commits before each step; `None` if it failed, or the disk has no power.
pub(crate) fn checkpoint(
    life: &Life,
    worker: &mut Worker,
    random: &mut Random,
    history: &mut History,
    disk: &SimDisk,
) -> Option<CheckpointReport> {
    let handle = life.checkpoints.demand();
    for _ in 0..1000 {
        if disk.is_without_power() {
            return None;
        }
        if let Some(outcome) = handle.outcome() {
            return outcome.ok();
        }
        for checkpointer in 0..life.checkpoints.checkpointers() {
            commit(life, worker, random, history);
            life.step(checkpointer);
        }
        commit(life, worker, random, history);
        life.rig.settle();
    }
    panic!("the checkpoint does not end: {:?}", life.checkpoints.stats());
}

#[test]
fn a_picture_is_the_state_at_the_end_of_one_epoch_whatever_is_committed_beside_it() {
    let (mut displaced, mut tails, mut behind_tails) = (0, 0, 0);
    let mut kept = 0;
    for seed in 0..200 {
        let (mut random, mut history) = (Random::from_seed(seed), History::new());
        let disk = SimDisk::new();
        let is_semi_fuzzy = seed % 2 > 0;
        let mut store = Store::default();
        store.pages = Some(MadePages::new(is_semi_fuzzy));
        let life = Life::open_into(&disk, config(1), pictures(), store).expect("opens");
        let mut worker = life.rig.worker();
        for _ in 0..100 {
            commit(&life, &mut worker, &mut random, &mut history);
        }
        let mut had_tails = false;
        for _ in 0..3 {
            let report =
                checkpoint(&life, &mut worker, &mut random, &mut history, &disk).expect("is installed");
            let epoch = report.picture_epoch().expect("a picture");
            assert_eq!((report.low, report.high), (epoch.next(), epoch));
            assert!(is_semi_fuzzy || report.displaced == 0);
            displaced += report.displaced;
            kept += report.pages_kept;
            behind_tails += u64::from(had_tails && report.pages_kept > 0);
            had_tails = report.displaced_tail_bytes > 0;
            tails += u64::from(had_tails);
            let copy = disk.fork();
            copy.crash(seed);
            assert_eq!(loaded(&copy), at_end_of(&history, epoch), "seed {seed}, at the end of {epoch}");
        }
        life.rig.settle();
        drop((worker, life));
        disk.crash(seed);
        let life = Life::open(&disk, 1, settings()).expect("opens");
        assert_eq!(life.found, at_end_of(&history, life.rig.report.durable_epoch), "seed {seed}");
        assert_eq!(life.rig.report.checkpoint.map(|(low, high)| high.next() == low), Some(true));
    }
    assert!(displaced > 300, "{displaced} versions beside pages");
    // Of a picture behind one with tails a page that is kept may have one, which is void (N10).
    assert!(
        tails > 100 && behind_tails > 50,
        "{tails} pictures with tails, {behind_tails} increments behind one"
    );
    assert!(kept > 300, "{kept} pages that pictures kept");
}

/// A disk with rows and an installed checkpoint of this kind, and what was committed.
fn prepared(settings: CheckpointConfig, random: &mut Random) -> (SimDisk, History) {
    let (disk, mut history) = (SimDisk::new(), History::new());
    let (life, mut worker) = Life::with_worker(&disk, 2, settings);
    for _ in 0..30 {
        commit(&life, &mut worker, random, &mut history);
    }
    checkpoint(&life, &mut worker, random, &mut history, &disk).expect("is installed");
    life.rig.settle();
    drop((worker, life));
    disk.crash(1);
    (disk, history)
}

/// What happens at a call of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hurt {
    /// Power is cut in the midst of it.
    PowerCut,
    /// The process dies as it begins the call. What it has written stays in the cache, synced or not.
    Death,
    /// It fails.
    Failure,
}

impl Hurt {
    pub(crate) fn plan(self, disk: &SimDisk, call: u64) {
        match self {
            Self::PowerCut => disk.cut_power_at(call),
            Self::Death => disk.die_before(call),
            Self::Failure => disk.fail_calls(call..=call, Fault::INPUT_OUTPUT),
        }
    }

    /// Ends the life, and leaves the disk as the next one finds it.
    pub(crate) fn end(self, disk: &SimDisk, seed: u64) {
        disk.heal();
        if self == Self::Death { disk.kill() } else { disk.crash(seed) }
    }
}

/// A checkpoint of a life that found what is in the history, and power that is cut behind it: what the life before had
/// written and not synced has to be synced by now, or not to count. Ends the life.
pub(crate) fn checkpoint_and_lose_power(life: Life, disk: &SimDisk, history: &mut History, seed: u64) {
    let mut worker = life.rig.worker();
    let report = checkpoint(&life, &mut worker, &mut Random::from_seed(seed), history, disk);
    let report = report.expect("is installed");
    let durable = life.rig.log.durable_epoch();
    drop((worker, life));
    disk.crash(seed);
    let life = Life::open(disk, 1, settings()).unwrap_or_else(|error| panic!("{seed}: {error}"));
    let found = life.rig.report.durable_epoch;
    assert!(found >= durable, "{seed}: {found} of {durable}");
    assert_eq!(life.rig.report.checkpoint, Some((report.low, report.high)), "{seed}");
    assert_eq!(life.found, at_end_of(history, found), "{seed}, at the end of {found}");
}

/// One life with a picture, in which the disk is hurt behind so many calls. False if they were not reached.
fn life_hurt_at(call: u64, before: CheckpointConfig, hurt: Hurt) -> bool {
    let mut random = Random::from_seed(5);
    let (disk, mut history) = prepared(before, &mut Random::from_seed(9));
    let life = Life::open(&disk, 2, pictures()).expect("opens");
    let durable = life.rig.report.durable_epoch;
    history.retain(|(_, tid, _)| tid.epoch() <= durable);
    let mut worker = life.rig.worker();
    let at = disk.calls().all + call;
    hurt.plan(&disk, at);
    let installed = checkpoint(&life, &mut worker, &mut random, &mut history, &disk);
    let pages = life.store.pages.as_ref().expect("it has pages");
    let (published, ended) = pages.counts();
    if !disk.is_without_power() {
        assert_eq!(published, ended, "N13: call {call}");
        // What is installed is told to its pages, and nothing else is. If the log ends meanwhile the caller hears of
        // that.
        let is_told = published > 0 && pages.installed() == published;
        let has_ended = life.rig.log.health().has_ended();
        assert!(is_told == installed.is_some() || is_told && has_ended, "N13: call {call}");
    }
    let reported = life.rig.log.durable_epoch();
    let is_reached = disk.calls().all >= at;
    drop((worker, life));
    hurt.end(&disk, call);
    let life = Life::open(&disk, 2, pictures()).unwrap_or_else(|error| panic!("call {call}: {error}"));
    let durable = life.rig.report.durable_epoch;
    assert!(durable >= reported, "call {call}");
    assert_eq!(life.found, at_end_of(&history, durable), "call {call}, at the end of {durable}");
    if let Some(report) = installed {
        assert_eq!(life.rig.report.checkpoint, Some((report.low, report.high)), "call {call}");
    }
    history.retain(|(_, tid, _)| tid.epoch() <= durable);
    checkpoint_and_lose_power(life, &disk, &mut history, call);
    is_reached
}

/// Hurts each call of a life with a picture, in a life of its own, behind a checkpoint of each strategy.
fn hurt_at_every_call(hurt: Hurt) {
    for before in [settings(), pictures()] {
        let reached = (1..1000).take_while(|call| life_hurt_at(*call, before.clone(), hurt)).count();
        assert!((50..1000).contains(&reached), "{reached} calls");
    }
}

#[test]
fn n12_power_that_is_cut_at_any_call_of_a_picture_loses_nothing() {
    hurt_at_every_call(Hurt::PowerCut);
}

#[test]
fn n12_a_process_that_dies_at_any_call_of_a_picture_leaves_the_old_picture_or_the_new_one() {
    hurt_at_every_call(Hurt::Death);
}

#[test]
fn n13_a_call_that_fails_fails_an_attempt_or_the_log_and_leaves_no_pages() {
    hurt_at_every_call(Hurt::Failure);
}

#[test]
fn each_change_of_the_strategy_between_two_opens_loses_nothing() {
    for (seed, kinds) in [[false, false], [false, true], [true, false], [true, true]].into_iter().enumerate()
    {
        let (mut random, mut history) = (Random::from_seed(seed as u64), History::new());
        let disk = SimDisk::new();
        for is_picture in kinds {
            let settings = if is_picture { pictures() } else { settings() };
            let life = Life::open(&disk, 2, settings).expect("opens");
            assert_eq!(life.found, at_end_of(&history, life.rig.report.durable_epoch), "{kinds:?}");
            let mut worker = life.rig.worker();
            for _ in 0..2 {
                let report = checkpoint(&life, &mut worker, &mut random, &mut history, &disk);
                assert_eq!(report.expect("is installed").picture_epoch().is_some(), is_picture);
            }
            for _ in 0..40 {
                commit(&life, &mut worker, &mut random, &mut history);
            }
            life.rig.settle();
            drop((worker, life));
            disk.crash(seed as u64);
        }
        let life = Life::open(&disk, 2, settings()).expect("opens");
        assert_eq!(life.found, at_end_of(&history, Epoch::MAX), "{kinds:?}");
    }
}

#[test]
fn a_demand_is_answered_by_a_picture_that_shows_what_was_shown_before_it() {
    let (_, life, mut worker) = Life::first_with_worker(1, pictures());
    // Behind any number of steps of the picture before.
    for steps in 0..12 {
        let first = life.checkpoints.demand();
        for _ in 0..steps {
            life.step(0);
            life.rig.settle();
        }
        let tid = life.commit(&mut worker, steps, Some(b"shown"));
        let second = life.checkpoints.demand();
        while second.outcome().is_none() {
            (0..2).for_each(|checkpointer| _ = life.step(checkpointer));
            life.rig.settle();
        }
        let report = second.outcome().expect("it has ended").expect("is installed");
        assert!(report.picture_epoch() >= Some(tid.epoch()), "behind {steps} steps");
        assert!(first.outcome().is_some(), "demands are answered in order");
    }
}

#[test]
fn n12_a_log_that_ends_below_an_installed_picture_is_damage() {
    let (disk, life, mut worker) = Life::first_with_worker(1, pictures());
    life.commit_epochs(&mut worker, 0..20, &[1; 50]);
    let report = life.checkpoint().expect("is installed");
    drop((worker, life));
    disk.crash(3);
    // All marks behind the first block of the newest file are gone, and with them what vouches for e_c.
    let log = disk.files().into_iter().rfind(|name| name.starts_with("log0/log-")).expect("a log");
    let bytes = disk.bytes(&log);
    disk.put(&log, bytes[..crate::rig::OPENING_BYTES as usize].to_vec());
    disk.lose("HINT");
    match Life::open(&disk, 1, pictures()).map(drop) {
        Err(DurabilityError::Damaged { file, detail, .. }) => {
            assert_eq!(file, log);
            assert!(detail.contains(&report.high.to_string()), "{detail}");
        }
        found => panic!("{found:?}"),
    }
}

#[test]
fn rows_larger_than_a_page_and_a_block_come_back() {
    let (disk, life, mut worker) = Life::first_with_worker(1, pictures());
    let value = |key: u64| vec![key as u8; if key.is_multiple_of(3) { 300_000 } else { 3000 }];
    for key in 0..KEYS {
        life.commit_epoch(&mut worker, key, Some(&value(key)));
    }
    assert_eq!(life.checkpoint().expect("is installed").entries, KEYS);
    drop((worker, life));
    disk.crash(8);
    let life = Life::open(&disk, 1, pictures()).expect("opens");
    assert_eq!(life.rig.report.checkpoint_entries, KEYS);
    assert!(life.found.iter().all(|(key, (_, found))| found.as_ref() == Some(&value(*key))));
    let mut worker = life.rig.worker();
    life.commit_epoch(&mut worker, 3, Some(&[1; 900_000]));
    life.checkpoint().expect("is installed");
    drop(worker);
    life.end();
}

#[test]
fn a_state_without_pages_is_refused_before_the_first_step() {
    let (_, life) = Life::first(1, pictures());
    let mut bare = Store::default();
    bare.pages = None;
    match life.checkpoints.check(&bare) {
        Err(DurabilityError::Config(why)) => assert!(why.contains("no pictures can be taken"), "{why}"),
        found => panic!("{found:?}"),
    }
    let handle = life.checkpoints.demand();
    for _ in 0..10 {
        life.checkpoints.step(0, &bare);
    }
    let error = handle.outcome().expect("answered").expect_err("it has no pages").to_string();
    assert!(error.contains("no pictures can be taken"), "{error}");
    for page_bytes in [0, (4 << 10) - 1, (1 << 20) + 1] {
        let found = CheckpointConfig { page_bytes, ..pictures() }.check();
        assert!(matches!(found, Err(DurabilityError::Config(_))), "{page_bytes}");
    }
}

/// The pages of a state; its second page cannot be taken.
struct Panics<'s>(&'s Store);

impl Walk for Panics<'_> {
    fn slices(&self, _: usize) -> Vec<Vec<Slice>> {
        unreachable!("pages are taken")
    }

    fn walk(&self, _: &Slice, _: &mut Vec<u8>, _: Epoch, _: &mut CheckpointBlock) -> bool {
        unreachable!("pages are taken")
    }

    fn pages(&self) -> Option<&dyn Pages> {
        Some(self)
    }
}

impl Pages for Panics<'_> {
    fn publish_pages(&self, page_bytes: usize, wanted: WantedPages) -> PublishedPages {
        self.0.publish_pages(page_bytes, wanted)
    }

    fn carry_marks(&self, attempt: PictureAttempt) -> Result<(), PagesEnded> {
        self.0.carry_marks(attempt)
    }

    fn page_slices(&self, attempt: PictureAttempt, parts: usize) -> Result<Vec<Vec<Slice>>, PagesEnded> {
        self.0.page_slices(attempt, parts)
    }

    fn take_page(
        &self,
        attempt: PictureAttempt,
        slice: &Slice,
        resume: &mut Vec<u8>,
        freeze: Epoch,
        page: &mut PageContents,
    ) -> Result<TakenPage, PagesEnded> {
        assert!(resume.is_empty(), "a bug in the second page");
        self.0.take_page(attempt, slice, resume, freeze, page)
    }

    fn take_displaced(
        &self,
        attempt: PictureAttempt,
        freeze: Epoch,
        block: &mut DisplacedBlock<'_>,
    ) -> Result<bool, PagesEnded> {
        self.0.take_displaced(attempt, freeze, block)
    }

    fn end_pages(&self, attempt: PictureAttempt) {
        self.0.end_pages(attempt);
    }

    fn picture_installed(&self, _: PictureAttempt) {
        unreachable!("a page was not taken")
    }
}

#[test]
fn n13_pages_end_with_a_close_a_poisoned_log_or_a_panic() {
    // Behind any number of steps, from the publication to the last page.
    for steps in 0..14 {
        for how in 0..3 {
            let (disk, life, mut worker) = Life::first_with_worker(1, pictures());
            for key in 0..KEYS {
                life.commit(&mut worker, key, Some(&[1; 50]));
            }
            let handle = life.checkpoints.demand();
            for _ in 0..steps {
                life.step(0);
                life.rig.settle();
            }
            let pages = life.store.pages.as_ref().expect("it has pages");
            match how {
                0 => life.checkpoints.close(&life.store),
                1 => {
                    life.commit(&mut worker, 1, Some(b"lost"));
                    disk.fail_all_syncs(true);
                    life.rig.settle();
                    assert!(matches!(life.rig.log.health(), Health::Poisoned(_)));
                    assert_eq!(life.step(1), CheckpointStep::Stopped);
                }
                _ => {
                    let _panic = catch_unwind(AssertUnwindSafe(|| {
                        for _ in 0..30 {
                            life.checkpoints.step(0, &Panics(&life.store));
                            life.checkpoints.step(1, &life.store);
                            life.rig.settle();
                        }
                    }));
                }
            }
            assert!(handle.outcome().is_some(), "nobody waits for it");
            let (published, ended) = pages.counts();
            assert_eq!(published, ended, "behind {steps} steps");
            assert_eq!(pages.under_way(), None);
        }
    }
}
