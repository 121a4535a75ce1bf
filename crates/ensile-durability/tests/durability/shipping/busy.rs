//! A machine that is alive and ships while another one takes over from it: the claim is made all the same, and what it
//! names is read before the folder is a database.

use super::rig::*;
use crate::checkpoints::ended::{check_listed, examined_at_rest};
use crate::prelude::*;

/// The steps of a take-over that nobody disturbs, without the last one.
fn quiet_steps() -> u32 {
    let disk = shipped().0;
    let mut take_over = begin(&disk, "b").expect("begins");
    let mut steps = 0;
    while take_over.step(&Framing, 0).expect("goes on") == TakeOverStep::Worked {
        steps += 1;
    }
    steps
}

/// The machine closes a file and installs a manifest, if it may; its state then.
fn goes_on(machine: &mut Machine, round: u64) -> Option<Seen> {
    machine.write(round..round + 1);
    let state = super::rig::seen(&machine.life.store.present());
    machine.close_files();
    machine.ship().then_some(state)
}

/// Steps until the store is claimed; between any two steps the old machine installs a manifest. Its state then, and how
/// many manifests it had installed since it was first asked.
fn claimed(disk: &SimDisk, old: &mut Machine, take_over: &mut TakeOver) -> (Seen, u64) {
    let mut state = super::rig::seen(&old.life.store.present());
    let before = old.shipper.stats().manifest;
    for round in 0..1000 {
        assert_eq!(take_over.step(&Framing, 0).expect("goes on"), TakeOverStep::Worked);
        if newest_manifest(disk).contains(" term 2 ") {
            return (state, old.shipper.stats().manifest - before);
        }
        state = goes_on(old, round).expect("it is not fenced");
    }
    panic!("the claim is never made");
}

/// The last steps, of which none waits for the rate.
fn rest(mut take_over: TakeOver) -> TakeOverReport {
    loop {
        match take_over.step(&Framing, 0).expect("goes on") {
            TakeOverStep::Worked => {}
            TakeOverStep::Ended(report) => return report,
            TakeOverStep::Paced(wait) => panic!("{wait:?} behind the claim"),
        }
    }
}

#[test]
fn h6_a_machine_that_installs_a_manifest_at_every_step_is_fenced_in_a_few_rounds() {
    let quiet = u64::from(quiet_steps());
    let (disk, mut old) = shipped();
    let mut take_over = begin(&disk, "b").expect("begins");
    let (state, rounds) = claimed(&disk, &mut old, &mut take_over);
    assert!(rounds < 4 * quiet, "{rounds} manifests, and {quiet} steps if nobody disturbs it");
    let shipped = old.shipper.stats().shipped_epoch;
    let report = rest(take_over);
    assert_eq!((report.epoch, report.term), (shipped, 2));
    check_listed(&examined_at_rest(&disk.at("b")));
    assert_eq!(goes_on(&mut old, 0), None, "it is fenced");
    assert_eq!(Machine::open(&disk, "b", 1, settings()).found(), state);
}

/// Each manifest comes while what the one before it had was fetched: files are never all there when it is claimed.
#[test]
fn h6_a_rate_that_is_too_low_for_what_is_written_keeps_no_claim_from_being_made() {
    let (disk, mut old) = shipped();
    let store = Reached::on(&disk) as Arc<dyn SharedStore>;
    let mut take_over = TakeOver::begin(&store, &handle(disk.at("b").mounted()), Some(1000)).expect("begins");
    let (mut now, mut state) = (0, None);
    for round in 0.. {
        assert!(round < 2000, "the claim is never made");
        match take_over.step(&Framing, now).expect("goes on") {
            TakeOverStep::Worked => {}
            // A second of the rate's bytes takes longer than a kilobyte takes to be written.
            TakeOverStep::Paced(wait) => {
                now += wait.as_nanos() as u64;
                state = Some(goes_on(&mut old, round).expect("it is not fenced"));
            }
            TakeOverStep::Ended(_) => panic!("it is read behind the claim"),
        }
        if newest_manifest(&disk).contains(" term 2 ") {
            break;
        }
    }
    let shipped = old.shipper.stats().shipped_epoch;
    assert_eq!(rest(take_over).epoch, shipped);
    assert_eq!(Some(Machine::open(&disk, "b", 1, settings()).found()), state);
}

/// The longest log file that the machine ships now, and where its middle is.
fn new_file(disk: &SimDisk, machine: &mut Machine) -> (String, u64) {
    let before = objects(disk);
    machine.write(30..34);
    goes_on(machine, 7).expect("it is not fenced");
    let is_new = |name: &String| name.contains("/log0/") && !before.contains(name);
    let new = objects(disk).into_iter().filter(is_new).map(|name| (disk.at(SHARED).bytes(&name).len(), name));
    let (bytes, name) = new.max().expect("one");
    (name, bytes as u64 / 2)
}

/// What the shipper has put since the reading began is compared with its checksums before the claim.
#[test]
fn a_file_that_is_new_and_damaged_is_named_before_the_claim() {
    let (disk, mut old) = shipped();
    let mut take_over = begin(&disk, "b").expect("begins");
    (0..quiet_steps()).for_each(|_| drop(take_over.step(&Framing, 0).expect("goes on")));
    let (new, middle) = new_file(&disk, &mut old);
    let bytes = disk.at(SHARED).bytes(&new);
    disk.at(SHARED).flip(&new, middle, 1);
    let error = run(take_over).expect_err("is damaged");
    assert!(matches!(error, DurabilityError::SharedDamaged { .. }), "{error}");
    assert!(error.to_string().contains(&new) && !error.to_string().contains("claimed"), "{error}");
    assert!(newest_manifest(&disk).contains(" term 1 "), "nothing is claimed");
    disk.at(SHARED).put(&new, bytes);
    assert!(goes_on(&mut old, 8).is_some(), "it is not fenced");
}

/// Its checksum says that it was shipped so: it is found by a reading behind the claim.
#[test]
fn h7_what_was_not_read_before_the_claim_is_read_before_the_folder_is_a_database() {
    let (disk, mut old) = shipped();
    let mut take_over = begin(&disk, "b").expect("begins");
    (0..quiet_steps()).for_each(|_| drop(take_over.step(&Framing, 0).expect("goes on")));
    let (new, middle) = new_file(&disk, &mut old);
    let (bytes, number) = (disk.at(SHARED).bytes(&new), old.shipper.stats().manifest);
    disk.at(SHARED).flip(&new, middle, 1);
    // As if its shipper had read these bytes.
    let text = newest_manifest(&disk);
    let (was, is) = (crc32c(&bytes), crc32c(&disk.at(SHARED).bytes(&new)));
    let named = |crc: u32| format!(" {new} bytes {} crc {crc:08x}", bytes.len());
    assert!(text.contains(&named(was)), "{text}");
    let text = text.replace(&named(was), &named(is));
    let body = &text[..text.rfind("crc32c ").expect("the last line")];
    let text = format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes()));
    disk.at(SHARED).put(&format!("manifests/manifest-{number}"), text.into_bytes());
    drop(old);
    // Run again, it finds its claim.
    let mut first = Some(take_over);
    for _ in 0..2 {
        let take_over = first.take().map_or_else(|| begin(&disk, "b"), Ok);
        let error = take_over.and_then(run).expect_err("is damaged");
        assert!(matches!(error, DurabilityError::SharedDamaged { .. }), "{error}");
        assert!(error.to_string().contains("the store is claimed"), "{error}");
        assert!(newest_manifest(&disk).contains(" term 2 "), "it is claimed");
        let error = Machine::try_open(&disk, "b", 1, settings()).map(drop).expect_err("is no database");
        assert!(error.to_string().contains("has not ended"), "{error}");
    }
}

/// An object of a file that is fetched behind the claim is missing.
#[test]
fn h7_what_is_missing_behind_the_claim_is_named_and_fetched_once_it_is_back() {
    let (disk, mut old) = shipped();
    let mut take_over = begin(&disk, "b").expect("begins");
    let (state, _) = claimed(&disk, &mut old, &mut take_over);
    // The newest of its log.
    let number = |name: &String| {
        name.rsplit('/').next()?.strip_prefix("log-")?.split(['-', '.']).nth(1)?.parse::<u64>().ok()
    };
    let text = newest_manifest(&disk);
    let is_named = |name: &String| text.contains(&format!(" {name} "));
    let last = objects(&disk).into_iter().filter(is_named).max_by_key(|name| number(name)).expect("one");
    let bytes = disk.at(SHARED).bytes(&last);
    disk.at(SHARED).remove(&last).expect("is there");
    let error = run(take_over).expect_err("is missing");
    assert!(matches!(error, DurabilityError::SharedDamaged { .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.contains(&last) && said.contains("missing") && said.contains("the store is claimed"),
        "{said}"
    );
    disk.at(SHARED).put(&last, bytes);
    let report = taken_over(&disk, "b").expect("goes on");
    assert_eq!(report.term, 2);
    assert_eq!(Machine::open(&disk, "b", 1, settings()).found(), state);
}

/// Puts a manifest behind the newest one, whose number this is, that says the same.
fn put_next(disk: &SimDisk, number: u64) {
    let text =
        newest_manifest(disk).replace(&format!(" number {number} "), &format!(" number {} ", number + 1));
    let body = &text[..text.rfind("crc32c ").expect("the last line")];
    let text = format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes()));
    disk.at(SHARED).put(&format!("manifests/manifest-{}", number + 1), text.into_bytes());
    disk.at(SHARED).remove(&format!("manifests/manifest-{number}")).expect("is there");
}

/// Whenever an object is not there, a newer manifest is.
#[test]
fn h6_a_shipper_that_goes_on_faster_than_it_is_followed_ends_the_take_over_before_the_claim() {
    let (disk, machine) = shipped();
    let mut number = machine.shipper.stats().manifest;
    for name in objects(&disk).into_iter().filter(|name| name.contains("/log0/")) {
        disk.at(SHARED).remove(&name).expect("is there");
    }
    let mut take_over = begin(&disk, "b").expect("begins");
    let error = (0..20_000).find_map(|_| {
        put_next(&disk, number);
        number += 1;
        take_over.step(&Framing, 0).map(|step| assert_eq!(step, TakeOverStep::Worked)).err()
    });
    let error = error.expect("it ends").to_string();
    assert!(error.contains("goes on faster than it can be followed"), "{error}");
    assert!(newest_manifest(&disk).contains(" term 1 "), "nothing is claimed");
}
