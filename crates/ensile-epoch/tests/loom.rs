//! Loom on the shipped epochs: E2, E3, E4, N1, N2 and S1, each a Dekker pair or a hand-over that a missing fence
//! breaks.
//!
//! `bash ci/loom.sh`. What stands outside this crate (the commit's fence, the tag of garbage) is repeated here in the
//! engine's order of steps; everything else is the real thing. Garbage is a [`Thing`], whose cells make loom fail when
//! it is freed while somebody may still read it.
#![cfg(loom)]

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicU64, Ordering, fence};
use ensile_epoch::{Advance, CommitHandle, EpochConfig, Epochs, PinHandle};
use loom::cell::UnsafeCell;
use loom::thread;

const FIRST: u64 = 10;
/// Far enough apart for E5.
const MILLI: u64 = 1_000_000;

fn epochs() -> Arc<Epochs> {
    // Boundaries come when they are asked for.
    let config = EpochConfig { first: Epoch::new(FIRST), snapshot_interval: Duration::MAX };
    Arc::new(Epochs::new(&config))
}

/// Something that a reader may hold when it is freed. Its cell is no memory to be lost: loom only keeps book.
struct Thing(UnsafeCell<()>);

impl Thing {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(())))
    }

    fn read(&self) {
        self.0.with(|_| ());
    }

    /// Fails the model if a read is not known to be over.
    fn free(&self) {
        self.0.with_mut(|_| ());
    }
}

// SAFETY: loom checks every access to the cell.
unsafe impl Send for Thing {}
// SAFETY: loom checks every access to the cell.
unsafe impl Sync for Thing {}

/// E2: once E has reached e + 2, a commit of epoch e is installed. The commit's own steps, as in the engine.
#[test]
fn e2_a_commit_of_epoch_e_is_installed_when_e_plus_2_is_reached() {
    loom::model(|| {
        let epochs = epochs();
        let worker = epochs.register_worker();
        let installed = Arc::new(AtomicU64::new(0));
        let committer = {
            let (epochs, installed) = (epochs.clone(), installed.clone());
            thread::spawn(move || {
                worker.bind(epochs.now());
                // SeqCst: between the locks and the epoch's load (C1); partner: the fence in `advance`.
                fence(Ordering::SeqCst);
                let epoch = epochs.now();
                // Relaxed: what unbinding carries over (E1).
                installed.store(1, Ordering::Relaxed);
                worker.unbind();
                (worker, epoch)
            })
        };
        let mut seen = Vec::new();
        for step in 1..=2 {
            if let Advance::Advanced(now) = epochs.try_advance(step * MILLI) {
                // Relaxed: carried over by the scan that let E pass.
                seen.push((now, installed.load(Ordering::Relaxed) == 1));
            }
        }
        let (worker, epoch) = committer.join().unwrap();
        for (now, installed) in seen {
            let is_due = now.number() >= epoch.number() + 2;
            assert!(installed || !is_due, "E is {now} and a commit of {epoch} is not installed");
        }
        drop(worker);
    });
}

/// A commit of the engine from its binding on: `take_effect` gets its epoch, behind the second fence.
fn commit<T>(epochs: &Epochs, worker: &CommitHandle, take_effect: impl FnOnce(Epoch) -> T) -> T {
    worker.bind(epochs.now());
    // SeqCst: between the locks and the epoch's load (C1); partner: the fence in `advance`.
    fence(Ordering::SeqCst);
    let epoch = epochs.now();
    // SeqCst: the epoch comes before what is validated (C1).
    fence(Ordering::SeqCst);
    let result = take_effect(epoch);
    worker.unbind();
    result
}

/// A thread that commits once and says in which epoch, and which freeze it found.
fn commit_beside(epochs: &Arc<Epochs>) -> thread::JoinHandle<(CommitHandle, Epoch, Epoch)> {
    let (epochs, worker) = (epochs.clone(), epochs.register_worker());
    thread::spawn(move || {
        let (epoch, freeze) = commit(&epochs, &worker, |epoch| (epoch, epochs.freeze_at(epoch)));
        (worker, epoch, freeze)
    })
}

/// N1: the commit found the newest of these freezes up to its epoch.
fn check_n1(committer: thread::JoinHandle<(CommitHandle, Epoch, Epoch)>, freezes: &[Epoch]) {
    let (_worker, epoch, found) = committer.join().unwrap();
    let newest = freezes.iter().copied().filter(|freeze| *freeze <= epoch).max();
    assert_eq!(Some(found), newest, "a commit of {epoch} found another freeze than the newest of its time");
}

/// N1: announced by a checkpointer, reached by the heartbeat.
#[test]
fn n1_a_commit_finds_the_freeze_that_its_epoch_has_reached() {
    loom::model(|| {
        let epochs = epochs();
        let committer = commit_beside(&epochs);
        let checkpointer = {
            let epochs = epochs.clone();
            thread::spawn(move || epochs.announce_freeze().expect("no freeze is ahead"))
        };
        assert!(matches!(epochs.try_advance(MILLI), Advance::Advanced(_)));
        check_n1(committer, &[Epoch::new(FIRST), checkpointer.join().unwrap()]);
    });
}

/// N1: a commit that meets a freeze above its epoch finds its own one before that, however soon the next ones come.
#[test]
fn n1_the_freeze_before_is_the_newest_of_a_commit_that_meets_a_later_one() {
    loom::model(|| {
        let epochs = epochs();
        let mut freezes = vec![Epoch::new(FIRST)];
        freezes.extend(epochs.announce_freeze());
        for step in 1..=2 {
            assert!(matches!(epochs.try_advance(step * MILLI), Advance::Advanced(_)));
        }
        let committer = commit_beside(&epochs);
        freezes.extend(epochs.announce_freeze());
        for step in 3..=4 {
            let _ = epochs.try_advance(step * MILLI);
            // As soon as it is let.
            freezes.extend(epochs.announce_freeze());
        }
        check_n1(committer, &freezes);
    });
}

/// N2: a checkpointer that is told so finds installed what was committed below its freeze.
#[test]
fn n2_what_was_committed_below_a_freeze_is_installed_when_its_picture_is_walked() {
    loom::model(|| {
        let epochs = epochs();
        let worker = epochs.register_worker();
        let installed = Arc::new(AtomicU64::new(0));
        let freeze = epochs.announce_freeze().expect("no freeze is ahead");
        let committer = {
            let (epochs, installed) = (epochs.clone(), installed.clone());
            thread::spawn(move || {
                let epoch = commit(&epochs, &worker, |epoch| {
                    // Relaxed: what unbinding carries over (E1).
                    installed.store(1, Ordering::Relaxed);
                    epoch
                });
                (worker, epoch)
            })
        };
        let checkpointer = {
            let (epochs, installed) = (epochs.clone(), installed.clone());
            // Relaxed: carried over by the scan that let E pass, and by E.
            thread::spawn(move || {
                !epochs.is_installed_below(freeze) || installed.load(Ordering::Relaxed) == 1
            })
        };
        for step in 1..=2 {
            let _ = epochs.try_advance(step * MILLI);
        }
        let is_right = checkpointer.join().unwrap();
        let (_worker, epoch) = committer.join().unwrap();
        assert!(is_right || epoch >= freeze, "{freeze} is walked and a commit of {epoch} is not installed");
    });
}

/// The words that a tree would be: a link to a thing, taken away by one thread while another follows it.
struct Shared {
    epochs: Arc<Epochs>,
    link: AtomicU64,
    thing: Arc<Thing>,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { epochs: epochs(), link: AtomicU64::new(1), thing: Thing::new() })
}

impl Shared {
    fn follow(&self) {
        // Relaxed: whether the link is still seen is the pin's business, and what it leads to was there before.
        if self.link.load(Ordering::Relaxed) == 1 {
            self.thing.read();
        }
    }

    /// Unlinks the thing and says under which tag it is garbage (E3).
    fn retire(&self) -> Epoch {
        // Relaxed: ordered before the tag's load by the fence.
        self.link.store(0, Ordering::Relaxed);
        // SeqCst: the unlink comes before the tag is read (E3); partner: the heavy fence of `scan`.
        fence(Ordering::SeqCst);
        self.epochs.now()
    }

    fn advance(&self) {
        assert!(matches!(self.epochs.try_advance(MILLI), Advance::Advanced(_)));
    }
}

/// A reader and a worker that unlinks, each a thread, while this one is the heartbeat that scans; the epoch is moved on
/// by the heartbeat, or early by the worker.
fn check_e3(worker_advances: bool, read: fn(&Shared, &mut PinHandle)) {
    loom::model(move || {
        let shared = shared();
        let mut pin = shared.epochs.register_pin();
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                read(&shared, &mut pin);
                pin.end();
                pin
            })
        };
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                let tag = shared.retire();
                if worker_advances {
                    shared.advance();
                }
                tag
            })
        };
        if !worker_advances {
            shared.advance();
        }
        let limits = shared.epochs.scan();
        // Joined only now: to join before the scan would order what the fences must order.
        if worker.join().unwrap() < limits.pins() {
            shared.thing.free();
        }
        drop(reader.join().unwrap());
    });
}

fn read_once(shared: &Shared, pin: &mut PinHandle) {
    let _call = pin.begin(shared.epochs.now());
    shared.follow();
}

fn read_in_snapshot(shared: &Shared, pin: &mut PinHandle) {
    drop(pin.begin(shared.epochs.now()));
    let _ = shared.epochs.open_snapshot(pin);
    let _call = pin.enter_snapshot(shared.epochs.now()).expect("nobody expires it");
    shared.follow();
}

#[test]
fn e3_what_a_pin_reaches_is_not_freed() {
    check_e3(false, read_once);
}

#[test]
fn e3_what_a_pin_reaches_is_not_freed_when_an_epoch_closes_within_the_scan() {
    check_e3(true, read_once);
}

/// The pin of a snapshot's reader is honoured within its calls.
#[test]
fn e3_what_a_call_of_a_snapshot_reaches_is_not_freed() {
    check_e3(false, read_in_snapshot);
}

/// Between its calls a snapshot's reader has read what its pin lets go.
#[test]
fn e3_a_snapshot_between_calls_has_read_what_it_lets_go() {
    loom::model(|| {
        let shared = shared();
        let mut pin = shared.epochs.register_pin();
        drop(pin.begin(shared.epochs.now()));
        let _ = shared.epochs.open_snapshot(&mut pin);
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                let call = pin.enter_snapshot(Epoch::new(FIRST + 1)).expect("nobody expires it");
                shared.follow();
                drop(call);
                let call = pin.enter_snapshot(shared.epochs.now()).expect("nobody expires it");
                shared.follow();
                drop(call);
                pin
            })
        };
        let tag = shared.retire();
        shared.advance();
        if tag < shared.epochs.scan().pins() {
            shared.thing.free();
        }
        drop(reader.join().unwrap());
    });
}

/// E3: a scan that finds the pin of a slot's next transaction, and never the end of the last one.
#[test]
fn e3_the_next_transactions_pin_says_that_the_last_ones_loads_are_done() {
    loom::model(|| {
        let shared = shared();
        let mut pin = shared.epochs.register_pin();
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                let call = pin.begin(Epoch::new(FIRST + 1));
                shared.follow();
                drop(call);
                pin.end();
                drop(pin.begin(shared.epochs.now()));
                pin
            })
        };
        let tag = shared.retire();
        shared.advance();
        if tag < shared.epochs.scan().pins() {
            shared.thing.free();
        }
        drop(reader.join().unwrap());
    });
}

/// A transaction that holds a pointer to a thing that is garbage by now, E past its tag.
fn idle_holder() -> (Arc<Shared>, PinHandle, Epoch) {
    let shared = shared();
    let mut pin = shared.epochs.register_pin();
    drop(pin.begin(shared.epochs.now()));
    let tag = shared.retire();
    shared.advance();
    assert!(shared.epochs.scan().pins() <= tag, "the pin holds it back");
    (shared, pin, tag)
}

/// E4: a call that was let in touches nothing that is freed; a transaction that is ignored is let in no more. The
/// scan may be another thread's than the request, and past its fence when that comes.
fn check_e4(another_asks: bool) {
    loom::model(move || {
        let (shared, mut pin, tag) = idle_holder();
        let owner = {
            let shared = shared.clone();
            thread::spawn(move || {
                // Two calls: the first may be under way when the expiry is asked for, the second must then fail.
                for _ in 0..2 {
                    // SAFETY: the pin was begun, and has not ended.
                    if let Ok(call) = unsafe { pin.enter() } {
                        shared.thing.read();
                        drop(call);
                    }
                }
                pin.end();
                pin
            })
        };
        let ask = {
            let shared = shared.clone();
            move || {
                let _ = shared.epochs.expire(Epoch::new(FIRST + 100), Epoch::ZERO);
            }
        };
        let other = if another_asks {
            Some(thread::spawn(ask))
        } else {
            ask();
            None
        };
        if tag < shared.epochs.scan().pins() {
            shared.thing.free();
        }
        drop(owner.join().unwrap());
        other.map(thread::JoinHandle::join);
    });
}

#[test]
fn e4_a_expired_pin_is_ignored_only_between_calls() {
    check_e4(false);
}

#[test]
fn e4_a_expired_pin_is_ignored_only_between_calls_when_another_scans() {
    check_e4(true);
}

/// E4: a slot that begins anew while its last transaction is being expired is honoured again.
#[test]
fn e4_a_slot_that_begins_anew_is_honoured_again() {
    loom::model(|| {
        let shared = shared();
        let mut pin = shared.epochs.register_pin();
        drop(pin.begin(shared.epochs.now()));
        let owner = {
            let shared = shared.clone();
            thread::spawn(move || {
                pin.end();
                read_once(&shared, &mut pin);
                pin.end();
                pin
            })
        };
        let _ = shared.epochs.expire(Epoch::new(FIRST + 100), Epoch::ZERO);
        let _ = shared.epochs.scan();
        let tag = shared.retire();
        shared.advance();
        if tag < shared.epochs.scan().pins() {
            shared.thing.free();
        }
        drop(owner.join().unwrap());
    });
}

/// S1: a version that a registered snapshot needs is not below the limit, however registration, scan and boundaries
/// race.
fn check_s1(other_advances: bool) {
    loom::model(move || {
        let epochs = epochs();
        let mut pin = epochs.register_pin();
        let thing = Thing::new();
        // The version was superseded in the epoch before the next boundary: readers of the first boundary need it.
        let superseded = epochs.now();
        let reader = {
            let (epochs, thing) = (epochs.clone(), thing.clone());
            thread::spawn(move || {
                drop(pin.begin(epochs.now()));
                if epochs.open_snapshot(&mut pin) <= superseded {
                    thing.read();
                }
                pin.end();
                pin
            })
        };
        let advance = {
            let epochs = epochs.clone();
            move || {
                for step in 1..=2 {
                    let step = epochs.try_advance_to_boundary(step * MILLI, epochs.now());
                    assert!(matches!(step, Advance::Advanced(_)));
                }
            }
        };
        let other = if other_advances {
            Some(thread::spawn(advance))
        } else {
            advance();
            None
        };
        if superseded < epochs.scan().snapshots() {
            thing.free();
        }
        drop(reader.join().unwrap());
        other.map(thread::JoinHandle::join);
    });
}

#[test]
fn s1_a_snapshot_that_is_registered_keeps_its_versions() {
    check_s1(false);
}

#[test]
fn s1_a_snapshot_keeps_its_versions_when_a_boundary_comes_within_the_scan() {
    check_s1(true);
}

/// V1: the boundary of a registered reader is in every set of boundaries that is published, however registration, scans
/// and boundaries race.
fn check_v1(boundaries: impl Fn(&Epochs) + Send + Sync + 'static) {
    loom::model(move || {
        let epochs = epochs();
        let mut pin = epochs.register_pin();
        let is_shown = |epochs: &Epochs, boundary: Epoch| {
            epochs.shown_boundaries().is_none_or(|set| set.show(boundary.previous(), boundary))
        };
        let reader = {
            let epochs = epochs.clone();
            thread::spawn(move || {
                drop(pin.begin(epochs.now()));
                let boundary = epochs.open_snapshot(&mut pin);
                assert!(is_shown(&epochs, boundary), "a commit could unlink what the reader needs");
                (pin, boundary)
            })
        };
        boundaries(&epochs);
        // Joined only now: to join before the scan would order what the fences must order.
        let (_pin, boundary) = reader.join().unwrap();
        assert!(is_shown(&epochs, boundary), "the scan has published a set without {boundary}");
    });
}

#[test]
fn v1_a_registered_readers_boundary_is_in_every_set_that_is_published() {
    check_v1(|epochs| {
        for step in 1..=2 {
            let step = epochs.try_advance_to_boundary(step * MILLI, epochs.now());
            assert!(matches!(step, Advance::Advanced(_)));
        }
        epochs.scan();
    });
}

/// As above, where the heartbeat closes the boundary's epoch at once.
#[test]
fn v1_a_boundary_that_is_served_at_once_takes_no_readers_boundary_out_of_the_set() {
    check_v1(|epochs| {
        assert!(matches!(epochs.try_advance_to_boundary(MILLI, epochs.now()), Advance::Advanced(_)));
        assert!(matches!(epochs.try_serve_boundary(2 * MILLI), Advance::Advanced(_)));
    });
}

/// V1: a worker that sees a limit sees the set of boundaries that was published before it.
#[test]
fn v1_the_set_is_at_least_as_new_as_the_limit() {
    loom::model(|| {
        let epochs = epochs();
        let worker = {
            let epochs = epochs.clone();
            thread::spawn(move || {
                let limit = epochs.limits().snapshots();
                if let Some(set) = epochs.shown_boundaries() {
                    assert!(set.lowest() >= limit, "a link to what the limit let go could be followed");
                    assert!(set.lowest() == Epoch::ZERO || set.lowest() == Epoch::new(FIRST), "a whole set");
                }
            })
        };
        epochs.scan();
        worker.join().unwrap();
    });
}

/// P1: a worker that changes a leaf without having seen a turn has left the index before the turn's holder reads.
#[test]
fn p1_a_leaf_is_not_changed_while_the_holder_of_a_turn_reads() {
    loom::model(|| {
        let epochs = epochs();
        let (turn, leaf) = (Arc::new(AtomicU64::new(0)), Thing::new());
        let worker = epochs.register_worker();
        let inserter = {
            let (epochs, turn, leaf) = (epochs.clone(), turn.clone(), leaf.clone());
            thread::spawn(move || {
                let entered = epochs.enter_index(&worker);
                // Relaxed: the light fence of `enter_index` orders it; partner: `fence_turn`.
                if turn.load(Ordering::Relaxed) == 0 {
                    leaf.free();
                }
                drop(entered);
                worker
            })
        };
        // Relaxed: the fence below orders it; partner: the light fence of `enter_index`.
        turn.store(1, Ordering::Relaxed);
        epochs.fence_turn();
        while epochs.is_index_entered() {
            thread::yield_now();
        }
        leaf.read();
        drop(inserter.join());
    });
}
