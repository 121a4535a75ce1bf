//! Names that an open asks of a folder, with or without a name.
//!
//! Neighbours: the tests of [`super`]; lives with names are in `tests/durability/named`.

use ensile_disk::FolderId;
use ensile_sim::SimDisk;

use super::*;
use crate::files::manifest::application::application_name;
use crate::identity::Identity;

fn name(text: &str) -> ApplicationName {
    application_name(text).expect("a name")
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
