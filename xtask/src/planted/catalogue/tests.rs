//! Rows and patches are read whole, or refused with their line.
//!
//! Neighbours: [`super::rows`], [`super::patch`].

use super::{Edit, patch, rows};

const ROW: &str = "[[bug]]\nname = 'L1-a'\ncondition = 'L1'\ncrate = 'ensile-a'\nfunction = 'Log::seal'\ntext = 'a();'\n\
    replacement = ''\ncommand = 'cargo test'\nsign = 'a lost row'\n";
const HEAD: &str = "Condition: L1\nCommand: cargo test\nSign: a lost row\n\n";

#[test]
fn a_row_is_a_bug_of_one_edit() {
    let bugs = rows("planted/log.toml", &format!("{ROW}\n{ROW}")).expect("two rows");
    let [first, second] = &bugs[..] else { panic!("two rows") };
    assert_eq!((first.name.as_str(), first.line, second.line), ("L1-a", 1, 11));
    let Edit { package, function, text, replacement } = &first.edits[0];
    assert_eq!([package, function, text, replacement], ["ensile-a", "Log::seal", "a();", ""]);
}

#[test]
fn a_row_without_a_field_or_with_an_unknown_one_is_refused_with_its_line() {
    let refused = |text: &str| rows("planted/log.toml", text).err().expect("not a row");
    let (line, advice) = refused(&format!("{ROW}\n{}", ROW.replace("sign", "colour")));
    assert!(line > 10 && advice.contains("colour"), "{line}: {advice}");
    assert!(refused(&ROW.replace("condition = 'L1'\n", "")).1.contains("condition"));
}

#[test]
fn a_patch_has_an_edit_for_each_hunk() {
    let text = format!("{HEAD}@@ ensile-a Log::seal\n a();\n-b();\n+c();\n\n@@ ensile-b free\n-d();\n");
    let bug = patch("planted/log/L1-a.patch", &text).expect("a patch");
    assert_eq!((bug.name.as_str(), bug.sign.as_str(), bug.edits.len()), ("L1-a", "a lost row", 2));
    assert_eq!([&bug.edits[0].text, &bug.edits[0].replacement], ["a();\nb();\n", "a();\nc();\n"]);
    assert_eq!([&bug.edits[1].package, &bug.edits[1].replacement], ["ensile-b", ""]);
}

#[test]
fn a_patch_with_a_poor_head_or_without_a_hunk_is_refused() {
    let refused = |text: &str| patch("planted/log/L1-a.patch", text).err().expect("not a patch");
    let hunk = "@@ ensile-a Log::seal\n-b();\n";
    assert!(refused(HEAD).1.contains("no hunk"));
    assert!(refused(&format!("{}{hunk}", HEAD.replace("Sign: a lost row\n", ""))).1.contains("`Sign: ..`"));
    assert_eq!(refused(&format!("{HEAD}Seen by: me\n{hunk}")).0, 5);
    assert_eq!(refused(&format!("{HEAD}{hunk}*no mark\n")).0, 7);
    assert!(refused(&format!("{HEAD}@@ Log::seal\n-b();\n")).1.contains("CRATE FUNCTION"));
}
