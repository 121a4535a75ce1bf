//! Items are found by their names, with the type or trait around them, and with their attributes.
//!
//! Neighbours: [`super::items`].

use super::items;
use crate::source::Source;

fn paths(text: &str) -> Vec<String> {
    items(&Source::new("crates/a/src/b.rs", text)).iter().map(super::Item::path).collect()
}

#[test]
fn the_owner_of_a_function_is_the_type_that_the_block_implements() {
    assert_eq!(paths("fn free() {} impl Plain { fn a() {} } fn after() {}"), ["free", "Plain::a", "after"]);
    assert_eq!(
        paths("impl<'a, T: Fn(u8) -> u8> crate::x::Wide<'a, T> where T: Send { fn a() {} }"),
        ["Wide::a"]
    );
    assert_eq!(paths("impl<T> From<T> for Outer<Inner> { fn from() {} }"), ["Outer::from"]);
    assert_eq!(paths("impl Drop for &mut Guard { fn drop(&mut self) {} }"), ["Guard::drop"]);
    assert_eq!(paths("trait Walk { fn next(&self); fn all(&self) {} }"), ["Walk", "Walk::next", "Walk::all"]);
}

#[test]
fn an_argument_of_an_impl_type_begins_no_block() {
    assert_eq!(paths("impl A { fn a(f: impl Fn()) -> impl Send { x } fn b() {} }"), ["A::a", "A::b"]);
}

#[test]
fn constants_and_types_are_items_and_a_const_function_is_one_function() {
    let text = "const A: u8 = 1; static mut B: u8 = 2; struct C { d: u8 } enum E {} const fn f() {} macro_rules! g { () => {} }";
    assert_eq!(paths(text), ["A", "B", "C", "E", "f", "g"]);
}

#[test]
fn an_item_begins_with_its_attributes_and_ends_with_its_body() {
    let text = "mod m { #[inline(always)]\npub(crate) fn a() { b() } }";
    let source = Source::new("crates/a/src/b.rs", text);
    let item = &items(&source)[0];
    assert_eq!((source.text(item.tokens.start), source.text(item.tokens.end - 1)), ("#", "}"));
    assert_eq!(source.text(item.tokens.end), "}", "the module's own");
}

#[test]
fn a_name_without_an_owner_does_not_match_a_method() {
    let source = Source::new("crates/a/src/b.rs", "impl A { fn a() {} }");
    let found = items(&source);
    assert!(found[0].matches("A::a") && !found[0].matches("a") && !found[0].matches("B::a"));
}

#[test]
fn a_header_is_one_item_by_its_file_name() {
    let found = items(&Source::new("crates/a/include/b.h", "int a(void); struct b { int c; };"));
    assert_eq!((found.len(), found[0].path().as_str()), (1, "b.h"));
}
