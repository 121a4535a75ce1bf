//! The catalogue of planted bugs: rows of `planted/ROOM.toml` and patches `planted/ROOM/NAME.patch`.
//!
//! A row replaces one text in one function. A patch has a head with the same fields, and hunks. A hunk begins with
//! `@@ CRATE FUNCTION`; the first column of its lines is that of a unified diff. Rows and patches have no line numbers
//! and no file names.
//!
//! Neighbours: [`super::place`] finds the texts; decision 0006 has the reasons for the two forms.

use std::io;
use std::path::Path;

use serde::Deserialize;

/// A bug that somebody could write by mistake, and the command that must fail with it.
pub(crate) struct Bug {
    pub(crate) name: String,
    /// Path of the bug's row or patch, from the root of the workspace.
    pub(crate) file: String,
    /// Line of the bug in its file.
    pub(crate) line: usize,
    /// Broken conditions of `docs/internals/protocols/`, the bug's own first.
    pub(crate) condition: String,
    /// Whole command, with its environment.
    pub(crate) command: String,
    /// Fault that the command must show.
    pub(crate) sign: String,
    pub(crate) edits: Vec<Edit>,
}

/// Code that a bug replaces.
pub(crate) struct Edit {
    pub(crate) package: String,
    /// Function, constant or type, with the type or trait around it.
    pub(crate) function: String,
    pub(crate) text: String,
    pub(crate) replacement: String,
}

/// A bug that cannot be read.
pub(crate) struct Unreadable {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) advice: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    bug: Vec<toml::Spanned<Row>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    condition: String,
    #[serde(rename = "crate")]
    package: String,
    function: String,
    text: String,
    replacement: String,
    command: String,
    sign: String,
}

/// The bugs of the tree under `root` in the order of their names, and the unreadable bugs.
pub(crate) fn read(root: &Path) -> io::Result<(Vec<Bug>, Vec<Unreadable>)> {
    let mut files = Vec::new();
    crate::files::read_tree(root, "planted", "", &mut files)?;
    let (mut bugs, mut unreadable) = (Vec::new(), Vec::new());
    for (file, text) in &files {
        let read = match file.rsplit_once('.') {
            Some((_, "toml")) => rows(file, text),
            Some((_, "patch")) => patch(file, text).map(|bug| vec![bug]),
            _ => Err((1, "it is neither a table of rows nor a patch: remove it".to_owned())),
        };
        match read {
            Ok(read) => bugs.extend(read),
            Err((line, advice)) => unreadable.push(Unreadable { file: file.clone(), line, advice }),
        }
    }
    bugs.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in bugs.windows(2).filter(|pair| pair[0].name == pair[1].name) {
        let advice =
            format!("`{}` is the name of another bug, in {}: choose one", pair[1].name, pair[0].file);
        unreadable.push(Unreadable { file: pair[1].file.clone(), line: pair[1].line, advice });
    }
    Ok((bugs, unreadable))
}

fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn rows(file: &str, text: &str) -> Result<Vec<Bug>, (usize, String)> {
    let table: Table = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        (line, format!("it cannot be read as a table of bugs: {}", error.message()))
    })?;
    let bug = |row: toml::Spanned<Row>| {
        let line = line_at(text, row.span().start);
        let Row { name, condition, package, function, text, replacement, command, sign } = row.into_inner();
        let edits = vec![Edit { package, function, text, replacement }];
        Bug { name, file: file.to_owned(), line, condition, command, sign, edits }
    };
    Ok(table.bug.into_iter().map(bug).collect())
}

fn patch(file: &str, text: &str) -> Result<Bug, (usize, String)> {
    let (mut condition, mut command, mut sign) = (None, None, None);
    let mut edits: Vec<Edit> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let refuse = |advice: &str| Err((at + 1, advice.to_owned()));
        if let Some(place) = line.strip_prefix("@@ ") {
            let Some((package, function)) = place.split_once(' ') else {
                return refuse("a hunk begins with `@@ CRATE FUNCTION`");
            };
            let (package, function) = (package.to_owned(), function.trim().to_owned());
            edits.push(Edit { package, function, text: String::new(), replacement: String::new() });
            continue;
        }
        let Some(edit) = edits.last_mut() else {
            match line.split_once(": ") {
                Some(("Condition", value)) => condition = Some(value.to_owned()),
                Some(("Command", value)) => command = Some(value.to_owned()),
                Some(("Sign", value)) => sign = Some(value.to_owned()),
                _ if line.is_empty() => {}
                _ => {
                    return refuse(
                        "a head has lines `Condition: ..`, `Command: ..` and `Sign: ..` and no other",
                    );
                }
            }
            continue;
        };
        let Some(mark) = line.chars().next() else { continue };
        let code = &line[mark.len_utf8()..];
        let (is_before, is_after) = match mark {
            ' ' => (true, true),
            '-' => (true, false),
            '+' => (false, true),
            _ => return refuse("a line of a hunk begins with a space, `-` or `+`"),
        };
        for (_, side) in [(is_before, &mut edit.text), (is_after, &mut edit.replacement)]
            .into_iter()
            .filter(|(is_there, _)| *is_there)
        {
            side.push_str(code);
            side.push('\n');
        }
    }
    let missing = |field: &str| (1, format!("its head has no line `{field}: ..`"));
    if edits.is_empty() {
        return Err((1, "it has no hunk: each begins with `@@ CRATE FUNCTION`".to_owned()));
    }
    Ok(Bug {
        name: file.rsplit('/').next().unwrap_or(file).trim_end_matches(".patch").to_owned(),
        file: file.to_owned(),
        line: 1,
        condition: condition.ok_or_else(|| missing("Condition"))?,
        command: command.ok_or_else(|| missing("Command"))?,
        sign: sign.ok_or_else(|| missing("Sign"))?,
        edits,
    })
}

#[cfg(test)]
mod tests;
