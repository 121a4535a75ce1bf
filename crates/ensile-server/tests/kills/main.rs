//! Servers that are killed by SIGKILL, again and again, under transactions of many clients: `WATCH` with `MULTI`,
//! `MULTI`, `EVAL`, `FCALL` and single commands. The replies of all lives are one history, which must be strictly
//! serializable, and no acknowledged change may be lost.
//!
//! `ENSILE_KILLS` is the number of kills (2), `ENSILE_CLIENTS` of clients (8), `ENSILE_TRANSACTIONS` the mean number of
//! acknowledged transactions of a life (150), and `ENSILE_SEED` draws the requests and the moments.
//! `bash ci/server-kills.sh` has the long runs.
//!
//! Neighbours: `workload` has the transactions, and `killed_server` the processes; the checker is `ensile-sim`'s.

mod connection;
mod killed_server;
mod lists;
mod workload;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::sleep;
use ensile_sim::checker::check;
use ensile_sim::environment::{count, number};
use ensile_sim::history::History;

use killed_server::KilledServer;
use workload::{Run, Session};

/// Percent of the lives before which a server is killed while the server loads its database.
const KILLS_IN_RECOVERY_PERCENT: u64 = 25;
/// Longest life of a server that is killed while it loads, in milliseconds.
const RECOVERY_MILLIS_MAX: u64 = 60;

/// Folder of a run, which is removed behind a run without a fault.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Runs clients over lives of a server, and judges all replies.
fn judge(appendfsync: &str) {
    let (kills, clients) = (count("ENSILE_KILLS", 2), count("ENSILE_CLIENTS", 8));
    let (per_life, seed) = (count("ENSILE_TRANSACTIONS", 150), number("ENSILE_SEED", 1));
    let name = format!("ensile-server-kills-{appendfsync}-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    let _ = std::fs::remove_dir_all(&folder.0);
    let (clock, mut random) = (Clock::machine(), Random::from_seed(seed));
    let run = Run {
        clock: clock.clone(),
        sessions: clients + 1,
        begun: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
    };
    let mut sessions: Vec<Session> = (0..clients).map(|number| Session::new(&run, seed, number)).collect();
    let mut in_recovery = 0;
    for _ in 0..kills {
        if random.percent(KILLS_IN_RECOVERY_PERCENT) {
            let server = KilledServer::begin(&folder.0, appendfsync);
            sleep(Duration::from_millis(random.next_below(RECOVERY_MILLIS_MAX)));
            server.kill();
            in_recovery += 1;
        }
        let mut server = KilledServer::begin(&folder.0, appendfsync);
        let address = server.address();
        // Relaxed: a count; the threads are joined before the next life.
        let until =
            run.acknowledged.load(Ordering::Relaxed) + random.next_between(per_life / 2, 3 * per_life / 2);
        std::thread::scope(|scope| {
            let clients: Vec<_> =
                sessions.iter_mut().map(|session| scope.spawn(move || session.live(address))).collect();
            // Relaxed: as above.
            while run.acknowledged.load(Ordering::Relaxed) < until
                && !clients.iter().all(|client| client.is_finished())
            {
                sleep(Duration::from_micros(200));
            }
            server.kill();
        });
    }
    let mut server = KilledServer::begin(&folder.0, appendfsync);
    let mut last = Session::new(&run, seed, clients);
    let finally = last.look_at_all(server.address());
    server.kill();
    let ran = clock.nanos();
    report(&run, sessions, last, &finally, (appendfsync, kills, in_recovery, ran));
}

/// Judges the sessions, whose changes the last look must have.
fn report(
    run: &Run,
    sessions: Vec<Session<'_>>,
    last: Session<'_>,
    finally: &BTreeMap<u64, Vec<u64>>,
    (appendfsync, kills, in_recovery, ran): (&str, u64, u64, u64),
) {
    let there: HashSet<(u64, u64)> =
        finally.iter().flat_map(|(key, list)| list.iter().map(|element| (*key, *element))).collect();
    let changes: Vec<_> = sessions.iter().flat_map(|session| &session.changes).collect();
    let lost: Vec<_> = changes.iter().filter(|change| !there.contains(change)).collect();
    assert!(
        lost.is_empty(),
        "{} acknowledged changes are lost: {:?}",
        lost.len(),
        &lost[..lost.len().min(5)]
    );
    let mut kinds: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for (kind, ends) in sessions.iter().flat_map(|session| &session.ends) {
        let all = kinds.entry(*kind).or_default();
        (0..3).for_each(|end| all[end] += ends[end]);
    }
    for (kind, [acknowledged, refused, unknown]) in &kinds {
        println!("{kind}: {acknowledged} acknowledged, {refused} refused, {unknown} with an unknown outcome");
        assert!(*acknowledged > 0, "no {kind} was acknowledged");
    }
    let count = changes.len();
    let recorders = sessions.into_iter().chain([last]).map(|session| session.recorder);
    let history = History::merge(recorders);
    let summary = check(&history).unwrap_or_else(|report| panic!("{appendfsync}: {report}"));
    let checked = run.clock.nanos() - ran;
    println!(
        "{appendfsync}: {kills} kills and {in_recovery} in recovery, {} transactions acknowledged, {count} changes, none \
         lost, no anomaly; ran {} s, checked {} s; {summary}",
        // Relaxed: the threads have ended.
        run.acknowledged.load(Ordering::Relaxed),
        ran / 1_000_000_000,
        checked / 1_000_000_000,
    );
}

#[test]
fn r1_a_killed_server_with_durable_replies_has_a_strict_serial_order() {
    judge("always");
}

#[test]
fn r1_a_killed_server_with_replies_at_once_has_a_strict_serial_order() {
    judge("everysec");
}
