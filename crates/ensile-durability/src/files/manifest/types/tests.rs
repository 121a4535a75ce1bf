//! Types of entries: lines, comparisons, and the types of a folder after an open and after a checkpoint.

use std::sync::Arc;

use ensile_base::limits::NAME_BYTES_MAX;
use ensile_sim::SimDisk;

use super::*;
use crate::entry_type::TypeRole;

fn key(name: &str, fingerprint: Option<u64>) -> EntryType {
    EntryType::new(TypeRole::Key, 0, name, fingerprint)
}

fn object(version: u16, name: &str, fingerprint: Option<u64>) -> EntryType {
    EntryType::new(TypeRole::Object, version, name, fingerprint)
}

fn stated(types: impl IntoIterator<Item = EntryType>) -> StatedTypes {
    StatedTypes::new(types.into_iter().map(|entry_type| StatedType { entry_type, former_names: Vec::new() }))
}

fn check(stated: &StatedTypes, found: &[EntryType]) -> Result<(), DurabilityError> {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    stated.check(&*disk, found)
}

#[test]
fn i6_a_type_is_read_from_its_line_and_has_one_spelling() {
    for entry_type in [object(7, "Count", Some(0x1a)), key("(u32, string)", None)] {
        assert_eq!(EntryType::parse(&entry_type.line()), Some(entry_type));
    }
    let line = "type object version 7 fingerprint 000000000000001a name Count";
    assert_eq!(object(7, "Count", Some(0x1a)).line(), line);
    for (part, wrong) in [
        ("object", "row"),
        ("7", "07"),
        ("000000000000001a", "1a"),
        ("000000000000001a", "000000000000001A"),
        ("name Count", "name "),
        ("name Count", "name  Count"),
        ("name Count", "named Count"),
        ("type ", "type  "),
    ] {
        assert_eq!(EntryType::parse(&line.replacen(part, wrong, 1)), None, "{wrong:?} for {part:?}");
    }
}

#[test]
fn i6_a_name_is_printable_and_not_too_long_whatever_is_given() {
    let name = |given: &str| object(1, given, None).name;
    assert_eq!(
        (&*name("Zähler"), &*name("a\nb"), &*name("  "), &*name("")),
        ("Z\\u{e4}hler", "a\\u{a}b", "?", "?")
    );
    let long = "ä".repeat(NAME_BYTES_MAX);
    assert!(name(&long).len() <= NAME_BYTES_MAX && name(&long).starts_with("\\u{e4}"));
    assert_eq!(name(&name(&long)), name(&long), "a printable name stays as it is");
}

#[test]
fn i6_a_type_is_compared_with_the_type_of_its_own_version_and_with_stated_parts() {
    let found = [object(1, "Count", Some(1)), object(2, "Count", None)];
    for same in [
        object(1, "Count", Some(1)),
        object(1, "Count", None),
        object(2, "Count", Some(9)),
        object(3, "Other", Some(9)),
        EntryType::new(TypeRole::Operation, 1, "Other", Some(9)),
    ] {
        check(&stated([same]), &found).expect("is the same, or not compared");
    }
    for other in [object(1, "Other", Some(1)), object(1, "Count", Some(2)), object(2, "Other", None)] {
        let refused = check(&stated([other.clone()]), &found).expect_err("is another type");
        assert!(matches!(refused, DurabilityError::OtherType(refused) if refused.given == other));
    }
    let former_names = vec!["Number".into(), "Count".into()];
    let renamed = StatedType { entry_type: object(1, "Tally", Some(1)), former_names };
    check(&StatedTypes::new([renamed]), &found).expect("was called so");
    check(&StatedTypes::default(), &found).expect("nothing is stated");
}

#[test]
fn i6_an_open_adds_types_and_a_checkpoint_leaves_those_of_the_program_and_of_other_roles() {
    let own = [object(2, "Tally", Some(2)), key("u64", Some(3))];
    let types = stated(own.clone());
    let all = [own[1].clone(), own[0].clone()];
    assert_eq!(types.at_open(&[], true), all, "a new folder has nothing else");
    assert_eq!(types.at_open(&[], false), [], "an older folder may have entries of every version");
    let before = [key("u64", Some(3)), object(1, "Count", Some(1))];
    let after = [before[0].clone(), before[1].clone(), own[0].clone()];
    assert_eq!(types.at_open(&before, false), after);
    assert_eq!(types.at_open(&after, false), after);
    let newer = [object(3, "Later", None)];
    assert_eq!(types.at_open(&newer, false), [own[0].clone(), newer[0].clone()], "no entry is older");
    let before = [key("u64", None), object(1, "Count", Some(1)), object(2, "Count", Some(2))];
    let after = stated([object(2, "Tally", Some(4))]).at_checkpoint(&before);
    assert_eq!(after, [before[0].clone(), object(2, "Tally", Some(4))]);
    let after = stated([object(2, "Tally", None)]).at_checkpoint(&before);
    assert_eq!(after, [before[0].clone(), object(2, "Tally", None)], "the bytes may have another format");
    assert_eq!(StatedTypes::default().at_checkpoint(&before), before);
}
