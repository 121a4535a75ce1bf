//! Items of a source file by the names that the catalogue uses: `serialization_point`, `Manifest::write`, `SALT_BYTES`.
//!
//! A name has no file and no module, so a moved function keeps its name. Two items of a crate may share a name. The
//! text that a planted bug replaces tells the two items apart.
//!
//! Neighbours: [`super::place`] looks for the text inside an item; [`crate::source`] has the tokens.

use std::ops::Range;

use crate::lexer::Kind;
use crate::source::Source;

/// A function, constant, static or type, with the type of the `impl` block or the trait around it.
pub(crate) struct Item<'s> {
    /// Name of the type or trait around the item; `None` for a free item.
    owner: Option<&'s str>,
    name: &'s str,
    /// Positions of the item's tokens in [`Source::code`], attributes and visibility included.
    pub(crate) tokens: Range<usize>,
}

impl Item<'_> {
    /// The name as the catalogue writes it.
    pub(crate) fn path(&self) -> String {
        self.owner.map_or_else(|| self.name.to_owned(), |owner| format!("{owner}::{}", self.name))
    }

    /// True if `path` is the item's name.
    pub(crate) fn matches(&self, path: &str) -> bool {
        match (path.rsplit_once("::"), self.owner) {
            (Some((owner, name)), Some(own)) => owner == own && name == self.name,
            (None, None) => path == self.name,
            _ => false,
        }
    }
}

/// Items of a file, outer items before inner items. A C header is a single item with the name of the file.
pub(crate) fn items<'s>(source: &Source<'s>) -> Vec<Item<'s>> {
    let mut found = Vec::new();
    if is_header(source.path) {
        let name = source.path.rsplit('/').next().unwrap_or(source.path);
        return vec![Item { owner: None, name, tokens: 0..source.code.len() }];
    }
    // Owners of the blocks around a token: the last owner counts.
    let mut blocks: Vec<(usize, &str)> = Vec::new();
    for (at, token) in source.code.iter().enumerate() {
        while blocks.last().is_some_and(|&(end, _)| at > end) {
            blocks.pop();
        }
        if token.kind != Kind::Word {
            continue;
        }
        let is_named =
            source.code.get(at + 1).is_some_and(|next| next.kind == Kind::Word || next.text == "$");
        match token.text {
            "impl" if begins_item(source, at) => {
                if let Some((open, owner)) = implemented_type(source, at) {
                    blocks.push((source.partner(open), owner));
                }
            }
            "fn" | "const" | "static" | "struct" | "enum" | "trait" | "macro_rules"
                if is_named || token.text == "macro_rules" =>
            {
                // `const fn` is found at its `fn`, `static mut` has its name behind `mut`.
                let offset = match (token.text, source.text(at + 1)) {
                    ("const", "fn" | "unsafe" | "async" | "extern") => continue,
                    ("macro_rules", _) | (_, "mut" | "$") => 2,
                    _ => 1,
                };
                let end = source.item_end(at);
                let owner = blocks.last().map(|&(_, owner)| owner);
                let name = source.text(at + offset);
                found.push(Item { owner, name, tokens: source.item_start(at)..end + 1 });
                if token.text == "trait" && source.text(end) == "}" {
                    blocks.push((end, name));
                }
            }
            _ => {}
        }
    }
    found
}

/// True if the file is a header for C or C++.
pub(crate) fn is_header(path: &str) -> bool {
    path.ends_with(".h") || path.ends_with(".hpp")
}

/// True if `impl` at `at` begins a block, and is no `impl Trait` in a type.
fn begins_item(source: &Source<'_>, at: usize) -> bool {
    let start = source.item_start(at);
    matches!(source.text(start.wrapping_sub(1)), "" | "}" | ";" | "{" | "]")
}

/// The `{` of an `impl` block, and the name of the block's type.
fn implemented_type<'s>(source: &Source<'s>, at: usize) -> Option<(usize, &'s str)> {
    let (mut depth, mut owner, mut in_bounds) = (0_usize, None, false);
    for at in at + 1..source.code.len() {
        let token = source.code[at];
        match token.text {
            "<" => depth += 1,
            // The arrow of a function type closes nothing.
            ">" if source.text(at - 1) != "-" => depth = depth.saturating_sub(1),
            "{" if depth == 0 => return owner.map(|owner| (at, owner)),
            ";" => return None,
            "for" if depth == 0 && source.text(at + 1) != "<" => owner = None,
            "where" if depth == 0 => in_bounds = true,
            _ if depth == 0
                && !in_bounds
                && token.kind == Kind::Word
                && !matches!(token.text, "dyn" | "mut" | "unsafe" | "const") =>
            {
                owner = Some(token.text);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
