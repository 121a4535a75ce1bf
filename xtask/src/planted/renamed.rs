//! Sightings that stay true after renames: the bug, its command and the functions around it differ from those of an
//! earlier tree by names alone.
//!
//! The compiler checks a rename, so a bug that was seen in the earlier tree needs no new run. The command prints each
//! pair of names: a reader sees a changed name that is no rename, such as `min` for `max`.
//!
//! Neighbours: [`super`] runs this; [`super::place`] finds the functions in both trees.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::candidates::{candidates, readable, stale, texts};
use super::place::{Tree, code_texts};
use super::results::Results;

/// Gives the stale rows the present hash if only names have changed since the tree in `earlier`. Prints the names.
pub(crate) fn carry(root: &Path, earlier: &Path) -> io::Result<bool> {
    let (bugs, now) = (readable(root)?, texts(root)?);
    let (bugs_before, before) = (readable(earlier)?, texts(earlier)?);
    let (tree, tree_before) = (Tree::new(&now), Tree::new(&before));
    let results = Results::of(root, false);
    let rows = results.read()?;
    let candidates = candidates(&tree, &bugs)?;
    let stale = stale(&candidates, &results)?;
    let (mut pairs, mut carried) = (BTreeSet::new(), 0);
    for candidate in candidates.iter().filter(|candidate| stale.contains(&candidate.bug.name)) {
        let name = &candidate.bug.name;
        let (Some(row), Some(bug_before)) =
            (rows.get(name), bugs_before.iter().find(|bug| bug.name == *name))
        else {
            continue;
        };
        let placed = tree_before.place(bug_before).map_err(io::Error::other)?;
        if format!("{:016x}", placed.hash) != row.hash || bug_before.edits.len() != candidate.bug.edits.len()
        {
            continue;
        }
        let mut renames = BTreeSet::new();
        let mut is_renamed = add_renames(&bug_before.command, &candidate.bug.command, &mut renames);
        for (edit_before, edit) in bug_before.edits.iter().zip(&candidate.bug.edits) {
            let (_, item_before) = tree_before.find(edit_before).map_err(io::Error::other)?;
            let (_, item) = tree.find(edit).map_err(io::Error::other)?;
            is_renamed = is_renamed
                && add_renames(&edit_before.text, &edit.text, &mut renames)
                && add_renames(&edit_before.replacement, &edit.replacement, &mut renames)
                && add_token_renames(&item_before, &item, &mut renames);
        }
        if is_renamed {
            let mut row = row.clone();
            row.hash = format!("{:016x}", candidate.placement.hash);
            row.command.clone_from(&candidate.bug.command);
            results.add(row)?;
            pairs.extend(renames);
            carried += 1;
        }
    }
    for (old, new) in &pairs {
        println!("planted: {old} -> {new}");
    }
    println!("planted: {carried} of {} stale rows differ by these names alone", stale.len());
    Ok(true)
}

/// True if two codes differ by words alone. Adds the pairs of different words.
fn add_renames(before: &str, now: &str, renames: &mut BTreeSet<(String, String)>) -> bool {
    add_token_renames(&code_texts(before), &code_texts(now), renames)
}

fn add_token_renames(before: &[&str], now: &[&str], renames: &mut BTreeSet<(String, String)>) -> bool {
    let (before, now) = (without_last_commas(before), without_last_commas(now));
    let is_word = |token: &str| token.starts_with(|first: char| first.is_alphabetic() || first == '_');
    before.len() == now.len()
        && before.iter().zip(&now).all(|(old, new)| {
            let is_rename = is_word(old) && is_word(new) && old != new;
            if is_rename {
                renames.insert(((*old).to_owned(), (*new).to_owned()));
            }
            is_rename || old == new
        })
}

/// The tokens without commas in front of a closing bracket: a longer name adds them by a line break.
fn without_last_commas<'t>(tokens: &[&'t str]) -> Vec<&'t str> {
    let closes = |at: usize| tokens.get(at).is_some_and(|next| matches!(*next, ")" | "]" | "}" | ">"));
    let is_last_comma = |at: usize| tokens[at] == "," && closes(at + 1);
    (0..tokens.len()).filter(|at| !is_last_comma(*at)).map(|at| tokens[at]).collect()
}

#[cfg(test)]
mod tests;
