//! Turns, one step at a time, with a clock that stands still; and what other threads do beside a turn.
//!
//! Neighbours: `tests/engine/turns.rs` has closures that lose to others without an end.

use std::ops::ControlFlow;
use std::sync::{Barrier, mpsc};

use ensile_base::Epoch;
use ensile_base::limits::TURN_MILLIS_MAX;
use ensile_base::sync::{Arc, AtomicBool};
use ensile_epoch::EpochConfig;

use super::*;
use crate::{Database, Readable, Table};

/// A gate that panics at its drop if a turn was not given back, or somebody waits for one.
struct Scene {
    gate: Gate,
    epochs: Epochs,
    clock: Clock,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if self.gate.process.is_this() && !std::thread::panicking() {
            self.gate.check_at_rest();
        }
    }
}

impl Scene {
    fn new() -> Self {
        Self::of(Process::current())
    }

    fn of(process: Process) -> Self {
        let config = EpochConfig { first: Epoch::FIRST, snapshot_interval: Duration::from_secs(1) };
        Self { gate: Gate::new(process), epochs: Epochs::new(&config), clock: Clock::manual() }
    }

    fn take_turn(&self) -> super::ClosureTurn<'_> {
        let turn = self.gate.take_turn(&self.epochs, &self.clock, Duration::from_secs(10), None);
        turn.expect("it is open").expect("this thread has no turn")
    }

    /// Another thread takes a turn, keeps it during `beside`, and ends it.
    fn beside_a_turn_of_another_thread(&self, beside: impl FnOnce()) {
        let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let turn = self.take_turn();
                begin.send(()).expect("it is waited for");
                // Also if what is done beside it panics.
                let _ = ended.recv();
                drop(turn);
            });
            begun.recv().expect("its turn begins");
            // Dropped by a panic too.
            let _end = end;
            beside();
        });
    }

    fn looks_elsewhere(&self) -> Result<(), TurnedAway> {
        std::thread::scope(|scope| scope.spawn(|| self.gate.look()).join().expect("no panic"))
    }
}

#[test]
fn the_holder_of_a_turn_passes_and_a_turn_within_it_is_that_one() {
    let scene = Scene::new();
    assert_eq!(scene.gate.look(), Ok(()));
    let turn = scene.take_turn();
    assert_eq!((scene.gate.look(), scene.looks_elsewhere()), (Ok(()), Err(TurnedAway::NotMyTurn)));
    assert!(scene.gate.has_turn() && !turn.is_over());
    drop(turn);
    assert_eq!((scene.looks_elsewhere(), scene.gate.has_turn()), (Ok(()), false));
    let scene = Scene::new();
    let turn = scene.take_turn();
    let inner = scene.gate.take_turn(&scene.epochs, &scene.clock, Duration::from_secs(10), None);
    assert!(inner.expect("it is open").is_none());
    assert!(!turn.is_over());
}

#[test]
fn a_turn_whose_time_is_over_is_ended_by_who_waits() {
    let scene = Scene::new();
    let turn = scene.take_turn();
    scene.clock.advance(Duration::from_secs(11));
    assert_eq!(scene.looks_elsewhere(), Err(TurnedAway::NotMyTurn), "nobody has waited yet");
    std::thread::scope(|scope| {
        scope.spawn(|| drop(scene.gate.make_way(&scene.clock))).join().expect("it does not wait for ever");
    });
    assert!(turn.is_over());
    assert_eq!(scene.looks_elsewhere(), Ok(()));
    drop(turn);
    assert_eq!(scene.looks_elsewhere(), Ok(()), "the end of a turn that is over ends no other");
}

#[test]
fn the_guard_of_a_turn_that_is_over_does_not_end_the_next_one() {
    let scene = Scene::new();
    let first = scene.take_turn();
    scene.clock.advance(Duration::from_secs(11));
    scene.beside_a_turn_of_another_thread(|| {
        assert!(first.is_over(), "the thread that waited has ended it");
        drop(first);
        assert!(scene.gate.has_turn() && !scene.gate.is_mine());
        assert_eq!(scene.gate.look(), Err(TurnedAway::NotMyTurn), "the other turn goes on");
    });
    assert!(!scene.gate.has_turn(), "its own guard has ended it");
}

#[test]
fn turns_begin_in_the_order_in_which_they_were_asked_for() {
    let scene = Scene::new();
    let first = scene.take_turn();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..5 {
            let (scene, order) = (&scene, &order);
            scope.spawn(move || {
                let turn = scene.take_turn();
                order.lock().push(number);
                drop(turn);
            });
            while scene.gate.turns.lock().waiting.len() <= number {
                std::thread::yield_now();
            }
        }
        drop(first);
    });
    assert_eq!(*order.lock(), [0, 1, 2, 3, 4]);
}

#[test]
fn the_next_turn_waits_for_a_commit_that_made_way_but_not_for_ever() {
    let scene = Arc::new(Scene::new());
    let first = scene.take_turn();
    let passing = std::thread::scope(|scope| {
        let waits = scope.spawn(|| scene.gate.make_way(&scene.clock));
        while scene.gate.turns.lock().passing == 0 {
            std::thread::yield_now();
        }
        drop(first);
        waits.join().expect("no panic")
    });
    assert!(!scene.gate.turns.lock().may_begin_alone(&scene.clock), "a commit is on its way");
    scene.clock.advance(Duration::from_millis(10));
    assert!(scene.gate.turns.lock().may_begin_alone(&scene.clock), "it had its time");
    drop(passing);
    drop(scene.take_turn());
}

#[test]
fn close_lets_all_go_who_wait() {
    let scene = Scene::new();
    let turn = scene.take_turn();
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| drop(scene.gate.make_way(&scene.clock)));
        let closure =
            scope.spawn(|| scene.gate.take_turn(&scene.epochs, &scene.clock, Duration::from_secs(1), None));
        while scene.gate.turns.lock().waiting.is_empty() || scene.gate.turns.lock().passing == 0 {
            std::thread::yield_now();
        }
        scene.gate.close();
        commit.join().expect("no panic");
        let refused = closure.join().expect("no panic");
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    });
    drop(turn);
    assert_eq!(scene.gate.look(), Err(TurnedAway::Closed));
}

/// A closure that reads a table, and loses once. In its turn another thread does `work`, and has made way, or is done,
/// before the closure ends. How often the closure ran.
fn beside_a_turn(work: impl Fn(&Database, &Table<u64, u64>) -> Result<()> + Sync) -> Result<u32> {
    // Without boundaries, for which it would lose once more.
    let db = Database::builder_in_memory().snapshots(false).open()?;
    let table = db.table::<u64, u64>("numbers")?;
    db.run(|tx| (0..5_000).try_for_each(|row| tx.put(&table, &(2 * row), &1)))?;
    let is_done = AtomicBool::new(false);
    let mut runs = 0;
    std::thread::scope(|scope| {
        db.run(|tx| {
            runs += 1;
            tx.scan(&table, .., |_, _| ControlFlow::Continue(()))?;
            if runs == 1 {
                db.run(|other| other.put(&table, &0, &7))?;
            } else if runs == 2 {
                scope.spawn(|| {
                    work(&db, &table).expect("commits");
                    // Relaxed: it only ends the wait.
                    is_done.store(true, Ordering::Relaxed);
                });
                // Relaxed: the other thread only says that it is done.
                while db.shared().life.gate.turns.lock().passing == 0 && !is_done.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            }
            tx.put(&table, &2, &9)
        })
    })?;
    assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(1), "work that made way is done after the turn");
    Ok(runs)
}

#[test]
fn an_insert_or_update_of_what_the_holder_has_read_makes_way() -> Result<()> {
    let runs = beside_a_turn(|db, table| db.run(|tx| tx.insert(table, &1, &1)))?;
    assert_eq!(runs, 2, "no leaf changes beside its turn");
    let runs = beside_a_turn(|db, table| {
        db.run(|tx| tx.update(table, &6, |row| *row += 1).map(drop))?;
        db.run(|tx| tx.insert(table, &1, &1))
    })?;
    assert_eq!(runs, 2, "no row changes beside its turn");
    Ok(())
}

#[test]
fn who_waits_for_a_turn_until_its_deadline_leaves_the_queue() -> Result<()> {
    let scene = Scene::new();
    let turn = scene.take_turn();
    let none = std::thread::scope(|scope| {
        let late = || scene.gate.take_turn(&scene.epochs, &scene.clock, Duration::from_secs(1), Some(0));
        scope.spawn(move || late().map(|turn| turn.is_none())).join().expect("no panic")
    })?;
    assert!(none && scene.gate.turns.lock().waiting.is_empty());
    drop(turn);
    Ok(())
}

#[test]
fn a_forked_child_ends_its_parents_turn_without_a_lock_that_may_be_held_for_ever() {
    let process = Process::new_simulated();
    let scene = Scene::of(process.clone());
    let (turn, passing) = (scene.take_turn(), scene.gate.make_way(&scene.clock));
    let _held_at_the_fork = scene.gate.turns.lock();
    process.set_forked(true);
    drop((turn, passing));
}

/// Two closures in turns at two databases commit to each other's database, and so wait for each other's turn. Both
/// closures go on when one of the turns is overdue, and commit.
#[test]
fn closures_that_wait_for_each_others_turns_go_on_when_one_turn_is_overdue() -> Result<()> {
    struct Side {
        db: Database,
        clock: Clock,
        numbers: Table<u64, u64>,
        others: Table<u64, u64>,
    }
    let open = || {
        let clock = Clock::manual();
        let builder = Database::builder_in_memory().snapshots(false).without_threads();
        let db = builder.manual_clock(clock.clone()).open()?;
        let (numbers, others) = (db.table::<u64, u64>("numbers")?, db.table::<u64, u64>("others")?);
        db.run(|tx| (0..5_000).try_for_each(|row| tx.put(&numbers, &row, &1)))?;
        Ok::<_, Error>(Side { db, clock, numbers, others })
    };
    let (one, other) = (open()?, open()?);
    let both_have_turns = Barrier::new(2);
    let work = |own: &Side, elsewhere: &Side| {
        let mut runs = 0;
        own.db.run(|tx| {
            runs += 1;
            tx.scan(&own.numbers, .., |_, _| ControlFlow::Continue(()))?;
            if runs == 1 {
                own.db.run(|inner| inner.put(&own.numbers, &0, &7))?;
            } else {
                both_have_turns.wait();
                elsewhere.db.run(|inner| inner.put(&elsewhere.others, &1, &8))?;
            }
            tx.put(&own.others, &2, &9)
        })?;
        Ok::<_, Error>(runs)
    };
    let runs = std::thread::scope(|scope| {
        let threads = [scope.spawn(|| work(&one, &other)), scope.spawn(|| work(&other, &one))];
        let gates = [&one, &other].map(|side| &side.db.shared().life.gate);
        while gates.iter().any(|gate| gate.passing_commits() == 0) {
            assert!(!threads.iter().any(|thread| thread.is_finished()), "each waits for the other's turn");
            std::thread::yield_now();
        }
        one.clock.advance(Duration::from_millis(TURN_MILLIS_MAX) - Duration::from_nanos(1));
        assert!(gates.iter().all(|gate| gate.has_turn()), "each waits for the other's turn");
        // The thread that waits for the turn ends it. The heartbeats stand still, and so does the other clock.
        one.clock.advance(Duration::from_nanos(1));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    for (side, runs) in [&one, &other].into_iter().zip(runs) {
        assert_eq!((runs?, side.db.stats().turns), (2, 1), "the second run commits");
        let read = side.db.run(|tx| Ok((tx.get(&side.others, &1)?, tx.get(&side.others, &2)?)))?;
        assert_eq!(read, (Some(8), Some(9)));
    }
    Ok(())
}
