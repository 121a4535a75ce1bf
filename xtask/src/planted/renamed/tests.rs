//! Codes that differ by names alone, and by more.

use std::collections::BTreeSet;

use super::add_renames;

#[test]
fn names_may_differ_and_nothing_else() {
    let mut renames = BTreeSet::new();
    assert!(add_renames(
        "fn a(b: u8) { c.of(b) }",
        "fn a(\n    b: u8,\n) {\n    c.new(b) // Why.\n}",
        &mut renames
    ));
    assert_eq!(renames.into_iter().collect::<Vec<_>>(), [("of".to_owned(), "new".to_owned())]);
    for (before, now) in
        [("a + b", "a - b"), ("a(1)", "a(2)"), ("a(\"b\")", "a(\"c\")"), ("a(b)", "a(b, c)"), ("!a", "a")]
    {
        assert!(!add_renames(before, now, &mut BTreeSet::new()), "{before}, {now}");
    }
}
