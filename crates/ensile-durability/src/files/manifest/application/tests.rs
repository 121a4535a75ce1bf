//! Texts that are names.
//!
//! Neighbours: the tests of [`super`]; lives with names are in `tests/durability/named`.

use super::*;

fn name(text: &str) -> ApplicationName {
    application_name(text).expect("a name")
}

#[test]
fn i5_a_name_is_printable_and_no_longer_than_the_limit() {
    for text in ["a", "prices, partition 0 of 4", "a \"b\" \\ ~", &"x".repeat(NAME_BYTES_MAX)] {
        let line = name(text).line();
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
