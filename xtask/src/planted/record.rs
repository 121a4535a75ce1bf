//! Writes a change of the tree into the catalogue: a unified diff with the head of a patch becomes a row or a patch.
//!
//! A change of one place becomes a row, other changes a patch. Each text gets lines around the change until it stands
//! once in its function; comments are left out.
//!
//! Neighbours: [`super::items`] names the function; [`super::place`] finds the text again.

use std::fmt::Write as _;
use std::fs;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use super::candidates::{refused, texts};
use super::catalogue::Edit;
use super::items::{Item, items};
use super::place::{Tree, code_texts};
use crate::lexer::{Kind, tokens};
use crate::source::Source;

/// A hunk of a unified diff.
struct Hunk {
    path: String,
    /// First line of the hunk in the old file, from 1. Only a hint, as lines above may have changed.
    line: usize,
    lines: Vec<(char, String)>,
}

/// Adds the change in `diff` to `planted/ROOM.toml` or `planted/ROOM/NAME.patch`; NAME is the file name of `diff`.
pub(super) fn record(root: &Path, room: &str, diff: &Path) -> io::Result<()> {
    let text = fs::read_to_string(diff)?;
    let name = diff.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (head, body) = text.split_at(text.find("diff --git ").unwrap_or(text.len()));
    let field = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.ok_or_else(|| refused(&format!("{}: its head has no line `{name}: ..`", diff.display())))
    };
    let (condition, command, sign) = (field("Condition")?, field("Command")?, field("Sign")?);
    let texts = texts(root)?;
    let tree = Tree::new(&texts);
    let mut edits = Vec::new();
    for hunk in hunks(body) {
        edits.extend(
            edits_of(&hunk, &tree).map_err(|advice| refused(&format!("{}: {advice}", diff.display())))?,
        );
    }
    fs::create_dir_all(root.join("planted"))?;
    let [edit] = &edits[..] else {
        let mut patch = format!("Condition: {condition}\nCommand: {command}\nSign: {sign}\n");
        for (_, lines) in &edits {
            patch.push('\n');
            patch.push_str(lines);
        }
        fs::create_dir_all(root.join("planted").join(room))?;
        return fs::write(root.join(format!("planted/{room}/{name}.patch")), patch);
    };
    let (Edit { package, function, text, replacement }, _) = edit;
    let mut row = format!("[[bug]]\nname = \"{name}\"\ncondition = \"{condition}\"\ncrate = \"{package}\"\n");
    let _ = writeln!(row, "function = \"{function}\"");
    let _ = writeln!(row, "text = {}", literal(text));
    let _ = writeln!(row, "replacement = {}", literal(replacement));
    let _ = writeln!(row, "command = {}\nsign = {}\n", literal(command), literal(sign));
    let file = root.join(format!("planted/{room}.toml"));
    OpenOptions::new().create(true).append(true).open(file)?.write_all(row.as_bytes())
}

/// A string of TOML without escapes, on lines of its own if it has more than one.
fn literal(text: &str) -> String {
    let text = text.trim_end_matches('\n');
    let has = |marks: &[char]| text.contains(marks);
    if !has(&['\n', '"', '\\']) {
        format!("\"{text}\"")
    } else if !has(&['\n', '\'']) {
        format!("'{text}'")
    } else {
        format!("'''\n{text}'''")
    }
}

fn hunks(body: &str) -> Vec<Hunk> {
    let (mut hunks, mut path) = (Vec::<Hunk>::new(), String::new());
    for line in body.lines() {
        if let Some(name) = line.strip_prefix("--- a/") {
            path = name.to_owned();
        } else if let Some(ranges) = line.strip_prefix("@@ -") {
            let begin = ranges.split([',', ' ']).next().and_then(|number| number.parse().ok());
            hunks.push(Hunk { path: path.clone(), line: begin.unwrap_or(1), lines: Vec::new() });
        } else if line.starts_with("diff --git ") {
            path.clear();
        } else if let (Some(hunk), false) = (hunks.last_mut(), path.is_empty() || line.starts_with("+++ b/"))
        {
            let mark = line.chars().next().unwrap_or(' ');
            if matches!(mark, ' ' | '-' | '+') {
                hunk.lines.push((mark, line.get(1..).unwrap_or_default().to_owned()));
            }
        }
    }
    hunks
}

/// The edits of a hunk, each with its lines as a patch has them.
fn edits_of(hunk: &Hunk, tree: &Tree<'_>) -> Result<Vec<(Edit, String)>, String> {
    let package = hunk.path.split('/').nth(1).unwrap_or_default();
    let files = tree.files(package);
    let (source, text) = files
        .iter()
        .find(|(source, _)| source.path == hunk.path)
        .ok_or_else(|| format!("{} is no source that ships", hunk.path))?;
    let first = file_line(hunk, text)?;
    // Whole comments are left out of both sides.
    let mut line = first;
    let mut lines: Vec<(char, &str, usize)> = Vec::new();
    for (mark, code) in &hunk.lines {
        // An import that is left over is a warning, and no part of a bug.
        let is_left_over = *mark == '-' && code.starts_with("use ");
        if !code_texts(code).is_empty() && !is_left_over {
            lines.push((*mark, code, line));
        }
        line += usize::from(*mark != '+');
    }
    let changed: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].0 != ' ').collect();
    let (Some(&begin), Some(&end)) = (changed.first(), changed.last()) else { return Ok(Vec::new()) };
    match edit(package, source, text, tree, &lines, begin..=end) {
        Ok(edit) => Ok(vec![edit]),
        // Changes of several functions in one hunk.
        Err(whole) => {
            let groups = changed.chunk_by(|a, b| a + 1 == *b);
            let edits = groups
                .map(|group| edit(package, source, text, tree, &lines, group[0]..=group[group.len() - 1]));
            edits.collect::<Result<Vec<_>, _>>().map_err(|part| format!("{whole}; {part}"))
        }
    }
}

/// Line of the file, from 1, at which the old side of a hunk begins: of several matches the one nearest to the hint.
fn file_line(hunk: &Hunk, text: &str) -> Result<usize, String> {
    let before: Vec<&str> =
        hunk.lines.iter().filter(|(mark, _)| *mark != '+').map(|(_, code)| code.as_str()).collect();
    let lines: Vec<&str> = text.lines().collect();
    let places = lines.windows(before.len().max(1)).enumerate().filter(|(_, window)| *window == before);
    let nearest = places.map(|(at, _)| at + 1).min_by_key(|at| at.abs_diff(hunk.line));
    nearest.ok_or_else(|| format!("it does not apply to {}", hunk.path))
}

fn edit(
    package: &str,
    source: &Source<'_>,
    text: &str,
    tree: &Tree<'_>,
    lines: &[(char, &str, usize)],
    changed: std::ops::RangeInclusive<usize>,
) -> Result<(Edit, String), String> {
    let (mut begin, mut end) = (*changed.start(), *changed.end());
    let old_lines = || lines[begin..=end].iter().filter(|(mark, ..)| *mark != '+').map(|&(.., line)| line);
    let (first, last) = match (old_lines().min(), old_lines().max()) {
        (Some(first), Some(last)) => (first, last),
        // An insertion has no old lines: the old line before the insertion gives the place.
        _ => (lines[begin].2.saturating_sub(1), lines[begin].2.saturating_sub(1)),
    };
    let holds = |item: &Item<'_>| {
        let code = &source.code[item.tokens.clone()];
        code[0].line <= first && code[code.len() - 1].last_line >= last
    };
    let item = items(source).into_iter().rfind(holds).ok_or_else(|| {
        format!("lines {first} to {last} of {} are in no function, constant or type", source.path)
    })?;
    let code = &source.code[item.tokens.clone()];
    let (item_first, item_last) = (code[0].line, code[code.len() - 1].last_line);
    loop {
        let side = |other: char| -> String {
            lines[begin..=end]
                .iter()
                .filter(|(mark, ..)| *mark != other)
                .map(|(_, code, _)| format!("{code}\n"))
                .collect()
        };
        let found = Edit {
            package: package.to_owned(),
            function: item.path(),
            text: side('+'),
            replacement: side('-'),
        };
        let placed =
            if code_texts(&found.text).is_empty() { Err(String::new()) } else { tree.find(&found).map(drop) };
        let Err(advice) = placed else {
            let mut patch = format!("@@ {package} {}\n", found.function);
            for (mark, code, _) in &lines[begin..=end] {
                let _ = writeln!(patch, "{mark}{code}");
            }
            return Ok((unindented(found), patch));
        };
        // One more line before and behind the change, if the line belongs to the item.
        let may_begin = begin > 0 && lines[begin - 1].2 >= item_first;
        let may_end = end + 1 < lines.len() && lines[end + 1].2 <= item_last;
        if may_begin {
            begin -= 1;
        }
        if may_end && (!may_begin || !code_texts(&found.text).is_empty()) {
            end += 1;
        }
        if !may_begin && !may_end {
            return Err(format!(
                "{advice}, by the lines of the diff ({} bytes): give it more context",
                text.len()
            ));
        }
    }
}

/// Takes the common indentation off both texts of a row.
fn unindented(edit: Edit) -> Edit {
    let indentation = |text: &str| {
        text.lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.len() - line.trim_start().len())
            .min()
    };
    let least = indentation(&edit.text).into_iter().chain(indentation(&edit.replacement)).min().unwrap_or(0);
    let cut = |text: &str| {
        let lines = text.lines().map(|line| line.get(least..).unwrap_or_default());
        lines.map(without_comment).collect::<Vec<_>>().join("\n")
    };
    Edit { text: cut(&edit.text), replacement: cut(&edit.replacement), ..edit }
}

/// A line without a comment at its end.
fn without_comment(line: &str) -> &str {
    let comment = tokens(line).into_iter().find(|token| token.kind == Kind::Comment);
    comment.map_or(line, |comment| line[..super::place::offset(line, comment.text)].trim_end())
}

#[cfg(test)]
mod tests;
