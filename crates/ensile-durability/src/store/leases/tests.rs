//! When a removal waits for a lease, and which names a lease compares.

use ensile_base::Epoch;
use ensile_disk::FolderId;
use ensile_sim::SimDisk;

use super::*;
use crate::files::block::FORMAT;
use crate::files::manifest::Making;
use crate::files::manifest::generation::Generation;
use crate::identity::Identity;
use crate::recoverable::EntryKind;

const LIMIT: u64 = Duration::from_secs(LEASE_SECONDS_MAX).as_nanos() as u64;

/// What comes of asking at this time; then how often removals were put off, and overran a lease.
fn asked(leases: &Leases, disk: &SimDisk, now: u64) -> (&'static str, u64, u64) {
    let answer = match leases.ask(disk, now).expect("is asked") {
        None => "wait",
        Some(Clearance::Free { .. }) => "free",
        Some(Clearance::Overrun) => "overrun",
    };
    (answer, leases.put_off.read(), leases.overrun.read())
}

#[test]
fn i3_each_removal_waits_for_the_whole_limit_of_a_lease_that_begins_behind_it_too() {
    let disk = SimDisk::new();
    let (leases, _lease) = (Leases::default(), disk.mounted().lock(LEASES).expect("is free"));
    for round in 0..3 {
        let from = 7 + round * 2 * LIMIT;
        assert_eq!(asked(&leases, &disk, from), ("wait", round + 1, round));
        assert_eq!(asked(&leases, &disk, from + 1), ("wait", round + 1, round));
        assert_eq!(asked(&leases, &disk, from + LIMIT - 1), ("wait", round + 1, round));
        assert_eq!(asked(&leases, &disk, from + LIMIT), ("overrun", round + 1, round + 1));
    }
    let disk = SimDisk::new();
    let leases = Leases::default();
    let first = disk.mounted().lock(LEASES).expect("is free");
    assert_eq!(asked(&leases, &disk, 0), ("wait", 1, 0));
    drop(first);
    assert_eq!(asked(&leases, &disk, LIMIT), ("free", 1, 0));
    let _second = disk.mounted().lock(LEASES).expect("the removal has given it back");
    assert_eq!(asked(&leases, &disk, LIMIT), ("wait", 2, 0));
    assert_eq!(asked(&leases, &disk, 2 * LIMIT - 1), ("wait", 2, 0));
    assert_eq!(asked(&leases, &disk, 2 * LIMIT), ("overrun", 2, 1));
}

#[test]
fn a_log_file_has_its_name_before_and_behind_its_close_and_no_other_one() {
    let closed = without_end("log1/log-3-12-to-77");
    assert_eq!(closed, without_end("log1/log-3-12"));
    for other in [
        "log1/log-3-1",
        "log1/log-3-13",
        "log1/log-3-120-to-77",
        "log1/log-31-2",
        "log11/log-3-12",
        "log1/log-3-12-merged",
    ] {
        assert_ne!(closed, without_end(other), "{other}");
    }
}

/// Of a database with one log.
fn manifest() -> Manifest {
    let number = FolderId { inode: 2, born_nanos: None };
    let mut manifest = Manifest::new(Identity::draw(), number);
    manifest.folders.insert("log1".to_owned(), number);
    let generation = Generation {
        number: 3,
        first: Epoch::new(5),
        format: FORMAT,
        entries: EntryKind::Values,
        logs: 2,
        salt: crate::samples::salt("1a2b3c4d"),
        database: manifest.identity,
        durable: None,
        spans: Vec::new(),
    };
    let reserved = Epoch::new(5000);
    Manifest { state: Making::Created, reserved, generations: vec![generation], ..manifest }
}

/// The folder of this manifest, whose log has these files.
fn folder(manifest: &Manifest, logs: &[&str]) -> SimDisk {
    let disk = SimDisk::new();
    disk.create_folder("log1").expect("is made");
    disk.put("MANIFEST", manifest.to_string().into_bytes());
    logs.iter().for_each(|name| disk.put(&format!("log1/{name}"), vec![1; 128]));
    disk
}

#[test]
fn a_lease_begins_anew_if_the_manifest_or_a_name_has_changed_since_files_were_opened() {
    let before = manifest();
    let names = ["log-3-1-to-77", "log-3-2"];
    let disk = folder(&before, &names);
    let files = open_all(&disk, &before).expect("opens");
    let settled = |disk: &SimDisk| is_settled(disk, &before, &files).expect("is looked at");
    assert!(settled(&disk));
    let later = Manifest { reserved: Epoch::new(5001), ..before.clone() };
    assert!(!settled(&folder(&later, &names)), "more epochs were reserved");
    for logs in [
        &["log-3-1-to-77", "log-3-2-to-80"][..],
        &["log-3-1-to-77", "log-3-2", "log-3-3"],
        &["log-3-2"],
        &["log-3-1-to-78", "log-3-2"],
        &["log-3-1", "log-3-2"],
    ] {
        assert!(!settled(&folder(&before, logs)), "{logs:?}");
    }
}
