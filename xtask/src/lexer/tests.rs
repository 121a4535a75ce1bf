//! Words in strings and comments are no code.

use super::{Kind, tokens};

fn kinds(text: &str) -> Vec<(Kind, &str)> {
    tokens(text).iter().map(|token| (token.kind, token.text)).collect()
}

#[test]
fn words_in_strings_and_comments_are_no_code() {
    let text =
        r####"let a = "unsafe { // \" }"; let b = r##"fn "# x"##; /* fn /* nested */ y */ b"unsafe""####;
    let words: Vec<_> =
        kinds(text).into_iter().filter(|(kind, _)| *kind == Kind::Word).map(|t| t.1).collect();
    assert_eq!(words, ["let", "a", "let", "b"]);
}

#[test]
fn lifetimes_are_not_characters() {
    assert_eq!(
        kinds("<'a> 'x' '\\'' '(' b'\\''"),
        [
            (Kind::Mark, "<"),
            (Kind::Lifetime, "'a"),
            (Kind::Mark, ">"),
            (Kind::Literal, "'x'"),
            (Kind::Literal, "'\\''"),
            (Kind::Literal, "'('"),
            (Kind::Literal, "b'\\''"),
        ]
    );
}

#[test]
fn raw_words_and_ranges() {
    assert_eq!(kinds("r#type 0..0x1f_u8 a::b")[0], (Kind::Word, "type"));
    let texts: Vec<_> = tokens("0..0x1f_u8 a::b").iter().map(|token| token.text).collect();
    assert_eq!(texts, ["0", ".", ".", "0x1f_u8", "a", "::", "b"]);
}

#[test]
fn lines_are_counted_through_every_kind_of_token() {
    let lines: Vec<_> = tokens("a\n/* b\nc */ \"d\ne\" f").iter().map(|t| (t.line, t.last_line)).collect();
    assert_eq!(lines, [(1, 1), (2, 3), (3, 4), (4, 4)]);
}

#[test]
fn unfinished_text_ends() {
    for text in ["\"a", "r#\"a", "/* a", "'", "'\\", "b'"] {
        let _ = tokens(text);
    }
}
