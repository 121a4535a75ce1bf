//! What tells people: those who hand a notice over do not wait, and what nobody reads has a limit.

use ensile_base::sync::{AtomicBool, Mutex, Ordering};

use super::{NOTICES_WAITING, Teller, free_soon};

/// Held while nobody reads.
static NOBODY_READS: Mutex<()> = Mutex::new(());
static HAS_FIRST: AtomicBool = AtomicBool::new(false);
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn w15_notices_that_nobody_reads_hold_nobody_up_have_a_limit_and_are_counted() {
    let nobody_reads = NOBODY_READS.lock();
    let teller = Teller::start(|notice| {
        // Relaxed: the mark carries nothing.
        HAS_FIRST.store(true, Ordering::Relaxed);
        drop(NOBODY_READS.lock());
        TOLD.lock().push(notice.to_owned());
    })
    .expect("starts");
    let tell = teller.tell();
    let handed_over = NOTICES_WAITING + 10;
    for number in 0..handed_over {
        tell(&format!("notice {number}"));
        // The first notice is with the reader, and leaves its place to another.
        while !HAS_FIRST.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
    drop(nobody_reads);
    while TOLD.lock().len() < NOTICES_WAITING + 1 {
        std::thread::yield_now();
    }
    tell("the last");
    while !TOLD.lock().last().is_some_and(|notice| notice.starts_with("the last")) {
        std::thread::yield_now();
    }
    teller.end();
    let told = TOLD.lock();
    let (last, before) = told.split_last().expect("it was told");
    assert_eq!(before.len(), NOTICES_WAITING + 1, "W15");
    assert!(
        before.iter().enumerate().all(|(number, notice)| *notice == format!("notice {number}")),
        "{told:?}"
    );
    let dropped = handed_over - before.len();
    assert_eq!(*last, format!("the last ({dropped} notices before it found nobody who read them)"));
}

static TOLD_BEHIND_A_PANIC: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn w15_a_notice_that_panics_holds_back_none_behind_it() {
    let teller = Teller::start(|notice| {
        if notice == "the first" {
            std::panic::resume_unwind(Box::new("its output has gone"));
        }
        TOLD_BEHIND_A_PANIC.lock().push(notice.to_owned());
    })
    .expect("starts");
    let tell = teller.tell();
    tell("the first");
    tell("the second");
    // The thread ends behind the last notice.
    drop(teller.sender.lock().take());
    assert!(teller.ended.recv().is_err(), "it says nothing, and goes");
    assert_eq!(*TOLD_BEHIND_A_PANIC.lock(), ["the second"], "W15");
}

#[test]
fn an_address_that_a_killed_process_still_has_is_waited_for() {
    use std::cell::Cell;
    use std::io::ErrorKind;
    use std::time::Duration;

    let asked = Cell::new(0);
    let check = |kind: ErrorKind| {
        asked.set(0);
        let answer = free_soon(Duration::from_secs(3600), || {
            asked.set(asked.get() + 1);
            if asked.get() < 3 { Err(kind.into()) } else { Ok(()) }
        });
        (answer.map_err(|error| error.kind()), asked.get())
    };
    assert_eq!(check(ErrorKind::AddrInUse), (Ok(()), 3));
    let other = ErrorKind::AddrNotAvailable;
    assert_eq!(check(other), (Err(other), 1), "no time makes the address this machine's");
    let never = free_soon(Duration::ZERO, || Err::<(), _>(ErrorKind::AddrInUse.into()));
    assert_eq!(never.expect_err("another server has it").kind(), ErrorKind::AddrInUse);
}
