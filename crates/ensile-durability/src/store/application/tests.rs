//! Which texts are names, and what an open asks of a folder with or without one.
//!
//! Neighbours: the tests of [`super`]; lives with names are in `tests/durability/named`.

use ensile_base::limits::NAME_BYTES_MAX;
use ensile_disk::{Disk, FolderId};
use ensile_sim::SimDisk;

use super::{ApplicationName, Naming, application_name};
use crate::DurabilityError;
use crate::identity::Identity;
use crate::store::manifest::Manifest;

fn name(text: &str) -> ApplicationName {
    application_name(text).expect("a name")
}

#[test]
fn i5_a_name_is_printable_and_no_longer_than_the_limit() {
    for text in ["a", "prices, partition 0 of 4", "a \"b\" \\ ~", &"x".repeat(NAME_BYTES_MAX)] {
        let line = name(text).line();
        assert!(ApplicationName::is_line(&line));
        assert_eq!(ApplicationName::parse(&line).as_ref().map(ApplicationName::as_str), Some(text));
    }
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    for (text, why) in [
        ("", "it is empty"),
        (&*long, "it has 256 bytes, and the limit is 255"),
        (" a", "begins or ends with a space"),
        ("a ", "begins or ends with a space"),
        ("a\nb", "it has '\\n', which is no printable ASCII"),
        ("prix \u{e9}", "it has '\u{e9}', which is no printable ASCII"),
        ("\u{7f}", "which is no printable ASCII"),
    ] {
        let refused = application_name(text).map(drop).expect_err("is none").to_string();
        assert!(refused.contains("is no name of an application") && refused.contains(why), "{refused}");
        assert_eq!(ApplicationName::parse(&format!("application {text}")), None, "{text:?}");
    }
    assert_eq!(ApplicationName::parse("applications a"), None);
}

#[test]
fn i5_a_named_folder_is_for_that_name_only_and_one_without_is_for_any() {
    let disk = SimDisk::new();
    let disk: &dyn Disk = &disk;
    let main = FolderId { inode: 1, born_nanos: None };
    let without = Manifest::new(Identity::draw(), main);
    let of_prices = Manifest { application: Some(name("prices")), ..without.clone() };
    let (own, other) = (Naming::Named(name("prices")), Naming::Named(name("stock")));
    for naming in [&own, &other, &Naming::Nameless, &Naming::Unasked] {
        naming.check(disk, &without).expect("it has no name");
    }
    own.check(disk, &of_prices).expect("it is its own");
    Naming::Unasked.check(disk, &of_prices).expect("it is not asked");
    for (naming, with) in [(&other, "for \"stock\""), (&Naming::Nameless, "without a name")] {
        let refused = naming.check(disk, &of_prices).expect_err("is of another one");
        assert!(matches!(refused, DurabilityError::OtherApplication { .. }));
        let said = refused.to_string();
        assert!(said.contains(&format!("is the folder of \"prices\", and was opened {with}:")), "{said}");
    }
    let before = of_prices.application.as_ref();
    assert_eq!(other.name(before), Some(name("stock")));
    assert_eq!((Naming::Nameless.name(before), Naming::Unasked.name(None)), (before.cloned(), None));
}
