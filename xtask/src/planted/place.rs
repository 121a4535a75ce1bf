//! Place of a planted bug in the sources. The bug's text is looked for as tokens, inside the named item.
//!
//! Comments and white space do not count. A rewritten comment, another line break and a function in another file leave
//! the catalogue as it is. The text must stand exactly once among all items of the given name in the crate.
//!
//! Neighbours: [`super::catalogue`] has the edits; [`mod@crate::tidy`] and [`super::run`] place them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::catalogue::{Bug, Edit};
use super::items::{is_header, items};
use crate::lexer::{Kind, tokens};
use crate::source::Source;

/// A replacement in one file.
pub(crate) struct Placed<'b> {
    /// Path of the file from the root of the workspace.
    pub(crate) path: String,
    /// Bytes of the file that are replaced.
    pub(crate) range: Range<usize>,
    pub(crate) replacement: &'b str,
}

/// Places of a bug, and the hash by which a run finds a stale row of results.
pub(crate) struct Placement<'b> {
    pub(crate) edits: Vec<Placed<'b>>,
    /// Hash of the tokens of the changed items, of the bug's own text and of its command.
    pub(crate) hash: u64,
}

/// All sources of the workspace, by crate.
pub(crate) struct Tree<'s> {
    crates: BTreeMap<&'s str, Vec<(Source<'s>, &'s str)>>,
}

impl<'s> Tree<'s> {
    /// Takes pairs of path and text; only sources of crates that ship and headers for C count.
    pub(crate) fn new(texts: &'s [(String, String)]) -> Self {
        let mut crates: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (path, text) in texts {
            let mut parts = path.split('/');
            let (Some("crates"), Some(name), Some(folder)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if folder != "src" && !is_header(path) {
                continue;
            }
            let source = Source::new(path, text);
            if !source.is_test {
                crates.entry(name).or_default().push((source, text.as_str()));
            }
        }
        Self { crates }
    }

    /// Finds all edits of a bug. The error is the advice to its author.
    pub(crate) fn place<'b>(&self, bug: &'b Bug) -> Result<Placement<'b>, String> {
        let mut hasher = DefaultHasher::new();
        bug.command.hash(&mut hasher);
        let mut edits = Vec::new();
        for edit in &bug.edits {
            let (placed, item) = self.find(edit)?;
            code_texts(&edit.text).hash(&mut hasher);
            code_texts(&edit.replacement).hash(&mut hasher);
            item.hash(&mut hasher);
            edits.push(placed);
        }
        Ok(Placement { edits, hash: hasher.finish() })
    }

    pub(crate) fn find<'b>(&self, edit: &'b Edit) -> Result<(Placed<'b>, Vec<&'s str>), String> {
        let Edit { package, function, text, replacement } = edit;
        let wanted = code_texts(text);
        let files =
            self.crates.get(package.as_str()).ok_or_else(|| format!("there is no crate `{package}`"))?;
        if wanted.is_empty() {
            return Err(format!("its text in `{function}` is empty: give the code that it replaces"));
        }
        let (mut found, mut is_known) = (BTreeMap::new(), false);
        for (source, text) in files {
            for item in items(source).into_iter().filter(|item| item.matches(function)) {
                is_known = true;
                let code = &source.code[item.tokens.clone()];
                for at in 0..(code.len() + 1).saturating_sub(wanted.len()) {
                    let window = &code[at..at + wanted.len()];
                    if window.iter().zip(&wanted).all(|(token, wanted)| token.text == *wanted) {
                        let first = offset(text, window[0].text);
                        let last = window[wanted.len() - 1].text;
                        let range = first..offset(text, last) + last.len();
                        // Of nested items the outer item comes first and counts.
                        found.entry((source.path, range.start)).or_insert_with(|| (range, code));
                    }
                }
            }
        }
        let mut places = found.into_iter();
        match (places.next(), places.next()) {
            (Some(((path, _), (range, code))), None) => {
                let item = code.iter().map(|token| token.text).collect();
                Ok((Placed { path: path.to_owned(), range, replacement }, item))
            }
            (Some(_), Some(_)) => {
                Err(format!("its text stands more than once in `{function}` of {package}: give more of it"))
            }
            (None, _) if is_known => Err(format!(
                "its text is not in `{function}` of {package} any more: write it again, or remove the bug"
            )),
            (None, _) => {
                Err(format!("{package} has no `{function}`: name the function in which its text stands now"))
            }
        }
    }

    /// The sources of a crate with their texts.
    pub(crate) fn files(&self, package: &str) -> &[(Source<'s>, &'s str)] {
        self.crates.get(package).map_or(&[], Vec::as_slice)
    }
}

/// `text` with every edit of a file done.
pub(crate) fn apply(text: &str, edits: &mut [&Placed<'_>]) -> Result<String, String> {
    edits.sort_by_key(|edit| edit.range.start);
    let (mut changed, mut at) = (String::with_capacity(text.len()), 0);
    for Placed { range, replacement, .. } in edits.iter() {
        if range.start < at {
            return Err("two of its edits overlap: make one of them".to_owned());
        }
        changed.push_str(&text[at..range.start]);
        changed.push_str(replacement);
        at = range.end;
    }
    changed.push_str(&text[at..]);
    Ok(changed)
}

/// Texts of all tokens but comments.
pub(crate) fn code_texts(text: &str) -> Vec<&str> {
    tokens(text).into_iter().filter(|token| token.kind != Kind::Comment).map(|token| token.text).collect()
}

/// Position of `part`, which is a slice of `whole`, in it.
pub(crate) fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

#[cfg(test)]
mod tests;
