//! Bugs of the catalogue with their places in the tree, and stale bugs: bugs without a row of the present code.
//!
//! Neighbours: [`super::place`] finds the places, [`super::results`] has the rows; every command of [`super`] reads the
//! bugs here.

use std::io;
use std::path::Path;

use super::catalogue::{Bug, Unreadable, read};
use super::place::{Placement, Tree};
use super::results::Results;
use crate::files::read_tree;

/// A bug with its places in the tree.
pub(crate) struct Candidate<'b> {
    pub(crate) bug: &'b Bug,
    pub(crate) placement: Placement<'b>,
}

pub(super) fn refused(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.to_owned())
}

/// The whole catalogue; an error if a part is unreadable.
pub(super) fn readable(root: &Path) -> io::Result<Vec<Bug>> {
    let (bugs, unreadable) = read(root)?;
    match unreadable.first() {
        Some(Unreadable { file, line, advice }) => Err(refused(&format!("{file}:{line}: {advice}"))),
        None => Ok(bugs),
    }
}

/// Files for planted bugs, as pairs of path and text.
pub(crate) fn texts(root: &Path) -> io::Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for ending in [".rs", ".h", ".hpp"] {
        read_tree(root, "crates", ending, &mut texts)?;
    }
    Ok(texts)
}

pub(super) fn candidates<'b>(tree: &Tree<'_>, bugs: &'b [Bug]) -> io::Result<Vec<Candidate<'b>>> {
    let place = |bug: &'b Bug| match tree.place(bug) {
        Ok(placement) => Ok(Candidate { bug, placement }),
        Err(advice) => Err(refused(&format!("{}:{}: {}: {advice}", bug.file, bug.line, bug.name))),
    };
    bugs.iter().map(place).collect()
}

/// Names of the candidates without a row of the present code.
pub(super) fn stale(candidates: &[Candidate<'_>], results: &Results) -> io::Result<Vec<String>> {
    let rows = results.read()?;
    let is_fresh = |candidate: &Candidate<'_>| {
        let hash = format!("{:016x}", candidate.placement.hash);
        rows.get(&candidate.bug.name).is_some_and(|row| row.hash == hash)
    };
    Ok(candidates
        .iter()
        .filter(|candidate| !is_fresh(candidate))
        .map(|candidate| candidate.bug.name.clone())
        .collect())
}
