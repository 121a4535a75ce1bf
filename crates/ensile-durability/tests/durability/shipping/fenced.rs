//! Which machine may install the next manifest: the old one or the one that takes over, in both orders, and two that
//! take over at once.

use super::rig::*;
use crate::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn h6_the_old_machine_installs_nothing_once_another_has_taken_over() {
    let (disk, mut old) = shipped();
    let report = taken_over(&disk, "b").expect("takes over");
    let (claim, before) = (newest_manifest(&disk), old.shipper.stats());
    // It does not know yet, and goes on acknowledging; nothing of that counts as shipped.
    old.write(0..20);
    old.close_files();
    assert!(!old.ship(), "it is fenced");
    let stats = old.shipper.stats();
    let fenced = stats.fenced.expect("is told");
    assert!(fenced.contains(&report.database) && fenced.contains("term 2"), "{fenced}");
    assert_eq!((stats.shipped_epoch, stats.manifest), (before.shipped_epoch, before.manifest));
    assert!(matches!(old.shipper.check(), Err(DurabilityError::Fenced { .. })));
    assert_eq!(newest_manifest(&disk), claim);
    // By default it stops: nobody else has what it would acknowledge.
    assert!(matches!(old.life.rig.log.health(), Health::Poisoned(why) if why.contains("fenced")));
    assert_eq!(old.shipper.step(), ShipStep::Stopped);
    // Opened again it is fenced as well, and installs nothing.
    drop(old);
    let old = Machine::open_fenced(&disk, "a");
    assert!(!old.ship());
    assert!(old.shipper.stats().fenced.is_some());
    assert_eq!(newest_manifest(&disk), claim);
    // The other one goes on.
    let mut other = Machine::open(&disk, "b", 1, settings());
    other.write(0..10);
    let state = other.ship_all();
    assert_eq!(other.shipper.stats().term, 2);
    drop(other);
    let report = taken_over(&disk, "c").expect("takes over");
    assert_eq!(report.term, 3);
    assert_eq!(Machine::open(&disk, "c", 1, settings()).found(), state);
}

#[test]
fn h6_a_fenced_machine_may_go_on_locally_and_says_so() {
    let (disk, mut old) = shipped();
    let config = ShippingConfig { when_fenced: WhenFenced::GoOn, ..shipping(&old.store) };
    old.restart_shipper(config);
    assert!(old.ship());
    taken_over(&disk, "b").expect("takes over");
    old.write(0..20);
    old.close_files();
    assert!(!old.ship());
    assert!(old.shipper.stats().fenced.is_some());
    assert_eq!(old.life.rig.log.health(), Health::Running);
    assert!(old.write(0..20));
    // Its log files wait for nothing any more.
    let before = old.life.rig.log.stats().files;
    old.life.checkpoint().expect("is installed");
    old.settle_steps();
    assert!(old.life.rig.log.stats().files < before);
}

/// Opens folder `a`.
fn open(disk: &SimDisk, shipping: Shipping, opens_fenced: bool) -> Result<Life, DurabilityError> {
    let shipping = ShippingOpen { shipping, opens_fenced };
    Life::open_with(&disk.at("a"), LogConfig { shipping, ..config(1) }, settings())
}

/// A folder that remembers that it was fenced.
fn fenced_folder() -> SimDisk {
    let (disk, old) = shipped();
    taken_over(&disk, "b").expect("takes over");
    assert_eq!(old.step_after(1, 11 * SECOND), ShipStep::Stopped);
    drop(old);
    disk
}

#[test]
fn h6_a_fenced_folder_is_refused_with_and_without_shipping_until_it_is_adopted() {
    let disk = fenced_folder();
    let before = disk.files();
    for shipping in [Shipping::None, Shipping::On, Shipping::Stopped] {
        let refused = open(&disk, shipping, false).map(drop).expect_err("it is fenced");
        assert!(matches!(refused, DurabilityError::FencedFolder { .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("open_fenced") && text.contains("ensile adopt"), "{text}");
        assert_eq!(disk.files(), before, "nothing was changed");
    }
    adopt(&handle(disk.at("a").mounted())).expect("adopts");
    let life = open(&disk, Shipping::None, false).expect("it is a database of its own");
    assert_eq!((life.rig.log.health(), &life.rig.report.shared_store), (Health::Running, &None));
}

#[test]
fn h6_a_fenced_folder_that_is_opened_all_the_same_takes_no_entry() {
    let disk = fenced_folder();
    for shipping in [Shipping::None, Shipping::Stopped] {
        let life = open(&disk, shipping, true).expect("it is to be read");
        let rig = &life.rig;
        let shipper = Shipper::start_with(&rig.store, &rig.log, None).expect("nothing is shipped");
        assert!(shipper.is_none());
        assert!(matches!(rig.log.health(), Health::Poisoned(why) if why.contains("fenced")));
        assert!(matches!(&rig.report.shared_store, Some(RememberedStore { is_fenced: true, .. })));
        assert!(!life.found.is_empty(), "its rows are read");
    }
}

#[test]
fn h8_a_folder_that_ships_is_refused_without_its_store_until_its_shipping_is_stopped() {
    let disk = shipped().0;
    let refused =
        open(&disk, Shipping::None, true).map(drop).expect_err("another machine may have taken over");
    assert!(matches!(refused, DurabilityError::ShipsElsewhere { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("ship_to") && text.contains("stop_shipping"), "{text}");
    let life = open(&disk, Shipping::On, false).expect("it ships");
    assert!(matches!(&life.rig.report.shared_store, Some(RememberedStore { is_fenced: false, .. })));
    drop(life);
    for shipping in [Shipping::Stopped, Shipping::None] {
        let life = open(&disk, shipping, false).expect("it ships no more");
        assert_eq!((life.rig.log.health(), &life.rig.report.shared_store), (Health::Running, &None));
    }
}

#[test]
fn an_examination_tells_that_a_folder_ships_and_that_it_is_fenced() {
    let examined = |disk: &SimDisk| examine(&handle(disk.at("a").mounted()), &Map::default()).expect("reads");
    let disk = shipped().0;
    let found = examined(&disk);
    assert!(found.is_whole() && found.refused.is_empty(), "{:?}", found.refused);
    assert!(matches!(found.shared_store, Some(RememberedStore { is_fenced: false, .. })));
    let found = examined(&fenced_folder());
    assert!(
        found.is_whole() && found.refused.iter().any(|why| why.contains("is fenced")),
        "{:?}",
        found.refused
    );
    assert!(matches!(found.shared_store, Some(RememberedStore { is_fenced: true, .. })));
}

#[test]
fn an_idle_machine_notices_that_it_is_fenced() {
    let (disk, old) = shipped();
    taken_over(&disk, "b").expect("takes over");
    assert!(old.ship(), "it has nothing to install");
    old.life.rig.clock.advance(Duration::from_secs(11));
    assert!(!old.ship());
    assert!(old.shipper.stats().fenced.is_some());
}

/// The store takes no manifest of this machine, or gives it no answer: its offer waits, and it looks all the same.
#[test]
fn h6_a_machine_whose_manifest_waits_for_its_answer_learns_that_it_is_fenced() {
    for is_there in [false, true] {
        let (disk, mut old) = shipped();
        old.write(20..30);
        old.close_files();
        old.store.set_refuses_creations(!is_there);
        old.store.set_loses_answers(is_there);
        // Its own manifest, where it is there, is no other machine's.
        for _ in 0..40 {
            old.step_after(1, SECOND);
            let error = old.shipper.stats().last_error.unwrap_or_default();
            assert!(!error.contains("copy of the machine"), "{error}");
        }
        let waits = if is_there { "the answer was lost" } else { "it takes no manifest" };
        assert!(old.error().contains(waits), "{}", old.error());
        assert!(old.write(0..3), "it acknowledges");
        let report = taken_over(&disk, "b").expect("takes over");
        let mut last = ShipStep::Idle;
        for _ in 0..12 {
            last = old.step_after(1, SECOND);
        }
        assert_eq!(last, ShipStep::Stopped, "{}", old.error());
        assert!(old.shipper.stats().fenced.expect("is told").contains(&report.database));
        assert!(!old.write(0..1), "it acknowledges nothing any more");
    }
}

/// The old machine goes on between any two steps of the take-over: the first to install the next manifest has it.
#[test]
fn h6_in_every_order_of_the_race_one_of_the_two_goes_on() {
    let whole = {
        let disk = shipped().0;
        let mut take_over = begin(&disk, "b").expect("begins");
        let mut steps = 0;
        while take_over.step(&Framing, 0).expect("goes on") == ensile_durability::TakeOverStep::Worked {
            steps += 1;
        }
        steps
    };
    assert!(whole > 5, "{whole} steps");
    for at in 0..=whole {
        let (disk, mut old) = shipped();
        let mut take_over = begin(&disk, "b").expect("begins");
        for _ in 0..at {
            take_over.step(&Framing, 0).expect("goes on");
        }
        old.write(20..40);
        if at == whole / 2 {
            old.life.checkpoint().expect("is installed");
        }
        let state = old.ship_all();
        let shipped = old.shipper.stats();
        let report = run(take_over).unwrap_or_else(|error| panic!("step {at}: {error}"));
        assert_eq!(report.epoch, shipped.shipped_epoch, "step {at}: what was installed is there");
        old.write(0..5);
        old.close_files();
        assert!(!old.ship(), "step {at}: it is fenced");
        assert_eq!(old.shipper.stats().shipped_epoch, shipped.shipped_epoch);
        assert_eq!(Machine::open(&disk, "b", 1, settings()).found(), state, "step {at}");
    }
}

#[test]
fn h6_of_two_machines_that_take_over_one_wins() {
    let disk = shipped().0;
    let (mut one, two) = (begin(&disk, "b").expect("begins"), begin(&disk, "c").expect("begins"));
    while one.step(&Framing, 0).expect("goes on") == ensile_durability::TakeOverStep::Worked {}
    let error = run(two).expect_err("it was slower");
    assert!(matches!(error, DurabilityError::TakenOver { .. }), "{error}");
    let claims = |text: &str| text.lines().filter(|line| line.starts_with("fenced ")).count();
    assert_eq!(claims(&newest_manifest(&disk)), 1);
    drop(one);
    // Run again, it takes over from the winner, which is fenced.
    let winner = Machine::open(&disk, "b", 1, settings());
    assert!(winner.ship());
    let report = taken_over(&disk, "c").expect("takes over");
    assert_eq!(report.term, 3);
    assert_eq!(claims(&newest_manifest(&disk)), 2);
    winner.life.rig.clock.advance(Duration::from_secs(11));
    assert!(!winner.ship());
    // The loser's folder, whose claim another one took over from, is told so.
    let error = taken_over(&disk, "b").expect_err("is a database").to_string();
    assert!(error.contains("already") || error.contains("in use"), "{error}");
}

/// A machine that was away for long finds its number free again, as old manifests are removed.
#[test]
fn h2_a_claim_in_a_gap_of_the_numbers_does_not_count() {
    let (disk, mut old) = shipped();
    let mut late = begin(&disk, "b").expect("begins");
    // It has fetched everything, and sleeps before the claim.
    let steps = {
        let copy = copy_at_rest(&disk);
        let mut take_over = begin(&copy, "b").expect("begins");
        let mut steps = 0;
        while take_over.step(&Framing, 0).expect("goes on") == ensile_durability::TakeOverStep::Worked {
            steps += 1;
        }
        steps
    };
    for _ in 0..steps {
        late.step(&Framing, 0).expect("goes on");
    }
    for round in 0..4 {
        old.write(round..round + 10);
        old.ship_all();
        old.life.rig.clock.advance(Duration::from_secs(700));
        old.ship();
        old.life.rig.clock.advance(Duration::from_secs(700));
    }
    old.ship();
    let manifests = objects(&disk).iter().filter(|name| name.starts_with("manifests/")).count();
    assert_eq!(manifests, 1, "older ones are gone");
    let before = old.shipper.stats();
    let report = run(late).expect("takes over, from the newest one");
    assert_eq!((report.epoch, report.manifest), (before.shipped_epoch, before.manifest + 1));
    old.life.rig.clock.advance(Duration::from_secs(11));
    assert!(!old.ship());
}

#[test]
fn a_backup_of_a_database_that_ships_remembers_no_store() {
    let (disk, machine) = shipped();
    let at = |folder: &str| -> Arc<dyn Disk> { Arc::new(disk.at(folder).mounted()) };
    let copies = |from: &str, to: &str| match from {
        "a" => backup(&at(from), &at(to), CopyOptions::default()),
        _ => restore(&at(from), &at(to), None, None),
    };
    for (from, to) in [("a", "backup"), ("backup", "restored")] {
        let mut copy = copies(from, to).expect("begins");
        while !matches!(copy.step_at(&Framing, 0).expect("goes on"), CopyStep::Ended(_)) {}
    }
    drop(machine);
    for copy in ["backup", "restored"] {
        assert_eq!(examine(&at(copy), &Framing).expect("is read").shared_store, None, "{copy}");
    }
    Life::open(&disk.at("restored"), 1, settings()).expect("opens without a store");
}
