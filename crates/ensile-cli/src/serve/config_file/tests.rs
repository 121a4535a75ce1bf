//! Lines of the configuration file: comments, quotations, and errors with their lines.
//!
//! Neighbours: the tests of `settings` give the lines their meaning.

use super::{LineError, config_lines};

/// Name and values of each line, with spaces between.
fn read(text: &str) -> Vec<String> {
    let lines = config_lines(text).expect("every line is understood");
    lines.iter().map(|line| format!("{} {} {:?}", line.number, line.name, line.values)).collect()
}

#[test]
fn blank_lines_and_comments_are_passed_over() {
    assert_eq!(
        read("# a comment\n\n  PORT   7000\r\n\t# another\nbind 127.0.0.1 ::1\nsave"),
        ["3 port [\"7000\"]", "5 bind [\"127.0.0.1\", \"::1\"]", "6 save []"]
    );
}

#[test]
fn a_quotation_may_have_spaces_marks_and_escapes() {
    assert_eq!(
        read(r#"requirepass "open \"sesame\" \x41\n#""#),
        [r##"1 requirepass ["open \"sesame\" A\n#"]"##]
    );
    assert_eq!(read(r"requirepass 'it\'s \n'"), [r#"1 requirepass ["it's \\n"]"#]);
    assert_eq!(read(r#"requirepass """#), [r#"1 requirepass [""]"#]);
}

#[test]
fn an_error_has_the_number_of_its_line() {
    for wrong in
        [r#"requirepass "open"#, r#"requirepass "open"sesame"#, "requirepass 'open", r#"requirepass "\x4""#]
    {
        let refused = config_lines(&format!("port 1\n{wrong}\n")).expect_err(wrong);
        let LineError { number, reason } = refused;
        assert_eq!(number, 2, "{reason}");
        assert!(reason.contains("quotation") || reason.contains("\\x"), "{reason}");
    }
}
