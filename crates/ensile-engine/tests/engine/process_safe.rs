//! Lives of a database at the process-safe level, whose process dies at any stored word and any call of the disk, and
//! whose power fails: behind the first everything is there that was returned, behind the second what D covers.

use ensile_sim::environment;

use crate::prelude::*;

const LIVES: u64 = 6;
const KEYS: u64 = 10;

type Rows = BTreeMap<u64, Vec<u8>>;
/// Keys, and what the transaction left there.
type Changes = Vec<(u64, Option<Vec<u8>>)>;

struct Life {
    db: Database,
    table: Table<u64, Vec<u8>>,
    clock: Clock,
}

fn builder(disk: &SimDisk, clock: &Clock) -> Builder {
    let builder = Database::builder("/").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
    builder.without_threads().durability(Durability::Process)
}

impl Life {
    fn open(disk: &SimDisk) -> Result<Self> {
        let clock = Clock::manual();
        let db = builder(disk, &clock).open()?;
        let table = db.table("rows")?;
        Ok(Self { db, table, clock })
    }

    fn rows(&self) -> Rows {
        self.db.begin().range(&self.table, ..).collect::<Result<_>>().expect("reads")
    }

    fn tick(&self) {
        self.clock.advance(Duration::from_millis(40));
        self.db.heartbeat_step();
    }

    /// Some transaction; its epoch if it committed.
    fn change(&self, random: &mut Random) -> (Changes, Option<Epoch>) {
        let keys = random.next_between(1, 4);
        let mut changes = Changes::new();
        for _ in 0..keys {
            let value = vec![random.next_u64() as u8; random.next_below(60) as usize];
            changes.push((random.next_below(KEYS), random.percent(75).then_some(value)));
        }
        let submitted = self.db.submit(|tx| {
            changes.iter().try_for_each(|(key, value)| match value {
                Some(value) => tx.put(&self.table, key, value.as_slice()),
                None => tx.delete(&self.table, key).map(drop),
            })
        });
        (changes, submitted.ok().map(|((), receipt)| receipt.epoch()))
    }
}

fn apply(rows: &mut Rows, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(rows.insert(*key, value.clone())),
            None => drop(rows.remove(key)),
        }
    }
}

fn run(seed: u64, figures: &mut [u64; 3]) {
    let mut random = Random::from_seed(seed);
    let (disk, mut expected) = (SimDisk::new(), Rows::new());
    let mut last: (Vec<(Changes, Epoch)>, Option<Changes>) = (Vec::new(), None);
    let mut is_killed = false;
    for number in 0..=LIVES {
        let life = Life::open(&disk).unwrap_or_else(|error| panic!("seed {seed}, life {number}: {error}"));
        let report = life.db.recovery_report().expect("it has a folder");
        let durable = if is_killed { Epoch::MAX } else { report.durable_epoch };
        let counts = last.0.drain(..).filter(|(_, epoch)| *epoch <= durable);
        counts.for_each(|(changes, _)| apply(&mut expected, &changes));
        let found = life.rows();
        if let Some(changes) = last.1.take().filter(|_| is_killed && found != expected) {
            apply(&mut expected, &changes);
            figures[1] += 1;
        }
        assert_eq!(found, expected, "seed {seed}, life {number}, killed: {is_killed}");
        figures[0] += report.taken_entries;
        match random.next_below(4) {
            0 => disk.die_at_word(random.next_between(1, 1500)),
            1 => disk.die_before(disk.calls().all + random.next_between(1, 40)),
            2 => disk.cut_power_at(disk.calls().all + random.next_between(1, 40)),
            _ => {}
        }
        for _ in 0..random.next_between(5, 150) {
            match random.next_below(10) {
                0..6 => {
                    let (changes, committed) = life.change(&mut random);
                    match committed {
                        Some(epoch) if !disk.is_without_power() => last.0.push((changes, epoch)),
                        _ => last.1 = Some(changes),
                    }
                }
                6..8 => life.tick(),
                _ => drop(life.db.logger_step(0)),
            }
            if disk.is_without_power() {
                break;
            }
        }
        is_killed = random.percent(70);
        figures[2] += u64::from(is_killed);
        disk.heal();
        if is_killed {
            disk.kill()
        } else {
            disk.crash(random.next_u64())
        }
        drop(life);
    }
}

#[test]
fn what_was_returned_survives_the_process_and_what_is_durable_the_machine() {
    let databases = environment::count("ENSILE_SEEDS", 40);
    let mut figures = [0; 3];
    (0..databases).for_each(|seed| run(seed, &mut figures));
    let [taken, in_flight, killed] = figures;
    assert!(taken > 4 * databases && killed > 2 * databases, "{taken} taken, {killed} killed, {in_flight}");
}

#[test]
fn a_transaction_that_asks_for_it_elsewhere_is_strict_and_without_a_log_it_is_refused() -> Result<()> {
    let disk = SimDisk::new();
    let db = Database::builder("/").disk(Arc::new(disk.clone())).durability(Durability::Relaxed).open()?;
    let table = db.table::<u64, u64>("rows")?;
    db.run(|tx| {
        tx.set_durability(Durability::Process);
        tx.put(&table, &1, &1)
    })?;
    disk.kill();
    drop(db);
    let db = Database::builder("/").disk(Arc::new(disk.mounted())).open()?;
    let table = db.table::<u64, u64>("rows")?;
    assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(1), "it was durable");
    db.close()?;
    let refused = Database::builder("/").disk(Arc::new(disk.mounted())).durability(Durability::Process);
    let refused = refused.without_log().open();
    assert!(matches!(&refused, Err(Error::Misuse(why)) if why.contains("survives the process")));
    Ok(())
}
