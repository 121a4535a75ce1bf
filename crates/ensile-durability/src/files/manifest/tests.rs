//! The manifest's text, its order, and its replacement as a whole.

mod backups;

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::{BootId, Disk, FolderId};
use ensile_sim::SimDisk;

use super::text_form::Unusable;
use super::*;
use crate::entry_type::{EntryType, TypeRole};
use crate::files::block::FORMAT;
use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::manifest::application::{ApplicationName, application_name};
use crate::files::manifest::archive_seal::ArchiveSeal;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::{
    CheckpointShare, CyclingCheckpoint, FuzzyCheckpoint, InstalledCheckpoint, InstalledRange, ListedPageFile,
    PartFiles, PictureCheckpoint, RangesCut,
};
use crate::files::manifest::lineage::Lineage;
use crate::files::manifest::shipping_target::ShipsTo;
use crate::files::names::{MANIFEST, PageFileName};
use crate::identity::Identity;
use crate::range::RangeStart;
use crate::samples::{self, generation, identity, other_identity, text_example};

fn main() -> FolderId {
    FolderId { inode: 131_073, born_nanos: Some(1_763_812_345_123_456_789) }
}

fn part_files(number: u64, generation: u64) -> PartFiles {
    // It was written before this copy was adopted.
    let database = other_identity();
    PartFiles { files: 4, bytes: 1_234_568, database, ..samples::part_files(number, generation) }
}

fn fuzzy(low: u64, high: u64, files: PartFiles) -> InstalledCheckpoint {
    InstalledCheckpoint::Fuzzy(FuzzyCheckpoint { low: Epoch::new(low), high: Epoch::new(high), files })
}

fn checkpoint(number: u64, generation: u64, low: u64, high: u64) -> InstalledCheckpoint {
    fuzzy(low, high, part_files(number, generation))
}

fn page_picture(number: u64, generation: u64, epoch: u64) -> PictureCheckpoint {
    let PartFiles { entries, bytes, salt, seal, database, .. } = part_files(number, generation);
    let root = ExtentPlace { extent: Extent { folder: 1, first: 5, units: 2 }, header_crc: seal };
    let names = [(0, 1), (1, 3)].map(|(folder, number)| PageFileName { folder, number });
    let files = names.map(|name| ListedPageFile { name, salt }).into();
    let (epoch, pages, next_page) = (Epoch::new(epoch), 20, 412);
    PictureCheckpoint { number, generation, epoch, entries, bytes, pages, next_page, root, database, files }
}

fn picture(number: u64, generation: u64, epoch: u64) -> InstalledCheckpoint {
    InstalledCheckpoint::Picture(page_picture(number, generation, epoch))
}

fn without_checkpoint(generations: Vec<Generation>) -> Manifest {
    let log = FolderId { inode: 131_080, born_nanos: None };
    Manifest {
        state: Making::Created,
        reserved: Epoch::new(5000),
        folders: [(".".to_owned(), main()), ("log0".to_owned(), log)].into(),
        generations,
        ..Manifest::new(identity(), main())
    }
}

fn manifest() -> Manifest {
    let generations = vec![generation(3, 61, Some(66)), generation(4, 70, None)];
    Manifest { checkpoint: Some(checkpoint(7, 3, 62, 64)), ..without_checkpoint(generations) }
}

/// The text with its checksum made anew.
fn with_checksum(text: &str) -> String {
    crate::files::text::with_checksum(&text[..text.rfind("crc32c ").expect("a checksum")])
}

#[test]
fn i2_l7_a_newer_manifest_is_told_from_a_damaged_one_and_one_that_is_made_lists_no_generation() {
    let text = manifest().to_string();
    let format = format!("format {FORMAT}");
    for (what, with) in [("manifest 3", "manifest 8"), ("manifest 3", "manifest 2"), (&format, "format 99")] {
        let changed = with_checksum(&text.replace(what, with));
        assert!(matches!(Manifest::parse(&changed), Err(Unusable::Foreign(_))), "{with}");
    }
    let unknown = with_checksum(&text.replace("state created", "state unheard-of"));
    assert_eq!(Manifest::parse(&unknown), Err(Unusable::Damaged("a line cannot be read")));
    let creating = Manifest::new(Identity::draw(), main());
    assert_eq!(Manifest::parse(&creating.to_string()), Ok(creating.clone()));
    let with_log = Manifest { state: Making::Creating, ..without_checkpoint(vec![generation(1, 1, None)]) };
    let without_log = Manifest { state: Making::Created, ..creating };
    for contradiction in [with_log, without_log] {
        assert!(Manifest::parse(&contradiction.to_string()).is_err(), "{contradiction:?}");
    }
    assert_every_change_is_seen(&manifest().to_string());
}

#[test]
fn the_documented_text_is_the_one_that_is_written() {
    let document = include_str!("../../../../../docs/internals/formats/manifest.md");
    let example = text_example(document, 1);
    assert_eq!(example, manifest().to_string());
    assert_eq!(Manifest::parse(example), Ok(manifest()));
    let other = |index| document.split("```text\n").nth(index).and_then(|rest| rest.split("\n```").next());
    assert_eq!(other(2), Some(&*picture(7, 3, 63).to_string()));
    assert_eq!(other(3), Some(&*InstalledCheckpoint::Cycling(ranges()).to_string()));
    let lines = [backups::backup_of(), backups::restored()].map(|from| from.to_string());
    assert_eq!(other(4), Some(&*lines.join("\n")));
    assert_eq!(other(5), Some(&*backups::state_of_files().to_string()));
    assert_eq!(other(6), Some(&*archived().to_string()));
    let lineage = other(7).expect("an example");
    assert_eq!(Lineage::parse(lineage).map(|lineage| lineage.to_string()).as_deref(), Some(lineage));
    let ancestors = [other_identity()].into();
    let text = Manifest { ancestors, ..manifest() }.to_string();
    assert_eq!(other(8), text.lines().find(|line| line.starts_with("ancestors ")));
    let store = other_identity();
    for is_fenced in [false, true] {
        let shipping = Manifest { ships_to: Some(ShipsTo { store, is_fenced }), ..manifest() };
        let text = shipping.to_string();
        assert_eq!(Manifest::parse(&text), Ok(shipping));
        assert_eq!(other(10) == text.lines().find(|line| line.starts_with("ships ")), !is_fenced);
    }
    let application = Manifest { application: Some(application()), ..manifest() }.to_string();
    assert_eq!(other(11), application.lines().find(|line| line.starts_with("application ")));
    let types = Manifest { types: types(), ..manifest() }.to_string();
    let types: Vec<&str> = types.lines().filter(|line| line.starts_with("type ")).collect();
    assert_eq!(other(12), Some(&*types.join("\n")));
    let unfinished = backups::unfinished().map(|copy| copy.to_string());
    assert_eq!(other(13), Some(&*unfinished.join("\n")));
}

fn application() -> ApplicationName {
    application_name("prices, partition 0 of 4").expect("a name")
}

fn types() -> Vec<EntryType> {
    vec![
        EntryType::new(TypeRole::Key, 0, "string", Some(0x6c62_272e_07bb_0142)),
        EntryType::new(TypeRole::Object, 1, "Count", Some(0x0011_2233_4455_66aa)),
        EntryType::new(TypeRole::Operation, 1, "Change", None),
    ]
}

#[test]
fn i6_types_are_read_as_they_were_written_by_a_newer_format_than_programs_without_types_read() {
    let typed = Manifest { types: types(), application: Some(application()), ..manifest() };
    let text = typed.to_string();
    // What a program that knows the format before reads: a title, and no more.
    assert!(text.starts_with("ensile manifest 7\n"), "{text}");
    assert_eq!(Manifest::parse(&text), Ok(typed));
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("type ")).collect();
    let (block, before) =
        (lines.join("\n") + "\n", Manifest { application: Some(application()), ..manifest() });
    let without = with_checksum(&text.replacen(&block, "", 1).replacen("manifest 7", "manifest 5", 1));
    assert_eq!(without, before.to_string(), "without types it has the bytes that it had");
    let early = with_checksum(&text.replacen("manifest 7", "manifest 5", 1));
    assert_eq!(Manifest::parse(&early), Err(Unusable::Damaged("its format is not that of its lines")));
    let twice = [lines[0], lines[0], lines[1], lines[2], ""].join("\n");
    let turned = [lines[1], lines[0], lines[2], ""].join("\n");
    for wrong in [twice, turned, block.replacen("object", "row", 1)] {
        assert!(Manifest::parse(&with_checksum(&text.replacen(&block, &wrong, 1))).is_err(), "{wrong}");
    }
}

#[test]
fn i5_the_name_of_an_application_is_read_as_it_was_written_and_one_that_is_none_is_damage() {
    let named = Manifest { application: Some(application()), ..manifest() };
    let text = named.to_string();
    assert_eq!(Manifest::parse(&text).as_ref(), Ok(&named));
    let older = with_checksum(&text.replacen("manifest 5", "manifest 3", 1));
    assert!(Manifest::parse(&older).is_err(), "a program that does not know it would forget it");
    let line = "application prices, partition 0 of 4\n";
    for wrong in
        ["application \n", "application  prices\n", "application prices \n", "application prix \u{e9}\n"]
    {
        assert!(Manifest::parse(&with_checksum(&text.replacen(line, wrong, 1))).is_err(), "{wrong:?}");
    }
    assert!(Manifest::parse(&with_checksum(&text.replacen(line, &line.repeat(2), 1))).is_err());
    let without = with_checksum(&text.replacen(line, "", 1).replacen("manifest 5", "manifest 3", 1));
    assert_eq!(Manifest::parse(&without), Ok(manifest()), "one of an older version has none");
}

#[test]
fn l7_a_name_is_said_by_a_newer_format_than_programs_without_names_read_and_nothing_else_changes() {
    let with_mapped = Manifest { mapped: BootId::parse("65c0e87a1aff4693b5cbaebceb453da9"), ..manifest() };
    for (nameless, format) in [(manifest(), "manifest 3"), (with_mapped, "manifest 4")] {
        let before = nameless.to_string();
        let named = Manifest { application: Some(application()), ..nameless.clone() };
        let text = named.to_string();
        // What a program that knows the format before reads: a title, and no more.
        assert!(text.starts_with("ensile manifest 5\n"), "{text}");
        let line = "application prices, partition 0 of 4\n";
        let without = with_checksum(&text.replacen(line, "", 1).replacen("manifest 5", format, 1));
        assert_eq!(without, before, "without a name it has the bytes that it had");
        let raised = with_checksum(&before.replacen(format, "manifest 5", 1));
        assert_eq!(Manifest::parse(&raised), Err(Unusable::Damaged("its format is not that of its lines")));
        // Between two releases the line stood in the format before.
        let early = with_checksum(&text.replacen("manifest 5", "manifest 4", 1));
        assert_eq!(Manifest::parse(&early), Ok(named));
    }
}

#[test]
fn i1_whose_files_were_listed_is_remembered() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let of_checkpoint = other_identity();
    let mut keeper = ManifestKeeper::begin(&disk, None).expect("writes");
    keeper.replace(manifest()).expect("writes");
    let is_ours = |manifest: &Manifest, of| manifest.check_ours("a", of).is_ok();
    assert!(is_ours(keeper.manifest(), of_checkpoint) && keeper.manifest().ancestors.is_empty());
    keeper.replace(without_checkpoint(vec![generation(4, 70, None)])).expect("writes");
    let text = keeper.manifest().to_string();
    assert!(text.contains(&format!("\nancestors {of_checkpoint}\n")), "{text}");
    assert_eq!(Manifest::parse(&text).as_ref(), Ok(keeper.manifest()));
    assert!(is_ours(keeper.manifest(), of_checkpoint));
    // A copy that is adopted, of one that was adopted.
    for _ in 0..2 {
        let before = keeper.manifest().clone();
        let own = Identity::draw();
        let generations = vec![Generation { database: own, ..generation(4, 70, None) }];
        let next = Manifest { identity: own, parent: Some(before.identity), generations, ..before };
        keeper.replace(next).expect("writes");
    }
    assert!(is_ours(keeper.manifest(), of_checkpoint) && is_ours(keeper.manifest(), identity()));
    assert!(!is_ours(keeper.manifest(), Identity::draw()));
    let with = |first: Identity, second: Identity| {
        let (one, two) = (format!("ancestors {of_checkpoint}"), format!("ancestors {first},{second}"));
        Manifest::parse(&with_checksum(&text.replacen(&one, &two, 1)))
    };
    assert!(with(of_checkpoint, identity()).is_ok());
    assert!(with(identity(), of_checkpoint).is_err(), "it has one spelling");
    assert!(with(identity(), identity()).is_err(), "each stands there once");
}

#[test]
fn n23_a_generation_that_leaves_the_list_is_remembered() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut keeper = ManifestKeeper::begin(&disk, None).expect("writes");
    keeper.replace(manifest()).expect("writes");
    assert!(keeper.manifest().to_string().starts_with("ensile manifest 3\n"), "nothing has left it");
    let all = "lineage 3:1a2b3c4d:66,4:1a2b3c4d";
    assert_eq!(keeper.manifest().lives().to_string(), all);
    // It leaves with the install of a checkpoint.
    keeper.install(checkpoint(8, 4, 71, 72)).expect("writes");
    let read = Manifest::read(&*disk).expect("reads").expect("it is there");
    assert_eq!((read.lineage.to_string(), read.lives().to_string()), (all[..21].to_owned(), all.to_owned()));
    let text = read.to_string();
    assert!(text.starts_with("ensile manifest 4\n") && text.contains("\nlineage 3:1a2b3c4d:66\n"), "{text}");
    let older = with_checksum(&text.replacen("manifest 4", "manifest 3", 1));
    assert!(Manifest::parse(&older).is_err(), "a program that does not know it would forget it");
    let with = |line: &str| Manifest::parse(&with_checksum(&text.replacen("lineage 3:1a2b3c4d:66", line, 1)));
    assert_eq!(with("lineage 3:1a2b3c4d:66").as_ref(), Ok(&read));
    assert_eq!(with("lineage 3:1a2b3c4d").map(|read| read.lives().to_string().len()), Ok(all.len() - 3));
    // Twice, behind the last one, and another than the list has.
    for wrong in [
        "lineage 3:1a2b3c4d:66\nlineage 3:1a2b3c4d:66",
        "lineage 3:1a2b3c4d:66,5:1a2b3c4d:80",
        "lineage 3:1a2b3c4d:66,4:5e6f7a8b:80",
    ] {
        assert!(with(wrong).is_err(), "{wrong}");
    }
    // The generations of a backup's folder are no lives of the database that was copied, and none leaves them.
    let of_backup = Manifest { made_from: Some(backups::backup_of()), ..read.clone() };
    assert_eq!(of_backup.lives(), read.lineage);
    assert_eq!(of_backup.lineage_with(of_backup.generations.iter()), read.lineage);
}

fn archived() -> ArchiveSeal {
    ArchiveSeal { ended: 2, crc: 0x5e6f_7a8b }
}

#[test]
fn a2_what_is_remembered_of_an_archive_is_read_and_goes_with_it() {
    let mut with = Manifest { archived: Some(archived()), ..manifest() };
    assert!(Manifest::parse(&with.to_string()).is_err(), "there is no archive");
    let archive = FolderId { inode: 131_090, born_nanos: None };
    with.folders.insert("archive".to_owned(), archive);
    let text = with.to_string();
    assert!(text.starts_with("ensile manifest 4\n"), "{text}");
    assert_eq!(Manifest::parse(&text), Ok(with.clone()));
    // One that was written before anything was remembered, and one that remembers twice.
    let line = format!("{}\n", archived());
    let without = Manifest { archived: None, ..with.clone() };
    assert_eq!(Manifest::parse(&with_checksum(&text.replace(&line, ""))), Ok(without.clone()));
    assert!(Manifest::parse(&with_checksum(&text.replace(&line, &line.repeat(2)))).is_err());
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut keeper = ManifestKeeper::begin(&disk, None).expect("writes");
    keeper.replace(without_checkpoint(without.generations.clone())).expect("writes");
    keeper.folders_mut().insert("archive".to_owned(), archive);
    keeper.remember(archived());
    keeper.install(checkpoint(7, 3, 62, 64)).expect("writes");
    let read = Manifest::read(&*disk).expect("reads").expect("it is there");
    assert_eq!(read.archived, Some(archived()), "with the next reason to replace it");
    keeper.end_archive();
    assert!(!keeper.manifest().has_archive() && keeper.manifest().archived.is_none());
}

#[test]
fn b4_a_process_safe_life_is_named_by_its_boot() {
    let boot = BootId::parse("65c0e87a-1aff-4693-b5cb-aebceb453da9").expect("a boot");
    let with = Manifest { mapped: Some(boot), ..manifest() };
    let text = with.to_string();
    assert!(text.starts_with("ensile manifest 4\n"), "{text}");
    let line = "mapped 65c0e87a1aff4693b5cbaebceb453da9\n";
    assert!(text.contains(line), "{text}");
    assert_eq!(Manifest::parse(&text), Ok(with.clone()));
    let spelled = text.replace(line, "mapped 65C0E87A1AFF4693B5CBAEBCEB453DA9\n");
    assert!(Manifest::parse(&with_checksum(&spelled)).is_err());
    assert!(Manifest::parse(&with_checksum(&text.replace(line, &line.repeat(2)))).is_err());
    let mut without_log = with;
    without_log.generations.last_mut().expect("it is open").logs = 0;
    assert!(Manifest::parse(&without_log.to_string()).is_err(), "without a log there is no buffer");
}

/// Two ranges: the second one's last turn came before the first one's.
fn ranges() -> CyclingCheckpoint {
    let range = |section, key: &[u8], number, (low, high)| InstalledRange {
        start: RangeStart { section, key: key.into() },
        walked: FuzzyCheckpoint {
            low: Epoch::new(low),
            high: Epoch::new(high),
            files: part_files(number, 3),
        },
    };
    let cut = RangesCut { wanted: 16, bytes: 2_469_136, largest: 1_234_568 };
    CyclingCheckpoint { cut, ranges: vec![range(0, b"", 9, (65, 66)), range(1, b"\0\xffm", 8, (62, 64))] }
}

#[test]
fn ranges_come_back_in_a_manifest_of_the_newest_format() {
    let with_ranges = Manifest { checkpoint: Some(InstalledCheckpoint::Cycling(ranges())), ..manifest() };
    let text = with_ranges.to_string();
    assert!(text.starts_with("ensile manifest 4\n"), "{text}");
    assert_eq!(Manifest::parse(&text), Ok(with_ranges.clone()));
    assert!(Manifest::parse(&with_checksum(&text.replace("manifest 4", "manifest 3"))).is_err());
    for (what, with) in [
        ("ranges 2 ", "ranges 3 "),
        ("ranges 2 ", "ranges 0 "),
        ("wanted 16", "wanted 1"),
        ("largest 1234568", "largest 2469137"),
        ("range 0 key - ", "range 0 key 00 "),
        ("range 0 key - ", "range 1 key 00 "),
        ("key 00ff6d", "key -"),
        ("key 00ff6d", "key 00FF6d"),
        ("key 00ff6d", "key 00ff6"),
        ("key 00ff6d", "key "),
        ("range 1 key 00ff6d", "range 0 key -"),
        ("checkpoint 9 ", "checkpoint 8 "),
        ("low 65 high 66", "low 66 high 65"),
    ] {
        assert!(text.contains(what), "{what}");
        let is_same = what == "key 00ff6d" && with == "key -";
        let changed = Manifest::parse(&with_checksum(&text.replacen(what, with, 1)));
        // A range may begin where a section does.
        assert_eq!(changed.is_ok(), is_same, "{what} became {with}: {changed:?}");
    }
    let picture_with_range = format!("{}\n{}", picture(7, 3, 63), ranges().ranges[0]);
    let mixed = text.replace(&with_ranges.checkpoint.expect("it has one").to_string(), &picture_with_range);
    assert!(Manifest::parse(&with_checksum(&mixed)).is_err());
}

#[test]
fn k5_generations_are_listed_from_the_oldest_on_that_a_range_needs() {
    let mut ranges = ranges();
    ranges.ranges[0].walked.low = Epoch::new(72);
    ranges.ranges[0].walked.high = Epoch::new(75);
    ranges.ranges[0].walked.files.generation = 4;
    let with = |ranges: &CyclingCheckpoint, generations| Manifest {
        checkpoint: Some(InstalledCheckpoint::Cycling(ranges.clone())),
        ..without_checkpoint(generations)
    };
    let both = || vec![generation(3, 61, Some(66)), generation(4, 70, None)];
    let good = with(&ranges, both());
    assert_eq!(Manifest::parse(&good.to_string()), Ok(good.clone()));
    let installed = good.checkpoint.expect("it has one");
    assert_eq!((installed.redo_epoch(), installed.durable_min()), (Epoch::new(62), Epoch::new(75)));
    assert_eq!((installed.generations(), installed.number()), (3..=4, 9));
    let share = |number, durable_min| Some(CheckpointShare { number, durable_min: Epoch::new(durable_min) });
    assert_eq!(installed.written_in(3), share(8, 64));
    assert_eq!((installed.written_in(4), installed.written_in(2)), (share(9, 75), None));
    // What the generation left does not count any more, or it was merged: not listed.
    assert!(Manifest::parse(&with(&ranges, vec![generation(4, 70, None)]).to_string()).is_ok());
    for (why, generations) in [
        ("a generation before all ranges", vec![generation(2, 50, Some(60)), generation(4, 70, None)]),
        ("the D of one below its range's e_h", vec![generation(3, 61, Some(63)), generation(4, 70, None)]),
        ("a generation that begins behind its range's e_l", vec![generation(4, 73, None)]),
    ] {
        assert!(Manifest::parse(&with(&ranges, generations).to_string()).is_err(), "{why}");
    }
    ranges.ranges[0].walked.low = Epoch::new(66);
    assert!(
        Manifest::parse(&with(&ranges, both()).to_string()).is_err(),
        "within the generation before its own"
    );
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut keeper = ManifestKeeper::begin(&disk, None).expect("writes");
    let before = vec![generation(2, 50, Some(60)), generation(3, 61, Some(66)), generation(4, 70, None)];
    keeper.replace(without_checkpoint(before)).expect("writes");
    keeper.install(installed).expect("writes");
    assert_eq!(keeper.manifest().generations, both());
}

#[test]
fn a_picture_comes_back_with_its_files() {
    let with_picture = Manifest { checkpoint: Some(picture(7, 3, 63)), ..manifest() };
    let text = with_picture.to_string();
    assert_eq!(Manifest::parse(&text), Ok(with_picture));
    // A file's line that belongs to no picture, or to a checkpoint that has no such lines.
    let stray = with_checksum(&text.replacen("reserved", "pages 0 file 1 salt 5e6f7a8b\nreserved", 1));
    assert!(Manifest::parse(&stray).is_err());
    let fuzzy = checkpoint(7, 3, 62, 64);
    let text = Manifest { checkpoint: Some(fuzzy.clone()), ..manifest() }.to_string();
    let mixed = format!("{fuzzy}\npages 0 file 1 salt 5e6f7a8b");
    let mixed = with_checksum(&text.replace(&fuzzy.to_string(), &mixed));
    assert_eq!(Manifest::parse(&mixed), Err(Unusable::Damaged("a line cannot be read")));
}

#[test]
fn a_picture_whose_root_is_in_none_of_its_files_is_refused() {
    let good = page_picture(7, 3, 63);
    let at = |folder, first, units| {
        let extent = Extent { folder, first, units };
        PictureCheckpoint { root: ExtentPlace { extent, ..good.root }, ..good.clone() }
    };
    let files = |files: &[usize]| {
        let files = files.iter().map(|at| good.files[*at]).collect();
        PictureCheckpoint { files, ..good.clone() }
    };
    for (why, picture) in [
        ("has its root in a folder that it does not list", at(2, 5, 2)),
        ("has its root where the opening block stands", at(1, 0, 2)),
        ("has a root of no length", at(1, 5, 0)),
        ("has no file", files(&[])),
        ("has two files of a folder", files(&[0, 1, 1])),
        ("lists its files out of order", files(&[1, 0])),
        ("has no number", PictureCheckpoint { number: 0, ..good.clone() }),
    ] {
        let manifest = Manifest { checkpoint: Some(InstalledCheckpoint::Picture(picture)), ..manifest() };
        assert!(Manifest::parse(&manifest.to_string()).is_err(), "it {why}");
    }
}

fn assert_every_change_is_seen(text: &str) {
    for (at, bytes) in samples::changes(text) {
        let is_seen = |bytes| String::from_utf8(bytes).map_or(true, |text| Manifest::parse(&text).is_err());
        assert!(bytes.into_iter().all(is_seen), "changed at {at}, or cut to {at}");
    }
}

#[test]
fn l4_l6_generations_out_of_order_or_above_what_is_reserved_are_refused() {
    for generations in [
        vec![],
        vec![generation(1, 1, Some(5))],
        vec![generation(1, 1, None), generation(2, 9, None)],
        vec![generation(1, 1, Some(9)), generation(2, 9, None)],
        vec![generation(2, 1, Some(5)), generation(2, 9, None)],
        vec![generation(1, 8, Some(5)), generation(2, 9, None)],
        vec![Generation { logs: 0, ..generation(1, 1, Some(5)) }, generation(2, 9, None)],
    ] {
        let manifest = without_checkpoint(generations);
        assert!(Manifest::parse(&manifest.to_string()).is_err(), "{manifest:?}");
    }
    let manifest = Manifest { reserved: Epoch::new(69), ..manifest() };
    assert!(Manifest::parse(&manifest.to_string()).is_err());
}

#[test]
fn n18_a_generation_without_a_log_has_pictures_only_and_is_the_open_one() {
    let open = Generation { logs: 0, ..generation(4, 70, None) };
    let generations = || vec![generation(3, 61, Some(66)), open.clone()];
    let bare = without_checkpoint(generations());
    let text = bare.to_string();
    assert!(text.starts_with("ensile manifest 4\n") && text.contains(" logs 0 "), "{text}");
    assert_eq!(Manifest::parse(&text), Ok(bare.clone()));
    let older = with_checksum(&text.replace("manifest 4", "manifest 3"));
    assert!(Manifest::parse(&older).is_err(), "versions that need logs do not read it");
    for (checkpoint, is_whole) in [(picture(7, 4, 75), true), (checkpoint(7, 4, 72, 75), false)] {
        let manifest =
            Manifest { checkpoint: Some(checkpoint), generations: vec![open.clone()], ..bare.clone() };
        assert_eq!(Manifest::parse(&manifest.to_string()).is_ok(), is_whole, "K1: {manifest:?}");
    }
}

#[test]
fn a_crash_leaves_the_old_one_or_the_new_one() {
    for seed in 0..100 {
        let disk = SimDisk::new();
        manifest().write(&disk).expect("writes");
        let next = without_checkpoint(vec![generation(1, 1, Some(57)), generation(4, 70, None)]);
        // Everything up to the last sync has happened, or nothing has.
        let file = disk.create("MANIFEST.new").expect("creates");
        file.write_at(next.to_string().as_bytes(), 0).expect("writes");
        file.sync_all().expect("syncs");
        disk.rename("MANIFEST.new", MANIFEST).expect("renames");
        disk.crash(seed);
        let found = Manifest::read(&disk).expect("whole").expect("there");
        assert!(found == manifest() || found == next);
    }
}

#[test]
fn k1_a_checkpoint_that_contradicts_the_generations_is_refused() {
    let with = |checkpoint, generations| Manifest {
        checkpoint: Some(checkpoint),
        ..without_checkpoint(generations)
    };
    let (closed, open) = (generation(3, 61, Some(66)), generation(4, 70, None));
    let both = || vec![closed.clone(), open.clone()];
    let good = with(checkpoint(7, 3, 61, 66), both());
    assert_eq!(Manifest::parse(&good.to_string()), Ok(good));
    // The checkpoint's own generation left no entry above it, and was dropped.
    let good = with(checkpoint(7, 3, 61, 66), vec![open.clone()]);
    assert_eq!(Manifest::parse(&good.to_string()), Ok(good));
    for (why, checkpoint) in [
        ("begins before its generation", checkpoint(7, 3, 60, 66)),
        ("ends above the D of its closed generation", checkpoint(7, 3, 61, 67)),
        ("ends before it begins", checkpoint(7, 3, 64, 63)),
        ("is of a later generation than one that is listed", checkpoint(7, 4, 71, 72)),
        ("ends within a later generation", checkpoint(7, 2, 40, 70)),
        ("has no files", fuzzy(61, 66, PartFiles { files: 0, ..part_files(7, 3) })),
    ] {
        let manifest = with(checkpoint, both());
        assert!(Manifest::parse(&manifest.to_string()).is_err(), "it {why}");
    }
}

#[test]
fn a_manifest_is_of_the_least_format_that_has_what_it_says() {
    let with_picture = Manifest { checkpoint: Some(picture(7, 3, 63)), ..manifest() };
    let (before, newest) = (manifest().to_string(), with_picture.to_string());
    assert!(before.starts_with("ensile manifest 3\n") && newest.starts_with("ensile manifest 4\n"));
    assert_eq!(Manifest::parse(&newest), Ok(with_picture));
    for contradiction in
        [before.replace("manifest 3", "manifest 4"), newest.replace("manifest 4", "manifest 3")]
    {
        let found = Manifest::parse(&with_checksum(&contradiction));
        assert!(matches!(found, Err(Unusable::Damaged(_))), "{found:?}");
    }
}

#[test]
fn n12_a_picture_that_contradicts_the_generations_is_refused() {
    let generations = || vec![generation(3, 61, Some(66)), generation(4, 70, None)];
    let with = |picture| Manifest { checkpoint: Some(picture), ..without_checkpoint(generations()) };
    for good in [with(picture(7, 3, 61)), with(picture(7, 3, 66))] {
        assert_eq!(Manifest::parse(&good.to_string()), Ok(good));
    }
    for (why, picture) in [
        ("shows an epoch above the D of its closed generation", picture(7, 3, 67)),
        ("is of a later generation than one that is listed", picture(7, 4, 71)),
        ("shows an epoch of a later generation", picture(7, 2, 70)),
        ("shows no epoch", picture(7, 3, 0)),
        ("shows the last epoch that there is", picture(7, 4, Epoch::MAX.number() - 1)),
    ] {
        assert!(Manifest::parse(&with(picture).to_string()).is_err(), "it {why}");
    }
}

#[test]
fn installing_takes_earlier_generations_off_the_list() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut keeper = ManifestKeeper::begin(&disk, None).expect("writes");
    let before = vec![generation(1, 1, Some(57)), generation(3, 61, None)];
    keeper.replace(without_checkpoint(before)).expect("writes");
    keeper.install(checkpoint(1, 3, 62, 64)).expect("writes");
    let found = Manifest::read(&*disk).expect("whole").expect("there");
    assert_eq!(&found, keeper.manifest());
    assert_eq!(found.generations, vec![generation(3, 61, None)]);
    assert_eq!(found.checkpoint.expect("installed").files().len(), 8);
}

#[test]
fn a_replacement_that_fails_or_is_too_long_says_whether_the_old_one_stands() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut keeper = ManifestKeeper::begin(&disk, None).expect("writes");
    keeper.replace(manifest()).expect("writes");
    let next = without_checkpoint(vec![generation(4, 70, None)]);
    sim.fail_sync(1);
    assert!(matches!(keeper.replace(next.clone()), Err(NotReplaced::OldStands(_))));
    assert_eq!(Manifest::read(&*disk).expect("whole"), Some(manifest()));
    sim.fail_folder_sync(1);
    assert!(matches!(keeper.replace(next), Err(NotReplaced::Unknown(_))));
    assert_eq!(keeper.manifest(), &manifest());
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut keeper = ManifestKeeper::begin(&disk, None).expect("writes");
    keeper.replace(manifest()).expect("writes");
    let many = (1..250_000).map(|number| generation(number, 2 * number, Some(2 * number)));
    let many = many.chain([generation(250_000, 500_001, None)]).collect();
    let huge = Manifest { reserved: Epoch::new(600_000), ..without_checkpoint(many) };
    assert!(matches!(keeper.replace(huge), Err(NotReplaced::OldStands(_))));
    assert_eq!(Manifest::read(&*disk).expect("whole"), Some(manifest()));
}
