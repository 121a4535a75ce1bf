//! Power cuts, and deaths of the process, under each service at any call of the disk and any stored word, in recoveries
//! too: what was replied is there, once and in order. Increments would show if they were made twice; elements are made
//! and removed as well.
//!
//! Long runs: `ENSILE_POWER_CUTS=10000 ENSILE_PROCESS_DEATHS=10000 cargo test -p ensile-services --test services
//! power_cuts -- --nocapture`; the numbers are of all three services together.

use std::collections::VecDeque;

use ensile_base::random::Random;
use ensile_net::simulation::ClientId;
use ensile_objects::ObjectDurability;
use ensile_resp::{ReplyDecoder, ReplyLimits, encode_request};
use ensile_services::client::in_words;
use ensile_services::his::HostService;
use ensile_services::partition::Partition;
use ensile_services::pht::PersistentTable;
use ensile_services::server::LIMITS;
use ensile_services::service::Service;
use ensile_services::ups::UrlService;
use ensile_services::workload_model::{Exercised, Host, Mistake, TableElement, Tracked, Url};
use ensile_sim::SimDisk;
use ensile_sim::environment::count;

use crate::rig::{Open, Rig};

/// Lives on one disk, each of which ends unforeseen.
const LIVES: u64 = 6;
const CLIENTS: usize = 4;
/// Objects of each client.
const OBJECTS: u64 = 3;
/// Operations that a client sends at once, at most.
const PIPELINED: u64 = 6;

/// What all of it came to.
#[derive(Debug, Default)]
struct Account {
    ends: u64,
    /// Of these, in the midst of a recovery.
    in_recovery: u64,
    acknowledged: u64,
    under_way: u64,
}

/// A client, the operations that it has sent, and how many bytes of replies it has looked at.
struct Worker<E> {
    objects: Vec<Tracked<E>>,
    client: Option<ClientId>,
    /// The object and the reply of each operation without one.
    sent: VecDeque<(usize, String)>,
    taken: usize,
}

impl<E: Exercised> Worker<E> {
    fn new(client: usize) -> Self {
        let objects = (0..OBJECTS).map(|number| Tracked::new(format!("object-{client}-{number}"))).collect();
        Self { objects, client: None, sent: VecDeque::new(), taken: 0 }
    }

    fn begin<S: Service>(&mut self, rig: &mut Rig<S>) {
        (self.client, self.taken) = (Some(rig.connect()), 0);
        self.sent.clear();
    }

    fn send<S: Service>(&mut self, rig: &mut Rig<S>, sequence: &mut u64, random: &mut Random) {
        let Some(client) = self.client else { return };
        let mut bytes = Vec::new();
        for _ in 0..random.next_between(1, PIPELINED) {
            *sequence += 1;
            let at = random.next_below(OBJECTS) as usize;
            let (request, expected) = self.objects[at].operate(*sequence, random);
            encode_request(&mut bytes, &request);
            self.sent.push_back((at, expected));
        }
        rig.clients().send(client, &bytes);
    }

    /// Takes in what was replied; how many operations that acknowledges.
    fn receive<S: Service>(&mut self, rig: &mut Rig<S>) -> u64 {
        let Some(client) = self.client else { return 0 };
        let mut decoder = ReplyDecoder::new(ReplyLimits::default());
        let clients = rig.clients();
        let received = clients.received_bytes(client);
        let mut acknowledged = 0;
        while let Some(reply) = decoder.decode(&received[self.taken..]).expect("it is RESP") {
            let said = in_words(reply.reply());
            self.taken += reply.consumed_bytes();
            let (at, expected) = self.sent.pop_front().expect("each operation has one reply");
            let name = self.objects[at].name();
            assert_eq!(said, expected, "{name}: twice, out of order, or refused");
            self.objects[at].acknowledge();
            acknowledged += 1;
        }
        acknowledged
    }
}

/// Lets power fail, or the process die, at some later call.
fn disturb(disk: &SimDisk, level: ObjectDurability, random: &mut Random) {
    let call = disk.calls().all + random.next_between(1, 120);
    match (level, random.next_below(4)) {
        // Between two calls: the end comes when the steps are over.
        (_, 0) => {}
        (ObjectDurability::Process, 1 | 2) => disk.die_at_word(random.next_between(1, 400)),
        (ObjectDurability::Process, _) => disk.die_before(call),
        _ => disk.cut_power_at(call),
    }
}

/// The machine loses power and starts again; or the processes die alone.
fn end(disk: &SimDisk, level: ObjectDurability, random: &mut Random, account: &mut Account) {
    match level {
        ObjectDurability::Process => disk.kill(),
        _ => disk.crash(random.next_u64()),
    }
    disk.heal();
    account.ends += 1;
}

/// Opens the service, whose recovery may be ended a few times.
fn opened<S: Service>(
    (disk, open): (&SimDisk, Open<S>),
    level: ObjectDurability,
    random: &mut Random,
    account: &mut Account,
) -> Rig<S> {
    for attempt in 0.. {
        if attempt < 2 && random.percent(30) {
            disturb(disk, level, random);
        }
        let rig = Rig::try_with(disk, random.next_u64(), open, LIMITS, level, None);
        let is_ended = disk.is_without_power();
        match rig {
            Ok(rig) if !is_ended => {
                disk.heal();
                return rig;
            }
            rig => {
                assert!(is_ended, "it does not open: {:?}", rig.err());
                account.in_recovery += 1;
                end(disk, level, random, account);
            }
        }
    }
    unreachable!("the third attempt is not disturbed")
}

/// Compares each object with what it may be.
fn look_at_all<S: Service, E: Exercised>(rig: &mut Rig<S>, workers: &mut [Worker<E>], what: &str) {
    let all = || workers.iter().flat_map(|worker| &worker.objects);
    let lines: Vec<String> = all().map(|object| E::look(object.name()).join(" ")).collect();
    let found = rig.told(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let objects = workers.iter_mut().flat_map(|worker| &mut worker.objects);
    for (object, found) in objects.zip(found) {
        match object.find(&found) {
            Ok(()) => {}
            Err(Mistake::Lost(told)) => panic!("{what}: acknowledged and lost: {told}"),
            Err(Mistake::Wrong(told)) => panic!("{what}: twice, out of order or by half: {told}"),
        }
    }
}

fn lives<S: Service, E: Exercised>(open: Open<S>, level: ObjectDurability, seed: u64, account: &mut Account) {
    let (disk, mut random) = (SimDisk::new(), Random::from_seed(seed));
    let mut workers: Vec<Worker<E>> = (0..CLIENTS).map(Worker::new).collect();
    let mut sequence = 0;
    for life in 0..=LIVES {
        let mut rig = opened((&disk, open), level, &mut random, account);
        look_at_all(&mut rig, &mut workers, &format!("{} at seed {seed}, life {life}", S::NAME));
        if life == LIVES {
            return;
        }
        workers.iter_mut().for_each(|worker| worker.begin(&mut rig));
        disturb(&disk, level, &mut random);
        'life: for _ in 0..random.next_between(1, 5) {
            if random.percent(30) {
                let asks = rig.connect();
                rig.clients().send(asks, b"BGSAVE\r\n");
            }
            workers.iter_mut().for_each(|worker| worker.send(&mut rig, &mut sequence, &mut random));
            for _ in 0..random.next_below(120) {
                rig.keeps = random.percent(80);
                rig.step();
                // What a dead process says in its last step was never heard.
                if disk.is_without_power() {
                    break 'life;
                }
                account.acknowledged +=
                    workers.iter_mut().map(|worker| worker.receive(&mut rig)).sum::<u64>();
            }
        }
        let under_way = workers.iter().flat_map(|worker| &worker.objects).map(Tracked::under_way);
        account.under_way += under_way.sum::<u64>();
        drop(rig);
        end(&disk, level, &mut random, account);
    }
}

/// So many ends of each of the three services.
fn all_services(level: ObjectDurability, ends: u64) {
    let whole: Open<UrlService> = |objects| UrlService::open(objects, Partition::WHOLE);
    let one = |name: &str, lives: &dyn Fn(u64, &mut Account)| {
        let mut account = Account::default();
        for seed in 0.. {
            if account.ends >= ends.div_ceil(3) {
                break;
            }
            lives(seed, &mut account);
        }
        println!("{name}, {level:?}: {account:?}");
        assert!(account.acknowledged > account.ends, "it was worked: {account:?}");
        assert!(account.in_recovery > 0, "recoveries were ended: {account:?}");
    };
    one("pht", &|seed, account| lives::<_, TableElement>(PersistentTable::open, level, seed, account));
    one("ups", &|seed, account| lives::<_, Url>(whole, level, seed, account));
    one("his", &|seed, account| lives::<_, Host>(HostService::open, level, seed, account));
}

#[test]
fn what_was_confirmed_is_there_after_power_cuts_once_and_in_order() {
    all_services(ObjectDurability::Strict, count("ENSILE_POWER_CUTS", 120));
}

#[test]
fn what_was_confirmed_is_there_after_deaths_of_the_process_once_and_in_order() {
    all_services(ObjectDurability::Process, count("ENSILE_PROCESS_DEATHS", 120));
}
