//! `slach kills`: kills a service under load, again and again, and checks the acknowledged operations: all must be
//! present, once and in order.
//!
//! ```text
//! life      clients pipeline operations on objects of their own -> SIGKILL at a random moment
//! recovery  killed as well, as often as asked -> serves -> each object is as some number of its operations left it:
//!           at least those that were replied to, at most those that were sent
//! ```
//! Invariants:
//! - An operation counts as acknowledged when its client has the reply, and replies come in order (W1).
//! - Each reply is compared with the model too, so a repeated operation is seen before the kill.
//! - Objects and their models live on from kill to kill, in one folder.
//!
//! Neighbours: [`ensile_services::exercise`] has the operations.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicU64, Mutex, Ordering, sleep};
use ensile_bench::driver::panic_message;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::grouped;
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};
use ensile_services::client::{ClientError, RespClient, in_words};
use ensile_services::command::{ReplyDurability, ServiceKind};
use ensile_services::workload_model::{Exercised, Host, Mistake, TableElement, Tracked, Url};

use super::{ServiceProcess, name_of};
use crate::slach::arguments::SlachArguments;
use crate::slach::arguments::services::ServicesArguments;

/// Objects of each client.
const OBJECTS: usize = 24;
/// Requests of a client before a wait for replies.
const PIPELINED: usize = 16;
/// Limit of individually reported mistakes.
const TOLD_MAX: usize = 10;
/// Range of the random kill of a recovery, as a multiple of the time of the recovery before until its service served.
const OF_A_RECOVERY: f64 = 1.5;
const FOLDER: &str = "slach-kills";

/// A client: its objects, and the number of drawn operations, over all lives.
struct Worker<E> {
    objects: Vec<Tracked<E>>,
    sequence: u64,
}

impl<E: Exercised> Worker<E> {
    fn new(client: u64) -> Self {
        let objects = (0..OBJECTS).map(|number| Tracked::new(format!("object-{client}-{number}"))).collect();
        Self { objects, sequence: 0 }
    }
}

/// Results of all kills.
#[derive(Default)]
struct Account {
    kills: u32,
    midway: u32,
    recoveries: u32,
    acknowledged: u64,
    unacknowledged: u64,
    lost: u64,
    wrong: u64,
    told: Vec<String>,
}

impl Account {
    fn is_clean(&self) -> bool {
        self.lost == 0 && self.wrong == 0
    }

    fn add(&mut self, mistake: Mistake) {
        let text = match mistake {
            Mistake::Lost(text) => {
                self.lost += 1;
                text
            }
            Mistake::Wrong(text) => {
                self.wrong += 1;
                text
            }
        };
        if self.told.len() < TOLD_MAX {
            self.told.push(text);
        }
    }
}

/// Kills as often as the arguments say. False if an object differs from the acknowledged state.
pub(crate) fn kills(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let account = match arguments.services.service {
        ServiceKind::Pht => all_lives::<TableElement>(arguments)?,
        ServiceKind::Ups => all_lives::<Url>(arguments)?,
        ServiceKind::His => all_lives::<Host>(arguments)?,
    };
    let service = name_of(arguments.services.service);
    let counts = [
        ("kills", f64::from(account.kills)),
        ("recoveries killed", f64::from(account.recoveries)),
        ("recoveries killed before they served", f64::from(account.midway)),
        ("acknowledged operations", account.acknowledged as f64),
        ("operations under way at a kill", account.unacknowledged as f64),
        ("acknowledged and lost", account.lost as f64),
        ("twice, out of order or by half", account.wrong as f64),
    ];
    let row = |(name, count)| Row::new(&service, Place::Bar(service.clone()), (name, "1"), vec![count]);
    let rows = counts.into_iter().map(row).collect();
    let level = name_of(durability(&arguments.services)?);
    let title = format!("{service} killed under load, {level}, {} loops", arguments.services.loops);
    let mut said: String = account.told.iter().map(|told| format!("  {told}\n")).collect();
    let is_clean = account.is_clean();
    said += &format!(
        "  {} operations acknowledged, {} lost, {} twice or out of order: {}\n",
        grouped(account.acknowledged as f64),
        account.lost,
        account.wrong,
        if is_clean { "clean" } else { "NOT CLEAN" }
    );
    let figure = Figure { name: "kills", title, drawn: ("kills", "1"), rows, ..Figure::default() };
    Ok((figure, is_clean, said))
}

/// Durability of the service's replies.
fn durability(services: &ServicesArguments) -> Result<ReplyDurability> {
    match services.durability.unwrap_or(ReplyDurability::Strict) {
        ReplyDurability::Relaxed => {
            let told =
                "kills: what a relaxed service replies may be lost; strict and process are to be shown";
            Err(Failure::Usage(told.to_owned()))
        }
        kept => Ok(kept),
    }
}

fn options(services: &ServicesArguments) -> Result<Vec<String>> {
    let pairs = [
        ("--durability", name_of(durability(services)?)),
        ("--epoch-ms", "5".to_owned()),
        ("--checkpoint-ms", services.checkpoint_ms.to_string()),
        ("--loops", services.loops.to_string()),
    ];
    Ok(pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect())
}

/// Consecutive lives in one folder.
fn all_lives<E: Exercised>(arguments: &SlachArguments) -> Result<Account> {
    let services = &arguments.services;
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let mut random = Random::from_seed(arguments.seed);
    let mut progress = Progress::new(services.kills as usize);
    let mut clients: Vec<Worker<E>> = (0..services.clients).map(Worker::new).collect();
    let (mut account, mut recovery_seconds) = (Account::default(), 0.0);
    let clock = Clock::machine();
    for kill in 0..=services.kills {
        progress.update(&format!("kill {kill} of {}", services.kills));
        if kill > 0 {
            for _ in 0..services.kill_in_recovery {
                let seconds = random.unit() * OF_A_RECOVERY * recovery_seconds;
                recover_and_die(services, &folder, seconds, &mut account)?;
            }
        }
        let begun = clock.nanos();
        let mut process = ServiceProcess::start(services.service, &folder, &options(services)?)?;
        let address = process.address()?;
        recovery_seconds = (clock.nanos() - begun) as f64 / 1e9;
        look_at_all(address, &mut clients, &mut account)?;
        if kill == services.kills || !account.is_clean() {
            break;
        }
        live_and_die(process, address, (services.life_ms, &mut random), &mut clients, &mut account)?;
        account.kills += 1;
    }
    progress.clear();
    // After a mistake the folder stays for an inspection.
    if account.is_clean() {
        std::fs::remove_dir_all(&folder).map_err(Failure::io(format!("removing {}", folder.display())))?;
    }
    Ok(account)
}

/// Starts a recovering process, and kills the process after `seconds`.
fn recover_and_die(
    services: &ServicesArguments,
    folder: &Path,
    seconds: f64,
    account: &mut Account,
) -> Result<()> {
    let mut process = ServiceProcess::start(services.service, folder, &options(services)?)?;
    sleep(Duration::from_secs_f64(seconds));
    process.process.kill().map_err(Failure::io("killing a service"))?;
    account.recoveries += 1;
    account.midway += u32::from(process.address().is_err());
    Ok(())
}

/// Compares each object with the permitted states.
fn look_at_all<E: Exercised>(
    address: SocketAddr,
    clients: &mut [Worker<E>],
    account: &mut Account,
) -> Result<()> {
    let failed = |error: ClientError| Failure::Usage(format!("looking at objects: {error}"));
    let mut client = RespClient::connect(address).map_err(failed)?;
    let all = clients.iter().flat_map(|client| &client.objects);
    all.for_each(|object| client.request(&E::look(object.name())));
    for object in clients.iter_mut().flat_map(|client| &mut client.objects) {
        let found = client.receive(in_words).map_err(failed)?;
        if let Err(mistake) = object.find(&found) {
            account.add(mistake);
        }
    }
    Ok(())
}

/// Lets clients work, kills the process at a random moment, and counts the acknowledged operations.
fn live_and_die<E: Exercised>(
    process: ServiceProcess,
    address: SocketAddr,
    (life_ms, random): (u64, &mut Random),
    clients: &mut [Worker<E>],
    account: &mut Account,
) -> Result<()> {
    let (acknowledged, mistakes) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let seed = random.next_u64();
    let life = Duration::from_secs_f64(random.unit() * life_ms as f64 / 1e3);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(clients.iter_mut())
            .map(|(number, client)| {
                let (acknowledged, mistakes) = (&acknowledged, &mistakes);
                scope.spawn(move || work(address, client, seed ^ number, acknowledged, mistakes))
            })
            .collect();
        // Relaxed: a figure, and the life begins with the first acknowledgement.
        while acknowledged.load(Ordering::Relaxed) == 0 && threads.iter().any(|thread| !thread.is_finished())
        {
            sleep(Duration::from_micros(200));
        }
        sleep(life);
        let killed = process.kill();
        for thread in threads {
            let joined = thread.join();
            joined.map_err(|panic| Failure::Panic(panic_message(panic.as_ref())))?;
        }
        killed
    })?;
    // Relaxed: the threads are joined.
    account.acknowledged += acknowledged.load(Ordering::Relaxed);
    let under_way = clients.iter().flat_map(|client| &client.objects).map(Tracked::under_way);
    account.unacknowledged += under_way.sum::<u64>();
    mistakes.into_inner().into_iter().for_each(|mistake| account.add(mistake));
    Ok(())
}

/// A client: sends operations and compares their replies until the connection breaks.
fn work<E: Exercised>(
    address: SocketAddr,
    Worker { objects, sequence }: &mut Worker<E>,
    seed: u64,
    acknowledged: &AtomicU64,
    mistakes: &Mutex<Vec<Mistake>>,
) {
    let mut random = Random::from_seed(seed);
    let Ok(mut client) = RespClient::connect(address) else { return };
    loop {
        let mut under_way = VecDeque::new();
        for _ in 0..PIPELINED {
            let at = random.next_below(objects.len() as u64) as usize;
            let object = &mut objects[at];
            *sequence += 1;
            let (request, expected) = object.operate(*sequence, &mut random);
            client.request(&request);
            under_way.push_back((at, expected));
        }
        while let Some((at, expected)) = under_way.pop_front() {
            let Ok(said) = client.receive(in_words) else { return };
            if said != expected {
                let text = format!("{}: {said} was replied, {expected} was to be", objects[at].name());
                mistakes.lock().push(Mistake::Wrong(text));
                return;
            }
            objects[at].acknowledge();
            // Relaxed: a figure.
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
}
