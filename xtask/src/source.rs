//! One source file as the rules see it: tokens, comments by line, functions, paths, and the lines of tests.
//!
//! A line is test code if its file lies under `tests/`, is called `tests.rs`, is declared by `#[cfg(test)] mod`, or
//! if an item around it carries `#[cfg(test)]` or `#[test]`.
//!
//! Neighbours: made from [`crate::lexer`]'s tokens, read by every rule in [`mod@crate::tidy`].

use std::collections::BTreeSet;

use crate::lexer::{Kind, Token, tokens};

/// A Rust file of the workspace, taken apart.
pub(crate) struct Source<'s> {
    /// Path from the root of the workspace, with forward slashes.
    pub(crate) path: &'s str,
    pub(crate) lines: Vec<&'s str>,
    /// Tokens, comments excluded.
    pub(crate) code: Vec<Token<'s>>,
    pub(crate) comments: Vec<Token<'s>>,
    /// Index of the partner of every bracket in `code`.
    partners: Vec<Option<usize>>,
    /// True for every line (from 0) of test code.
    test_lines: Vec<bool>,
    /// True if the whole file is test code.
    pub(crate) is_test: bool,
}

/// A function with a body.
pub(crate) struct Function<'s> {
    pub(crate) name: &'s str,
    pub(crate) line: usize,
    pub(crate) last_line: usize,
}

/// `a::b::c`, as an expression or as one leaf of a `use` tree.
pub(crate) struct Path<'s> {
    pub(crate) segments: Vec<&'s str>,
    pub(crate) line: usize,
    pub(crate) in_use: bool,
    pub(crate) renamed: bool,
}

impl<'s> Source<'s> {
    pub(crate) fn new(path: &'s str, text: &'s str) -> Self {
        let (comments, code): (Vec<_>, Vec<_>) =
            tokens(text).into_iter().partition(|t| t.kind == Kind::Comment);
        let lines: Vec<&str> = text.lines().collect();
        let partners = partners(&code);
        let is_test = is_test_path(path);
        let test_lines = vec![is_test; lines.len()];
        let mut source = Self { path, lines, code, comments, partners, test_lines, is_test };
        source.mark_test_items();
        source
    }

    /// Text of token `at`; empty past either end.
    pub(crate) fn text(&self, at: usize) -> &'s str {
        self.code.get(at).map_or("", |token| token.text)
    }

    /// Index of the partner of the bracket at `at`, or `at` without a partner.
    pub(crate) fn partner(&self, at: usize) -> usize {
        self.partners.get(at).copied().flatten().unwrap_or(at)
    }

    /// True if `line` (from 1) is test code.
    pub(crate) fn in_test(&self, line: usize) -> bool {
        self.is_test || self.test_lines.get(line - 1).copied().unwrap_or(false)
    }

    /// Lines that are not test code.
    pub(crate) fn lines_without_tests(&self) -> usize {
        self.test_lines.iter().filter(|&&test| !test).count()
    }

    /// Declares the whole file to be test code.
    pub(crate) fn set_test(&mut self) {
        self.is_test = true;
        self.test_lines.fill(true);
    }

    /// Comments that touch `line` or the `above` lines before. A comment on separate lines with a part in this window
    /// counts from its first line.
    pub(crate) fn comments_near(&self, line: usize, above: usize) -> impl Iterator<Item = &Token<'s>> {
        let mut first = line.saturating_sub(above).max(1);
        while first > 1 && self.is_comment_line(first) && self.is_comment_line(first - 1) {
            first -= 1;
        }
        self.comments.iter().filter(move |comment| comment.last_line >= first && comment.line <= line)
    }

    fn is_comment_line(&self, line: usize) -> bool {
        self.lines.get(line - 1).is_some_and(|text| text.trim_start().starts_with("//"))
    }

    /// Index of the first token of the item with a keyword (or qualifier) at `at`. Visibility, qualifiers and
    /// attributes belong to the item.
    pub(crate) fn item_start(&self, at: usize) -> usize {
        let mut start = at;
        while let Some(before) = start.checked_sub(1) {
            start = match self.text(before) {
                "pub" | "const" | "async" | "default" | "extern" | "unsafe" => before,
                ")" if self.text(self.partner(before).wrapping_sub(1)) == "pub" => self.partner(before) - 1,
                "]" if self.text(self.partner(before).wrapping_sub(1)) == "#" => self.partner(before) - 1,
                _ if self.code[before].kind == Kind::Literal
                    && self.text(before.wrapping_sub(1)) == "extern" =>
                {
                    before
                }
                _ => break,
            };
        }
        start
    }

    /// Comments before and among the tokens that lead up to the item keyword at `at`.
    pub(crate) fn comments_of_item(&self, at: usize) -> impl Iterator<Item = &Token<'s>> {
        let start = self.item_start(at);
        let after = start.checked_sub(1).map_or(0, |before| self.code[before].last_line);
        let until = self.code[at].line;
        self.comments.iter().filter(move |comment| comment.line > after && comment.line <= until)
    }

    /// Functions with a body, closures excluded.
    pub(crate) fn functions(&self) -> Vec<Function<'s>> {
        let mut found = Vec::new();
        for (at, token) in self.code.iter().enumerate() {
            let named = self.code.get(at + 1).is_some_and(|next| next.kind == Kind::Word || next.text == "$");
            if token.kind != Kind::Word || token.text != "fn" || !named {
                continue;
            }
            let end = self.item_end(at);
            if self.text(end) == "}" {
                let name = self.text(at + 1);
                found.push(Function { name, line: token.line, last_line: self.code[end].last_line });
            }
        }
        found
    }

    /// Index of the `}` or `;` at the end of the item that begins at `at`.
    pub(crate) fn item_end(&self, at: usize) -> usize {
        let mut at = at;
        while at < self.code.len() {
            match self.text(at) {
                "{" => return self.partner(at),
                ";" => return at,
                "(" | "[" => at = self.partner(at) + 1,
                ")" | "]" | "}" => return at.saturating_sub(1),
                _ => at += 1,
            }
        }
        self.code.len().saturating_sub(1)
    }

    /// Index of the last token of the field, arm or statement that begins at `at`.
    fn part_end(&self, at: usize) -> usize {
        let mut at = at;
        while at < self.code.len() {
            match self.text(at) {
                "," | ";" => return at,
                "(" | "[" | "{" => at = self.partner(at) + 1,
                ")" | "]" | "}" => return at.saturating_sub(1),
                _ => at += 1,
            }
        }
        self.code.len().saturating_sub(1)
    }

    /// Attributes of the file: index of the `#` and of the first token between the brackets.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.code.len()).filter(|&at| self.text(at) == "#").filter_map(|at| {
            let open = if self.text(at + 1) == "!" { at + 2 } else { at + 1 };
            (self.text(open) == "[").then_some((at, open + 1))
        })
    }

    fn mark_test_items(&mut self) {
        let tests: Vec<(usize, usize)> =
            self.attributes().filter(|&(_, inside)| self.is_test_attribute(inside)).collect();
        for (at, inside) in tests {
            if self.text(at + 1) == "!" {
                self.set_test();
                return;
            }
            let item = self.after_attributes(self.partner(inside - 1) + 1);
            let end = if self.is_item(item) { self.item_end(item) } else { self.part_end(item) };
            let (first, last) =
                (self.code[at].line, self.code.get(end).map_or(self.lines.len(), |t| t.last_line));
            self.test_lines[first - 1..last].fill(true);
        }
    }

    fn after_attributes(&self, at: usize) -> usize {
        let mut at = at;
        while self.text(at) == "#" && self.text(at + 1) == "[" {
            at = self.partner(at + 1) + 1;
        }
        at
    }

    fn is_item(&self, at: usize) -> bool {
        const KEYWORDS: [&str; 11] = [
            "fn",
            "impl",
            "mod",
            "struct",
            "enum",
            "union",
            "use",
            "const",
            "static",
            "trait",
            "macro_rules",
        ];
        let ahead = (at..at + 6).map(|at| self.text(at)).take_while(|text| !matches!(*text, ";" | "{" | ","));
        ahead.into_iter().any(|text| KEYWORDS.contains(&text) || text == "type")
    }

    /// True for `test`, `tokio::test`, or a `cfg(..)` that holds in tests only. Neither `not(test)` nor
    /// `any(test, ..)` holds in tests only.
    fn is_test_attribute(&self, inside: usize) -> bool {
        let end = self.partner(inside - 1);
        if self.text(inside) != "cfg" {
            return self.text(end - 1) == "test" && (inside..end).all(|at| self.text(at) != "(");
        }
        let mut at = inside + 1;
        while at < end {
            match self.text(at) {
                "test" => return true,
                "not" | "any" if self.text(at + 1) == "(" => at = self.partner(at + 1) + 1,
                _ => at += 1,
            }
        }
        false
    }

    /// Paths of the modules declared as `#[cfg(test)] mod name;` in this file.
    pub(crate) fn test_modules(&self) -> BTreeSet<String> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", self.path));
        let stem = file.trim_end_matches(".rs");
        let inner = if matches!(stem, "lib" | "main" | "mod") {
            folder.to_owned()
        } else {
            format!("{folder}/{stem}")
        };
        let declared = (0..self.code.len()).filter(|&at| {
            self.text(at) == "mod" && self.text(at + 2) == ";" && self.in_test(self.code[at].line)
        });
        declared
            .flat_map(|at| {
                let name = self.text(at + 1);
                [format!("{inner}/{name}.rs"), format!("{inner}/{name}/")]
            })
            .collect()
    }

    /// Paths of the file, with flattened `use` trees. The place in a visibility, such as `pub(super)`, names no item.
    pub(crate) fn paths(&self) -> Vec<Path<'s>> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.code.len() {
            let is_word = self.code[at].kind == Kind::Word;
            if is_word && self.text(at) == "use" && self.text(at + 1) != "<" {
                at = self.use_tree(at + 1, &mut Vec::new(), &mut found);
            } else if is_word && self.is_restricted_visibility(at) {
                at = self.partner(at + 1) + 1;
            } else if is_word {
                let line = self.code[at].line;
                let mut segments = vec![self.text(at)];
                while self.text(at + 1) == "::" && self.code.get(at + 2).is_some_and(|t| t.kind == Kind::Word)
                {
                    at += 2;
                    segments.push(self.text(at));
                }
                found.push(Path { segments, line, in_use: false, renamed: false });
                at += 1;
            } else {
                at += 1;
            }
        }
        found
    }

    /// True if the word at `at` is the `pub` of `pub(crate)`, `pub(super)` or `pub(in a::b)`.
    fn is_restricted_visibility(&self, at: usize) -> bool {
        let place = self.text(at + 2);
        self.text(at) == "pub"
            && self.text(at + 1) == "("
            && (place == "in" || matches!(place, "crate" | "self" | "super") && self.text(at + 3) == ")")
    }

    /// Reads one `use` tree from `at`. Returns the index behind the tree.
    fn use_tree(&self, at: usize, prefix: &mut Vec<&'s str>, found: &mut Vec<Path<'s>>) -> usize {
        let (mut at, depth) = (at, prefix.len());
        let line = self.code.get(at).map_or(0, |token| token.line);
        let mut renamed = false;
        loop {
            match self.text(at) {
                "::" => at += 1,
                "{" => {
                    let end = self.partner(at);
                    at += 1;
                    while at < end {
                        let after = self.use_tree(at, prefix, found);
                        // The loop skips a comma, and a mark that no `use` tree has.
                        at = after + usize::from(after == at || self.text(after) == ",");
                    }
                    prefix.truncate(depth);
                    return end + 1;
                }
                "as" => {
                    renamed = true;
                    at += 2;
                }
                "" | ";" | "," | "}" => break,
                segment => {
                    prefix.push(segment);
                    at += 1;
                }
            }
        }
        found.push(Path { segments: prefix.clone(), line, in_use: true, renamed });
        prefix.truncate(depth);
        at
    }
}

fn is_test_path(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn partners(code: &[Token<'_>]) -> Vec<Option<usize>> {
    let mut partners = vec![None; code.len()];
    let mut open = Vec::new();
    for (at, token) in code.iter().enumerate().filter(|(_, token)| token.kind == Kind::Mark) {
        match token.text {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => {
                if let Some(from) = open.pop() {
                    partners[from] = Some(at);
                    partners[at] = Some(from);
                }
            }
            _ => {}
        }
    }
    partners
}

#[cfg(test)]
mod tests;
