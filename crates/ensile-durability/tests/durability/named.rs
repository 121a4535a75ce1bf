//! The name of an application (I5): who opens a folder that has one, and that everything keeps it which makes a folder
//! or a manifest.
//!
//! What is shipped keeps it too: see `shipping`.

use crate::prelude::*;

const OWN: &str = "prices, partition 0 of 4";
const OTHER: &str = "prices, partition 1 of 4";

fn name(text: &str) -> ApplicationName {
    application_name(text).expect("a name")
}

fn of(text: &str) -> LogConfig {
    LogConfig { naming: Naming::Named(name(text)), segment_bytes: 4096, ..config(1) }
}

fn nameless() -> LogConfig {
    LogConfig { naming: Naming::Nameless, ..config(1) }
}

fn open(disk: &SimDisk, config: LogConfig) -> Result<Rig, DurabilityError> {
    Rig::open(Arc::new(disk.mounted()), config, Clock::manual())
}

/// What the manifest says.
fn named(disk: &SimDisk) -> Option<String> {
    let text = String::from_utf8(disk.bytes("MANIFEST")).expect("text");
    let named = text.lines().find_map(|line| line.strip_prefix("application ")).map(str::to_owned);
    let has_names =
        ["ensile manifest 5\n", "ensile manifest 6\n"].iter().any(|title| text.starts_with(title));
    assert!(named.is_none() || has_names, "{text}");
    named
}

fn contents(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    disk.files().into_iter().map(|file| (file.clone(), disk.bytes(&file))).collect()
}

/// A life that commits and closes, or is killed.
fn live(disk: &SimDisk, config: LogConfig, key: u64) {
    let rig = open(disk, config).expect("opens");
    rig.commit_epoch(&mut rig.worker(), key, b"value");
    rig.log.close().expect("closes");
}

#[test]
fn i5_a_folder_with_a_name_is_opened_for_that_name_alone_and_nothing_is_changed_else() {
    let disk = SimDisk::new();
    live(&disk, of(OWN), 1);
    assert_eq!(named(&disk).as_deref(), Some(OWN));
    let before = contents(&disk);
    for (config, with) in [(of(OTHER), format!("for {OTHER:?}")), (nameless(), "without a name".to_owned())] {
        let refused = open(&disk, config).map(drop).expect_err("is another one's");
        assert!(matches!(&refused, DurabilityError::OtherApplication { found, .. } if &**found == OWN));
        let said = refused.to_string();
        assert!(said.contains(&format!("is the folder of {OWN:?}, and was opened {with}:")), "{said}");
        assert!(said.contains("open it with that name") && said.contains("`ensile objects name`"), "{said}");
        assert_eq!(contents(&disk), before, "nothing was changed");
    }
    live(&disk, of(OWN), 2);
    let rig = open(&disk, LogConfig::default()).expect("where it is not asked it opens");
    assert_eq!(rig.rows.len(), 2);
    drop(rig);
    assert_eq!(named(&disk).as_deref(), Some(OWN), "and stays");
}

#[test]
fn i5_a_folder_without_a_name_gets_the_one_that_it_is_opened_for() {
    let disk = SimDisk::new();
    live(&disk, nameless(), 1);
    assert_eq!(named(&disk), None);
    live(&disk, nameless(), 2);
    assert_eq!(named(&disk), None, "none was given");
    let rig = open(&disk, of(OWN)).expect("opens");
    let given = rig.report.name_given.as_ref().expect("is told").to_string();
    assert!(given.contains(&format!("had no name, and is the folder of {OWN:?} from now on")), "{given}");
    drop(rig);
    assert_eq!(named(&disk).as_deref(), Some(OWN));
    assert!(open(&disk, nameless()).is_err());
    let again = open(&disk, of(OWN)).expect("is its own");
    assert_eq!(again.report.name_given, None, "it had it");
    drop(again);
    let new = open(&SimDisk::new(), of(OWN)).expect("is new");
    assert_eq!(new.report.name_given, None, "nobody else's can be in a new one");
    // The folder of a life without a name that was killed.
    let disk = SimDisk::new();
    drop(open(&disk, nameless()).expect("opens"));
    disk.kill();
    live(&disk, of(OWN), 1);
    assert_eq!(named(&disk).as_deref(), Some(OWN));
}

#[test]
fn i5_a_crash_of_the_first_open_leaves_a_folder_for_any_name_or_for_this_one() {
    let calls = {
        let disk = SimDisk::new();
        drop(open(&disk, of(OWN)).expect("opens"));
        disk.calls().all
    };
    let mut named_at_last = false;
    for call in 1..=calls {
        let disk = SimDisk::new();
        disk.cut_power_at(call);
        let _ = open(&disk, of(OWN)).map(drop);
        disk.crash(call);
        disk.heal();
        let is_named = disk.files().iter().any(|file| file == "MANIFEST") && named(&disk).is_some();
        named_at_last |= is_named;
        assert_eq!(open(&disk, of(OTHER)).is_err(), is_named, "call {call}");
        if is_named {
            drop(open(&disk, of(OWN)).expect("it is its own"));
        }
    }
    assert!(named_at_last, "some crash comes behind the manifest that names it");
}

#[test]
fn i5_more_reserved_epochs_and_checkpoints_keep_the_name() {
    let disk = SimDisk::new();
    // As few are reserved as there may be.
    let rig = open(&disk, LogConfig { epoch_interval: Duration::from_secs(3600), ..of(OWN) }).expect("opens");
    let before = disk.bytes("MANIFEST");
    while disk.bytes("MANIFEST") == before {
        (0..10_000).for_each(|_| assert!(rig.advance(), "more are reserved before they end"));
        rig.log.reserved_epochs_step();
    }
    assert_eq!(named(&disk).as_deref(), Some(OWN));
    for settings in [settings(), pictures()] {
        let disk = SimDisk::new();
        let life = Life::open_with(&disk, of(OWN), settings).expect("opens");
        let mut worker = life.rig.worker();
        life.commit_epochs(&mut worker, 0..20, &[1; 500]);
        life.checkpoint().expect("is installed");
        assert_eq!(named(&disk).as_deref(), Some(OWN));
    }
}

#[test]
fn i5_an_adopted_copy_and_a_repaired_folder_keep_the_name_and_neither_asks_for_one() {
    let (machine, disk) = machine_with_original();
    live(&disk, of(OWN), 1);
    live(&disk, of(OWN), 2);
    machine.copy_tree("original", "copy");
    let copy = machine.at("copy");
    adopt(&on(&copy)).expect("is adopted");
    assert_eq!(named(&copy).as_deref(), Some(OWN));
    assert!(open(&copy, of(OTHER)).is_err());
    drop(open(&copy, of(OWN)).expect("is its own"));

    let log = disk.files().into_iter().rfind(|file| file.contains("log0/log-2")).expect("a log");
    disk.flip(&log, disk.bytes(&log).len() as u64 / 2, 4);
    let found = examine(&on(&disk), &Map::default()).expect("is read");
    assert_eq!((found.application.as_deref(), found.is_whole()), (Some(OWN), false));
    repair(&on(&disk), &Map::default()).expect("is cut").expect("it was damaged");
    assert_eq!(named(&disk).as_deref(), Some(OWN));
    assert!(open(&disk, nameless()).is_err());
    drop(open(&disk, of(OWN)).expect("is its own"));
}

/// A state that understands nothing.
struct OtherProgram;

impl Recoverable for OtherProgram {
    fn replay(&self, _: &[Entry<'_>]) -> Result<(), Refused> {
        Err(Refused { entry: 0, detail: "it is of a kind that this program does not know".to_owned() })
    }

    fn load(&self, _: u32, _: &[Entry<'_>]) -> Result<(), Refused> {
        Err(Refused { entry: 0, detail: "it is of a kind that this program does not know".to_owned() })
    }
}

#[test]
fn i5_a_folder_gets_no_name_from_a_program_that_does_not_understand_what_is_in_it() {
    for has_checkpoint in [false, true] {
        let disk = SimDisk::new();
        let life = Life::open_with(&disk, nameless(), settings()).expect("opens");
        life.commit_epoch(&mut life.rig.worker(), 1, Some(b"value"));
        if has_checkpoint {
            life.checkpoint().expect("is installed");
        }
        drop(life);
        let refused = recover(on(&disk), of(OTHER), &OtherProgram).map(drop).expect_err("is another one's");
        assert!(matches!(refused, DurabilityError::Replay { .. }), "{refused}");
        assert_eq!(named(&disk), None, "it has none still");
        disk.kill();
        drop(Life::open_with(&disk, of(OWN), settings()).expect("is for any name still"));
        assert_eq!(named(&disk).as_deref(), Some(OWN));
    }
}

/// All steps of a copy.
fn run(mut copy: CopyRun) {
    while !matches!(copy.step_at(&Framing, 0).expect("goes on"), CopyStep::Ended(_)) {}
}

#[test]
fn i5_a_backup_and_what_is_restored_from_it_keep_the_name() {
    for settings in [settings(), pictures()] {
        let disk = SimDisk::new();
        let life = Life::open_with(&disk.at("data"), of(OWN), settings).expect("opens");
        let mut worker = life.rig.worker();
        life.commit_epochs(&mut worker, 0..20, &[1; 500]);
        life.checkpoint().expect("is installed");
        let at = |folder: &str| on(&disk.at(folder));
        for _ in 0..2 {
            run(backup(&at("data"), &at("backup"), CopyOptions::default()).expect("begins"));
            assert_eq!(named(&disk.at("backup")).as_deref(), Some(OWN));
        }
        run(restore(&at("backup"), &at("restored"), None, None).expect("begins"));
        for folder in ["backup", "restored"] {
            assert_eq!(named(&disk.at(folder)).as_deref(), Some(OWN));
            assert!(open(&disk.at(folder), of(OTHER)).is_err());
        }
    }
}

#[test]
fn i5_a_folder_that_nobody_has_open_gets_another_name_or_none() {
    let (machine, disk) = machine_with_original();
    live(&disk, of(OWN), 1);
    let rename = |to: Option<&str>| rename_application(&on(&disk), EntryKind::Values, to.map(name));
    let rig = open(&disk, of(OWN)).expect("opens");
    assert!(matches!(rename(Some(OTHER)), Err(DurabilityError::InUse { .. })));
    rig.log.close().expect("closes");
    drop(rig);
    let refused = rename_application(&on(&disk), EntryKind::Operations, None);
    assert!(matches!(refused, Err(DurabilityError::OtherEntries { .. })));
    assert_eq!(named(&disk).as_deref(), Some(OWN));
    let renamed = rename(Some(OTHER)).expect("is renamed");
    assert_eq!((renamed.before, renamed.is_to_be_shipped), (Some(name(OWN)), false), "it ships nowhere");
    live(&disk, of(OTHER), 2);
    assert!(open(&disk, of(OWN)).is_err());
    assert_eq!(rename(None).expect("has none").before, Some(name(OTHER)));
    assert_eq!(rename(None).expect("as before").before, None);
    live(&disk, nameless(), 3);
    assert_eq!(open(&disk, nameless()).expect("opens").rows.len(), 3);
    // A copy is adopted first; where there is nothing, there is nothing to name.
    machine.copy_tree("original", "copy");
    let copied = rename_application(&on(&machine.at("copy")), EntryKind::Values, Some(name(OWN)));
    assert!(matches!(copied, Err(DurabilityError::Copied { .. })), "{copied:?}");
    let none = rename_application(&on(&SimDisk::new()), EntryKind::Values, Some(name(OWN)));
    assert!(matches!(none, Err(DurabilityError::NoDatabase { .. })), "{none:?}");
}
