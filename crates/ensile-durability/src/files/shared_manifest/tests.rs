//! A shared manifest as it is documented, and what is refused.
//!
//! Neighbours: the tests of [`super`]; lives that ship are in `tests/durability/shipping`.

use super::*;
use crate::entry_type::TypeRole;
use crate::files::manifest::application::application_name;
use crate::files::manifest::generation::{Generation, LogSpan};
use crate::files::manifest::installed_checkpoint::{FuzzyCheckpoint, InstalledCheckpoint, PartFiles};
use crate::files::names::{PartName, SegmentFile, SegmentName};
use crate::recoverable::EntryKind;
use crate::samples::{self, identity, salt};

fn generation(number: u64, first: u64) -> Generation {
    Generation { entries: EntryKind::Operations, logs: 0, ..samples::generation(number, first, None) }
}

fn manifest() -> SharedManifest {
    let shared =
        |salt, bytes| SharedFile { shipper: identity(), salt, bytes, crc: 0x0a1b_2c3d, object_bytes: None };
    let log = |number| SharedLog {
        file: SegmentFile::from(SegmentName { generation: 4, logger: 0, number }),
        shared: shared(salt("1a2b3c4d"), 4096),
        largest: Epoch::new(60 + number),
    };
    let files = PartFiles { checkpointers: 1, files: 1, bytes: 100_000_000, ..samples::part_files(7, 4) };
    let part = SharedFile { object_bytes: Some(67_108_864), ..shared(salt("5e6f7a8b"), 100_000_000) };
    let checkpoint = FuzzyCheckpoint { low: Epoch::new(62), high: Epoch::new(64), files };
    let spans = vec![LogSpan { first: 2, last: 3, bytes: 2048 }];
    let closed = Generation { logs: 1, durable: Some(Epoch::new(66)), spans, ..generation(4, 61) };
    let generations = vec![closed, generation(5, 67)];
    SharedManifest {
        store: samples::other_identity(),
        number: 12,
        term: 2,
        attempt: 0x0123_4567_89ab_cdef,
        shipper: identity(),
        reserved: Epoch::new(5000),
        durable: Some(Epoch::new(70)),
        application: Some(application_name("prices, partition 0 of 4").expect("a name")),
        types: Vec::new(),
        fenced: vec![Identity::parse("4a1e0c9a77d24f0e8f6d3a2b1c4d5e6f").expect("one")],
        next: (4, salt("1a2b3c4d")),
        parts: vec![(PartName { checkpoint: 7, checkpointer: 0, file: 0 }, part)],
        logs: vec![log(2), log(3)],
        state: FilesState { checkpoint: Some(InstalledCheckpoint::Fuzzy(checkpoint)), generations },
    }
}

#[test]
fn the_documented_manifest_is_read_and_written() {
    let document = include_str!("../../../../../docs/internals/formats/shared.md");
    let example = document.split("```text\nensile shared").nth(1).and_then(|rest| rest.split("```").next());
    let text = manifest().to_string();
    assert_eq!(example.map(|rest| format!("ensile shared{rest}")), Some(text.clone()), "{text}");
    assert_eq!(SharedManifest::parse(text.as_bytes()), Ok(manifest()));
    assert_eq!(manifest_number(&manifest_name(12)), Some(12));
    for name in ["manifests/manifest-012", "manifests/manifest-", "manifest-12", "manifests/manifest-12.new"]
    {
        assert_eq!(manifest_number(name), None, "{name}");
    }
}

#[test]
fn each_changed_byte_is_damage_and_a_newer_format_is_said_to_be_one() {
    let text = manifest().to_string();
    for (at, [changed, cut]) in samples::changes(&text) {
        assert!(matches!(SharedManifest::parse(&changed), Err(UnusableShared::Damaged(_))), "byte {at}");
        assert!(SharedManifest::parse(&cut).is_err(), "cut at {at}");
    }
    let newer = of_format(&text, 5);
    assert_eq!(SharedManifest::parse(newer.as_bytes()), Err(UnusableShared::Newer));
}

/// The text with another format in its title, and its checksum made anew.
fn of_format(text: &str, format: u32) -> String {
    let (_, lines) = text.split_once('\n').expect("a title");
    let body =
        format!("ensile shared manifest {format}\n{}", &lines[..lines.rfind("crc32c").expect("there")]);
    crate::files::text::with_checksum(&body)
}

#[test]
fn i6_types_are_said_by_a_newer_format_and_nothing_else_changes() {
    let entry_type = |role, version, name| EntryType::new(role, version, name, Some(0x1a));
    let types = vec![
        entry_type(TypeRole::Key, 0, "string"),
        entry_type(TypeRole::Object, 1, "Count"),
        entry_type(TypeRole::Object, 2, "Tally"),
    ];
    let typed = SharedManifest { types, ..manifest() };
    let parse = |text: &str| SharedManifest::parse(text.as_bytes());
    let text = typed.to_string();
    assert!(text.starts_with("ensile shared manifest 4\n"), "{text}");
    assert_eq!(parse(&text).as_ref(), Ok(&typed));
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("type ")).collect();
    let without = text.replacen(&(lines.join("\n") + "\n"), "", 1);
    assert_eq!(of_format(&without, 3), manifest().to_string());
    assert!(parse(&of_format(&text, 3)).is_err(), "a program that does not know them would forget them");
    let turned = text.replacen(&lines[..2].join("\n"), &[lines[1], lines[0]].join("\n"), 1);
    assert!(parse(&of_format(&turned, 4)).is_err(), "they have an order");
}

#[test]
fn l7_a_name_is_said_by_a_newer_format_than_programs_without_names_read_and_nothing_else_changes() {
    let named = SharedManifest { durable: None, ..manifest() };
    let nameless = SharedManifest { application: None, ..named.clone() };
    let (text, before) = (named.to_string(), nameless.to_string());
    assert!(text.starts_with("ensile shared manifest 2\n"), "{text}");
    let without = text.replacen("application prices, partition 0 of 4\n", "", 1);
    assert_eq!(of_format(&without, 1), before, "without a name it has the bytes that it had");
    let parse = |text: &str| SharedManifest::parse(text.as_bytes());
    assert_eq!(parse(&before).as_ref(), Ok(&nameless));
    // Between two releases the line stood in the format before.
    assert_eq!(parse(&of_format(&text, 1)), Ok(named.clone()));
    for (text, format) in [(&before, 2), (&text, 0)] {
        let wrong = UnusableShared::Damaged("its format is not that of its lines");
        assert_eq!(parse(&of_format(text, format)), Err(wrong));
    }
    for text in [&text, &of_format(&text, 1), &before] {
        let at = usize::try_from(super::HEAD_AT).expect("is small");
        assert!(text[at..].starts_with(&named.head()), "{text}");
    }
}

#[test]
fn l7_a_durable_epoch_is_said_by_a_newer_format_and_nothing_else_changes() {
    let (with, without) = (manifest(), SharedManifest { durable: None, ..manifest() });
    let text = with.to_string();
    assert_eq!(
        of_format(&text.replacen(" durable 70\napplication", "\napplication", 1), 2),
        without.to_string()
    );
    let wrong = UnusableShared::Damaged("its format is not that of its lines");
    assert_eq!(SharedManifest::parse(of_format(&without.to_string(), 3).as_bytes()), Err(wrong));
    assert!(SharedManifest::parse(of_format(&text, 2).as_bytes()).is_err(), "format 2 has no durable epoch");
}

#[test]
fn h1_a_manifest_that_lacks_a_file_of_its_state_is_not_whole() {
    assert!(manifest().is_whole());
    type Change = fn(&mut SharedManifest);
    let changes: [Change; 11] = [
        |manifest| manifest.parts.clear(),
        |manifest| manifest.logs.truncate(1),
        |manifest| manifest.logs.clear(),
        |manifest| manifest.logs[1].shared.bytes = 2047,
        |manifest| manifest.parts[0].1.object_bytes = Some(0),
        |manifest| manifest.parts[0].1.object_bytes = Some(100_000_000),
        |manifest| manifest.term = 1,
        |manifest| manifest.fenced = vec![identity()],
        |manifest| manifest.state.generations[0].spans.clear(),
        |manifest| manifest.reserved = Epoch::new(60),
        |manifest| manifest.durable = Some(Epoch::new(65)),
    ];
    for (at, change) in changes.iter().enumerate() {
        let mut changed = manifest();
        change(&mut changed);
        assert!(!changed.is_whole(), "change {at}");
        assert!(SharedManifest::parse(changed.to_string().as_bytes()).is_err(), "change {at}");
    }
}

#[test]
fn a_long_file_has_objects_that_say_where_they_are_in_it() {
    let part = &manifest().parts[0];
    let name = part.0.to_string();
    let pieces = part.1.pieces(&name);
    let named: Vec<_> = pieces.iter().map(|piece| (piece.offset, piece.bytes)).collect();
    assert_eq!(named, [(0, 67_108_864), (67_108_864, 32_891_136)]);
    let whole = part.1.object(&name);
    assert_eq!(pieces[1].object, format!("{whole}.67108864-100000000"));
    for object in [&whole, &pieces[0].object, &pieces[1].object, &format!("{}.00ff.new", pieces[1].object)] {
        assert_eq!(file_of(object), whole);
    }
    assert_eq!(file_of("manifests/manifest-12"), "manifests/manifest-12");
    let one = SharedFile { object_bytes: None, ..part.1.clone() };
    assert_eq!(one.pieces(&name).len(), 1);
    assert_eq!((one.pieces(&name)[0].object.clone(), one.pieces(&name)[0].bytes), (whole, 100_000_000));
}
