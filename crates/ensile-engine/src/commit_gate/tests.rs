//! Turns, one step at a time, with a clock that stands still; and what other threads do beside a turn.
//!
//! Neighbours: `tests/engine/turns.rs` has closures that lose to others without an end.

use std::ops::ControlFlow;
use std::sync::{Arc as StdArc, Barrier, mpsc};
use std::task::Wake;

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

/// A waker that counts its calls, and looks at the gate, which would wait for ever under the gate's lock.
struct Counts {
    scene: Arc<Scene>,
    calls: AtomicU64,
}

impl Counts {
    fn new(scene: &Arc<Scene>) -> (StdArc<Self>, Waker) {
        let counts = StdArc::new(Self { scene: Arc::clone(scene), calls: AtomicU64::new(0) });
        (StdArc::clone(&counts), Waker::from(counts))
    }

    fn calls(&self) -> u64 {
        // Relaxed: the test looks on the thread of the calls, or behind their threads' end.
        self.calls.load(Ordering::Relaxed)
    }
}

impl Wake for Counts {
    fn wake(self: StdArc<Self>) {
        drop(self.scene.gate.turns.lock());
        // Relaxed: as in `calls`.
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

impl Scene {
    /// A commit of a task makes way: true if the way is free.
    fn makes_way(&self, waker: &Waker, number: &mut Option<u64>) -> bool {
        self.gate.try_make_way(&self.clock, &mut Some(waker.clone()), number)
    }

    fn request(&self, waker: &Waker) -> u64 {
        self.gate.request_turn(waker, &self.clock).expect("it is open")
    }

    fn try_begin(&self, number: u64, waker: &Waker) -> Option<super::ClosureTurn<'_>> {
        let longest = Duration::from_secs(10);
        self.gate.try_begin_turn(number, waker, longest, &self.epochs, &self.clock).expect("it is open")
    }
}

#[test]
fn p2_a_commit_of_a_task_is_called_at_the_end_of_the_turn_and_the_next_turn_waits_for_it() {
    let scene = Arc::new(Scene::new());
    let ((commit, waker), (next, next_waker)) = (Counts::new(&scene), Counts::new(&scene));
    let mut number = None;
    assert!(scene.makes_way(&waker, &mut number) && number.is_none(), "nobody has a turn");
    let mut request = 0;
    scene.beside_a_turn_of_another_thread(|| {
        assert!(!scene.makes_way(&waker, &mut number) && !scene.makes_way(&waker, &mut number));
        assert_eq!((scene.gate.passing_commits(), commit.calls()), (1, 0), "one commit, whatever its tries");
        request = scene.request(&next_waker);
    });
    assert_eq!((commit.calls(), next.calls()), (1, 0));
    assert!(scene.makes_way(&waker, &mut number), "the turn has ended");
    assert!(scene.try_begin(request, &next_waker).is_none(), "the commit is on its way");
    scene.gate.leave(number.expect("it made way"), &scene.clock);
    assert_eq!(next.calls(), 1, "the commit is done");
    drop(scene.try_begin(request, &next_waker).expect("nothing is in its way"));
}

#[test]
fn p2_a_commit_of_a_task_that_is_given_up_is_not_called_and_lets_the_next_turn_begin() {
    let scene = Arc::new(Scene::new());
    let (commit, waker) = Counts::new(&scene);
    scene.beside_a_turn_of_another_thread(|| {
        let mut number = None;
        assert!(!scene.makes_way(&waker, &mut number));
        scene.gate.leave(number.expect("it made way"), &scene.clock);
    });
    assert_eq!((commit.calls(), scene.gate.passing_commits()), (0, 0));
}

#[test]
fn p2_a_task_that_waits_for_a_slow_commit_is_called_by_the_heartbeat() {
    let scene = Arc::new(Scene::new());
    let ((_, waker), (next, next_waker)) = (Counts::new(&scene), Counts::new(&scene));
    let mut number = None;
    scene.beside_a_turn_of_another_thread(|| assert!(!scene.makes_way(&waker, &mut number)));
    let request = scene.request(&next_waker);
    scene.clock.advance(Duration::from_millis(10) - Duration::from_nanos(1));
    scene.gate.tick(&scene.clock);
    assert_eq!(next.calls(), 0, "the commit has time");
    scene.clock.advance(Duration::from_nanos(1));
    scene.gate.tick(&scene.clock);
    assert_eq!(next.calls(), 1, "the commit had its time");
    let turn = scene.try_begin(request, &next_waker).expect("the commit had its time");
    assert!(scene.makes_way(&waker, &mut number), "the thread has the turn");
    drop(turn);
    scene.gate.leave(number.expect("it made way"), &scene.clock);
}

#[test]
fn p1_a_task_that_does_not_try_again_delays_one_turn() {
    let scene = Arc::new(Scene::new());
    let (_, waker) = Counts::new(&scene);
    let mut number = None;
    scene.beside_a_turn_of_another_thread(|| assert!(!scene.makes_way(&waker, &mut number)));
    let request = scene.request(&waker);
    assert!(scene.try_begin(request, &waker).is_none(), "the task has time");
    scene.clock.advance(Duration::from_millis(10));
    drop(scene.try_begin(request, &waker).expect("the task had its time"));
    assert_eq!(scene.gate.passing_commits(), 0, "the turn has ended its passing");
    let next = scene.request(&waker);
    drop(scene.try_begin(next, &waker).expect("the task delays no other turn"));
    scene.beside_a_turn_of_another_thread(|| assert!(!scene.makes_way(&waker, &mut number)));
    assert_eq!(scene.gate.passing_commits(), 1, "the task has made way again");
    scene.gate.leave(number.expect("it made way"), &scene.clock);
}

/// The user code may run under an object's lock, for which the waker may wait.
#[test]
fn o8_user_code_leaves_the_wakers_to_the_heartbeat() {
    let scene = Arc::new(Scene::new());
    let ((one, first_waker), (other, next_waker)) = (Counts::new(&scene), Counts::new(&scene));
    let first = scene.request(&first_waker);
    let next = scene.request(&next_waker);
    let code = UserCode::begin();
    scene.gate.withdraw_turn(first, &scene.clock);
    scene.gate.call_refused(&first_waker);
    drop(code);
    assert_eq!((one.calls(), other.calls()), (1, 0));
    scene.gate.tick(&scene.clock);
    assert_eq!((one.calls(), other.calls()), (2, 1));
    scene.gate.withdraw_turn(next, &scene.clock);
}

#[test]
fn p2_an_overdue_turn_is_ended_by_the_commit_of_a_task_or_by_the_heartbeat() {
    let scene = Arc::new(Scene::new());
    let (commit, waker) = Counts::new(&scene);
    let first = scene.take_turn();
    scene.clock.advance(Duration::from_secs(11));
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(scene.makes_way(&waker, &mut None), "its try ends the turn"));
    });
    assert!(first.is_over());
    let second = scene.take_turn();
    let mut number = None;
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(!scene.makes_way(&waker, &mut number)));
    });
    scene.clock.advance(Duration::from_secs(11));
    scene.gate.tick(&scene.clock);
    assert_eq!((second.is_over(), commit.calls()), (true, 1));
    scene.gate.leave(number.expect("it made way"), &scene.clock);
}

#[test]
fn p1_requests_of_tasks_and_of_threads_share_one_order() {
    let scene = Arc::new(Scene::new());
    let ((one, first_waker), (other, last_waker)) = (Counts::new(&scene), Counts::new(&scene));
    let turn = scene.take_turn();
    let first = scene.request(&first_waker);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| drop(scene.take_turn()));
        while scene.gate.turns.lock().waiting.len() < 2 {
            std::thread::yield_now();
        }
        let last = scene.request(&last_waker);
        assert!(
            scene.try_begin(first, &first_waker).is_none() && scene.try_begin(last, &last_waker).is_none()
        );
        drop(turn);
        assert_eq!((one.calls(), other.calls()), (1, 0), "the first of the order is called");
        assert!(scene.try_begin(last, &last_waker).is_none(), "it is not the first");
        drop(scene.try_begin(first, &first_waker).expect("it is the first"));
        thread.join().expect("no panic");
        assert_eq!(other.calls(), 1, "the thread had its turn");
        drop(scene.try_begin(last, &last_waker).expect("the others had their turns"));
    });
}

#[test]
fn p1_a_task_that_does_not_answer_is_passed_over_and_keeps_its_place() {
    let scene = Arc::new(Scene::new());
    let wakers = [(); 3].map(|()| Counts::new(&scene));
    let turn = scene.take_turn();
    let numbers = wakers.each_ref().map(|(_, waker)| scene.request(waker));
    drop(turn);
    let calls = || wakers.each_ref().map(|(counts, _)| counts.calls());
    assert_eq!(calls(), [1, 0, 0]);
    for called in [[1, 1, 0], [1, 1, 1]] {
        scene.clock.advance(Duration::from_millis(10));
        scene.gate.tick(&scene.clock);
        assert_eq!(calls(), called, "each has its time to answer");
    }
    let turn = scene.try_begin(numbers[2], &wakers[2].1).expect("the others are passed over");
    assert!(scene.try_begin(numbers[1], &wakers[1].1).is_none(), "one turn at a time");
    drop(turn);
    assert_eq!(calls(), [1, 2, 1], "the first was called, and has not tried since");
    drop(scene.try_begin(numbers[0], &wakers[0].1).expect("it has kept its place"));
    drop(scene.try_begin(numbers[1], &wakers[1].1).expect("it is the last"));
}

#[test]
fn p1_a_thread_does_not_wait_for_ever_behind_a_task_that_does_not_answer() {
    let scene = Arc::new(Scene::new());
    let (counts, waker) = Counts::new(&scene);
    let request = scene.request(&waker);
    assert_eq!(counts.calls(), 1, "its turn may begin");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| drop(scene.take_turn()));
        while scene.gate.turns.lock().waiting.len() < 2 {
            std::thread::yield_now();
        }
        scene.clock.advance(Duration::from_millis(10));
        thread.join().expect("no panic");
    });
    scene.gate.withdraw_turn(request, &scene.clock);
}

#[test]
fn p2_the_withdrawal_of_the_first_request_calls_the_next() {
    let scene = Arc::new(Scene::new());
    let ((one, first_waker), (other, next_waker)) = (Counts::new(&scene), Counts::new(&scene));
    let first = scene.request(&first_waker);
    let next = scene.request(&next_waker);
    assert_eq!((one.calls(), other.calls()), (1, 0));
    scene.gate.withdraw_turn(first, &scene.clock);
    assert_eq!(other.calls(), 1);
    scene.gate.withdraw_turn(next, &scene.clock);
}

#[test]
fn p2_close_calls_all_tasks() {
    let scene = Arc::new(Scene::new());
    let ((commit, waker), (request, request_waker)) = (Counts::new(&scene), Counts::new(&scene));
    let mut number = None;
    scene.beside_a_turn_of_another_thread(|| {
        assert!(!scene.makes_way(&waker, &mut number));
        let asked = scene.request(&request_waker);
        scene.gate.close();
        scene.gate.wake_released();
        assert_eq!((commit.calls(), request.calls()), (1, 1));
        assert!(scene.makes_way(&waker, &mut number), "the commit finds the closed database");
        let longest = Duration::from_secs(1);
        let refused =
            scene.gate.try_begin_turn(asked, &request_waker, longest, &scene.epochs, &scene.clock).map(drop);
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
        scene.gate.withdraw_turn(asked, &scene.clock);
        scene.gate.leave(number.expect("it made way"), &scene.clock);
        let late = scene.gate.request_turn(&request_waker, &scene.clock);
        assert!(matches!(late, Err(Error::Closed)), "{late:?}");
        assert_eq!(request.calls(), 2, "a refused task asks for the reason");
    });
}

#[test]
fn a_waker_that_panics_leaves_the_gate_as_it_was() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: StdArc<Self>) {
            panic!("a waker panics in this test");
        }
    }
    let scene = Arc::new(Scene::new());
    let (counts, waker) = Counts::new(&scene);
    let (mut panics, mut other) = (None, None);
    scene.beside_a_turn_of_another_thread(|| {
        assert!(!scene.makes_way(&Waker::from(StdArc::new(Panics)), &mut panics));
        assert!(!scene.makes_way(&waker, &mut other));
    });
    assert_eq!(counts.calls(), 1);
    for number in [panics, other] {
        scene.gate.leave(number.expect("it made way"), &scene.clock);
    }
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
