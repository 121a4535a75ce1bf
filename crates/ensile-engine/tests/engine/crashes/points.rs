//! Power fails, or the process dies, at every call: what is left is recovered, judged by the ledger, written to, and
//! crashed again.
//!
//! `ENSILE_CRASH_POINTS=100000 cargo test --profile release-plain -p ensile-engine --test engine crashes::points` runs
//! longer.

use ensile_disk::Disk;
use ensile_durability::{Entry, LoadedPages, Recoverable, Refused, examination};
use ensile_sim::ledger::Ledger;
use ensile_sim::{Survival, environment};

use super::driver::Driver;
use super::life::{Life, Setting};
use crate::picture_pages::{LastPicture, LoadedFirstKeys, PagesSeen};
use crate::prelude::*;

/// Lives of one database whose every call is a crash point.
const LIVES: usize = 3;
/// Beside pictures one call in this many is looked at, another one for each database: so there are more of these.
const CALLS_APART: u64 = 4;
/// At one point in this many only the process dies: what it has written is in the cache, synced or not.
const DEATHS_APART: u64 = 4;
/// Recoveries that power may fail in, one behind the other.
const INTERRUPTED_MAX: u64 = 3;

/// What became of the pages of pictures.
static PAGES: PagesSeen = PagesSeen::new();

/// Takes of a picture where its pages begin, and no row.
#[derive(Default)]
struct PagesOnly(LoadedFirstKeys);

impl Recoverable for PagesOnly {
    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load_pages(&self, pages: &LoadedPages<'_>) -> bool {
        self.0.note(pages);
        // It marks nothing.
        false
    }
}

/// Counts the pages of the installed picture, as a kill leaves it now.
fn count_pages(disk: &SimDisk, last: &mut LastPicture) {
    let disk = disk.fork();
    disk.kill();
    let (pages, disk): (_, Arc<dyn Disk>) = (PagesOnly::default(), Arc::new(disk.mounted()));
    let found = examination::examine(&disk, &pages).unwrap_or_else(|error| panic!("not whole: {error}"));
    assert!(found.is_whole(), "damaged: {:?} {:?}", found.damage, found.unread);
    if let Some(checkpoint) = &found.checkpoint {
        PAGES.count(last, checkpoint, pages.0);
    }
}

pub(crate) fn some_survival(random: &mut Random) -> Survival {
    Survival::ALL[random.next_below(Survival::ALL.len() as u64) as usize]
}

/// Compares what is there with what was promised; from here on what is not there never was. A recovery that was
/// `interrupted` may have decided about the life before it: what this one reports is of an empty life then.
pub(crate) fn judge(
    life: &Life,
    disk: &SimDisk,
    ledger: &mut Ledger,
    interrupted: bool,
) -> Result<(), String> {
    ledger.judge_first(life.first_epoch())?;
    let (mut durable, rows) = (life.recovered_to(), life.read_back()?);
    if interrupted {
        durable = ledger.judge_undecided(durable, &rows)?;
    } else {
        ledger.judge(durable, &rows)?;
    }
    ledger.recovered(disk.calls().all, durable);
    Ok(())
}

/// Checkpoints that were installed, each by what it covers, and the disk's call behind which that was known.
type Installed = Vec<(u64, Epoch)>;

/// Some steps of a life, with a look behind each checkpoint that it installs. Those are returned.
fn drive(
    life: &Life,
    disk: &SimDisk,
    ledger: &mut Ledger,
    (steps, seed): (u64, u64),
    mut look: impl FnMut(),
) -> Result<Installed, String> {
    std::thread::scope(|scope| {
        let mut driver = Driver::new(scope, life, disk, ledger, seed);
        for _ in 0..steps {
            let known = driver.installed.len();
            driver.step();
            if driver.installed.len() > known {
                look();
            }
        }
        match driver.errors.pop() {
            Some(error) if !disk.is_without_power() => Err(error.to_string()),
            _ => Ok(std::mem::take(&mut driver.installed)),
        }
    })
}

/// Recovery loads the checkpoint that was `installed` before the crash, or a newer one.
fn check_loaded(life: &Life, installed: Epoch) -> Result<(), String> {
    let loaded = life.loaded();
    if loaded < installed {
        return Err(format!(
            "a checkpoint from {installed} on was installed, and one from {loaded} on is there"
        ));
    }
    Ok(())
}

/// The disk is as a crash has left it: everything that may follow.
fn check(
    disk: &SimDisk,
    mut ledger: Ledger,
    installed: Epoch,
    setting: Setting,
    random: &mut Random,
) -> Result<(), String> {
    // The crash itself may have been in the midst of a recovery.
    let mut interrupted = true;
    for _ in 0..INTERRUPTED_MAX {
        if random.percent(60) {
            break;
        }
        // In the midst of recovery, or behind it if that is short.
        disk.cut_power_at(disk.calls().all + random.next_between(1, 40 + 8 * setting.loggers as u64));
        let life = Life::open(disk, setting);
        match &life {
            Ok(life) => {
                check_loaded(life, installed)?;
                judge(life, disk, &mut ledger, interrupted)
                    .map_err(|error| format!("recovered at once: {error}"))?;
                interrupted = false;
            }
            Err(_) if disk.is_without_power() => interrupted = true,
            Err(error) => return Err(format!("cannot be recovered: {error}")),
        }
        disk.crash_with(some_survival(random), random.next_u64());
    }
    for rounds in 0..2 {
        let loggers = if random.percent(20) { random.next_between(1, 4) as usize } else { setting.loggers };
        let life = Life::open(disk, Setting { loggers, ..setting })
            .map_err(|error| format!("cannot be recovered: {error}"))?;
        check_loaded(&life, installed)?;
        judge(&life, disk, &mut ledger, interrupted)
            .map_err(|error| format!("recovery {rounds}: {error}"))?;
        interrupted = false;
        if rounds == 0 {
            drive(&life, disk, &mut ledger, (random.next_between(0, 14), random.next_u64()), || ())?;
            disk.crash_with(some_survival(random), random.next_u64());
        } else {
            disk.kill();
        }
    }
    Ok(())
}

/// What makes results durable.
#[derive(Clone, Copy, Debug)]
enum Kept {
    /// A log, beside fuzzy checkpoints.
    Log,
    /// A log, beside pictures.
    LogAndPictures,
    /// Pictures alone.
    Pictures,
}

impl Kept {
    fn setting(self, seed: u64, random: &mut Random) -> Setting {
        let loggers = [1, 2, 4, 8][random.next_below(4) as usize];
        let (loggers, strategy) = match self {
            Self::Log => (loggers, Strategy::Fuzzy),
            Self::LogAndPictures => (loggers, Strategy::Pictures),
            Self::Pictures => (0, Strategy::Pictures),
        };
        Setting { loggers, strategy, semi_fuzzy: seed.is_multiple_of(2) }
    }
}

/// Runs the lives of one database, with a crash at every call of them. Returns how often it crashed, and how many
/// checkpoints were installed.
fn run_database(seed: u64, kept: Kept) -> (u64, usize) {
    let mut random = Random::from_seed(seed);
    let setting = kept.setting(seed, &mut random);
    let (disk, mut ledger, mut points) = (SimDisk::new(), Ledger::default(), 0);
    let (mut installed, mut last_picture) = (Installed::new(), LastPicture::default());
    for number in 0..LIVES {
        let context = format!("ENSILE_SEED={seed}, {setting:?}, life {number}");
        disk.keep_moments();
        let life = Life::open(&disk, setting).unwrap_or_else(|error| panic!("{context}: {error}"));
        judge(&life, &disk, &mut ledger, false).unwrap_or_else(|error| panic!("{context}: {error}"));
        let steps = random.next_between(10, 90);
        let look = || {
            if setting.has_pictures() {
                count_pages(&disk, &mut last_picture);
            }
        };
        let new = drive(&life, &disk, &mut ledger, (steps, random.next_u64()), look);
        installed.extend(new.unwrap_or_else(|error| panic!("{context}: {error}")));
        if random.percent(25) {
            let last = life.db.epoch();
            life.db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            ledger.promise(disk.calls().all, last, "a clean close");
        }
        let is_looked_at =
            |call: u64| !setting.has_pictures() || call % CALLS_APART == seed / 2 % CALLS_APART;
        for moment in disk.take_moments().into_iter().filter(|moment| is_looked_at(moment.number)) {
            points += 1;
            let call = moment.number;
            let before = installed.iter().rev().find(|(known, _)| *known < call);
            let before = before.map_or(Epoch::ZERO, |(_, installed)| *installed);
            let mut random = Random::from_seed(seed ^ call << 32);
            let dies = (call / CALLS_APART + seed).is_multiple_of(DEATHS_APART);
            if dies {
                moment.disk.kill();
            } else {
                moment.disk.crash_with(some_survival(&mut random), random.next_u64());
            }
            let how = if dies { "the process dies" } else { "power fails" };
            check(&moment.disk, ledger.before(call), before, setting, &mut random)
                .unwrap_or_else(|error| panic!("{context}, {how} at call {call}: {error}"));
        }
        disk.crash_with(some_survival(&mut random), random.next_u64());
    }
    (points, installed.len())
}

/// Runs databases until there were so many crashes. How many checkpoints were installed.
fn run_databases(wanted: u64, kept: Kept) -> usize {
    let (mut seed, mut points, mut installed) = (environment::number("ENSILE_SEED", 0), 0, 0);
    while points < wanted {
        let (more, new) = run_database(seed, kept);
        (points, installed) = (points + more, installed + new);
        seed += 1;
    }
    println!("{points} crash points, {installed} checkpoints installed, databases up to seed {}", seed - 1);
    installed
}

#[test]
fn power_may_fail_at_every_call() {
    run_databases(environment::count("ENSILE_CRASH_POINTS", 1_500), Kept::Log);
}

#[test]
fn power_may_fail_at_every_call_beside_pictures() {
    let wanted = environment::count("ENSILE_CRASH_POINTS", 1_500);
    let installed = run_databases(wanted, Kept::LogAndPictures);
    assert!(installed > 0, "pictures were installed");
    assert!(PAGES.least() > 0, "pages were kept, split and joined, and had tails");
}

#[test]
fn n18_power_may_fail_at_every_call_without_a_log() {
    let wanted = environment::count("ENSILE_CRASH_POINTS", 1_500);
    assert!(run_databases(wanted, Kept::Pictures) > 0, "pictures were installed");
}
