//! What people are told of the log: news alone, not too often, whatever the teller does.
//!
//! Neighbours: `tests/services` has whole servers whose log stops.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::sync::Mutex;

use super::{LogNotices, PAUSE_NANOS};
use crate::durable_epochs::{CheckpointWait, LogState};

#[test]
fn w15_a_teller_that_panics_harms_nobody_and_is_told_the_next_thing() {
    let told = Arc::new(Mutex::new(0));
    let count = Arc::clone(&told);
    let notices = LogNotices::new(Box::new(move |_| {
        *count.lock() += 1;
        std::panic::resume_unwind(Box::new("a teller's"));
    }));
    notices.look(&LogState::Full("no space left on device".to_owned()), 0);
    notices.look(&LogState::Running, PAUSE_NANOS);
    assert_eq!(*told.lock(), 2, "W15: it was told both");
}

#[test]
fn what_passes_is_told_now_and_then_and_what_stays_once() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let notices = LogNotices::new(Box::new(move |notice| kept.lock().push(notice.to_owned())));
    let full = || LogState::Full("no space left on device".to_owned());
    let stopped = || LogState::Poisoned("log0: the sync failed".to_owned());
    let at = |health: LogState, seconds: u64| {
        notices.look(&health, seconds * 1_000_000_000);
        std::mem::take(&mut *told.lock())
    };
    assert_eq!(at(LogState::Running, 0), [""; 0], "that is no news");
    let said = at(full(), 1);
    assert!(said.len() == 1 && said[0].starts_with("the log has no space: no space left"), "{said:?}");
    let pause = PAUSE_NANOS / 1_000_000_000;
    for second in 2..=pause {
        let health = if second % 2 == 0 { LogState::Running } else { full() };
        assert_eq!(at(health, second), [""; 0], "not so often");
    }
    assert_eq!(at(LogState::Running, pause + 1), ["the log takes changes again"]);
    let said = at(stopped(), pause + 2);
    assert!(
        said.len() == 1 && said[0].starts_with("the log has stopped: log0: the sync failed. "),
        "{said:?}"
    );
    for second in [pause + 3, 10 * pause] {
        assert_eq!(at(stopped(), second), [""; 0], "it was told");
        assert_eq!(at(LogState::Closed, second), [""; 0], "the server ends");
    }
}

#[test]
fn a_removed_folder_has_a_backup_as_its_remedy() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let notices = LogNotices::new(Box::new(move |notice| kept.lock().push(notice.to_owned())));
    notices.look(&LogState::Removed("log0 is gone".to_owned()), 0);
    let said = told.lock().concat();
    assert!(
        said.starts_with("the log has ended: log0 is gone. ") && said.contains("restore a backup"),
        "{said}"
    );
}

#[test]
fn a_call_back_that_waits_is_told_once_until_it_goes_on() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let notices = LogNotices::new(Box::new(move |notice| kept.lock().push(notice.to_owned())));
    let waiting = |seconds| Some(CheckpointWait { object: 7, waited: Duration::from_secs(seconds) });
    for looked in [waiting(10), waiting(11), None, waiting(12)] {
        notices.look_at_call_back(looked);
    }
    let told = told.lock();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("a checkpoint has waited for 10 s at object 7: "), "{told:?}");
}

#[test]
fn w16_disconnected_clients_are_told_together_and_not_too_often() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let notices = LogNotices::new(Box::new(move |notice| kept.lock().push(notice.to_owned())));
    for (evicted, now_nanos) in [(0, 0), (1, 1), (5, 2), (4, PAUSE_NANOS), (5, PAUSE_NANOS + 1)] {
        notices.look_at_evicted(evicted, 1000, now_nanos);
    }
    notices.look_at_evicted(5, 1000, 3 * PAUSE_NANOS);
    let told = told.lock();
    let told: Vec<&str> =
        told.iter().filter_map(|notice| notice.split_once('.')).map(|(first, _)| first).collect();
    let first = "clients disconnected for their memory";
    assert_eq!(told, [format!("{first}: 1"), format!("{first}: 4")], "W16");
}

#[test]
fn failures_of_tls_are_told_together_now_and_then() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let notices = LogNotices::new(Box::new(move |notice| kept.lock().push(notice.to_owned())));
    notices.look_at_tls(1, "a client sent no TLS", 0);
    notices.look_at_tls(5, "received fatal alert", PAUSE_NANOS - 1);
    notices.look_at_tls(5, "received fatal alert", PAUSE_NANOS);
    notices.look_at_tls(5, "received fatal alert", 3 * PAUSE_NANOS);
    let wanted = [
        "clients disconnected because their TLS failed: 1. The last reason: a client sent no TLS",
        "clients disconnected because their TLS failed: 4. The last reason: received fatal alert",
    ];
    assert_eq!(*told.lock(), wanted);
}
