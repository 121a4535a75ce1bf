//! Cuts Rust source into tokens, comments included, with the lines they stand on.
//!
//! Only what the rules need is told apart: a word in a string is not a word of code, a lifetime is not an open
//! character literal, nested comments nest. Text that rustc would refuse gives some tokens, never a panic.
//!
//! Neighbours: [`crate::source`] finds functions, items and tests among the tokens.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword or an identifier (`r#type` without its `r#`).
    Word,
    /// One character, or `::`.
    Mark,
    /// A string, character or number.
    Literal,
    /// `'a`.
    Lifetime,
    /// `// ..`, `/* .. */` and the documentation kinds, with their marks.
    Comment,
}

/// A piece of the source, with its first and last line (counted from 1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'s> {
    pub(crate) kind: Kind,
    pub(crate) text: &'s str,
    pub(crate) line: usize,
    pub(crate) last_line: usize,
}

/// All tokens of `text`, in order.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            line += usize::from(first == '\n');
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (kind, length) = measure(rest, first);
        let token = &rest[..length];
        let last_line = line + token.matches('\n').count();
        let text = if kind == Kind::Word { token.trim_start_matches("r#") } else { token };
        found.push(Token { kind, text, line, last_line });
        line = last_line;
        rest = &rest[length..];
    }
    found
}

/// Kind and length of the token that `rest` begins with.
fn measure(rest: &str, first: char) -> (Kind, usize) {
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest));
    }
    if let Some(length) = prefixed_string(rest) {
        return (Kind::Literal, length);
    }
    if first == '\'' {
        return quote(rest);
    }
    if first.is_ascii_digit() {
        return (Kind::Literal, word(rest));
    }
    if let Some(raw) = rest.strip_prefix("r#") {
        return (Kind::Word, "r#".len() + word(raw));
    }
    if is_word(first) {
        return (Kind::Word, word(rest));
    }
    (Kind::Mark, if rest.starts_with("::") { 2 } else { first.len_utf8() })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word(rest: &str) -> usize {
    rest.find(|c| !is_word(c)).unwrap_or(rest.len())
}

fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (2, 1);
    while at < bytes.len() && depth > 0 {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    at
}

/// The length of a string literal of any kind, or of a byte character; `None` if `rest` does not begin with one.
fn prefixed_string(rest: &str) -> Option<usize> {
    let letters = rest.len() - rest.trim_start_matches(['b', 'c', 'r']).len();
    if letters > 2 {
        return None;
    }
    let (prefix, body) = rest.split_at(letters);
    if prefix.ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        if !body[hashes..].starts_with('"') {
            return None;
        }
        let end = format!("\"{}", "#".repeat(hashes));
        let inside = letters + hashes + 1;
        return Some(rest[inside..].find(&end).map_or(rest.len(), |at| inside + at + end.len()));
    }
    let quote = body.chars().next().filter(|&c| c == '"' || (c == '\'' && prefix == "b"))?;
    Some(letters + escaped(body, quote))
}

/// The length of a literal that begins and ends with `quote` and knows back-slashes.
fn escaped(body: &str, quote: char) -> usize {
    let mut escape = false;
    for (at, c) in body.char_indices().skip(1) {
        if escape {
            escape = false;
        } else if c == '\\' {
            escape = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    body.len()
}

/// A character literal (`'a'`, `'\n'`, `'('`) or a lifetime (`'a`).
fn quote(rest: &str) -> (Kind, usize) {
    let mut after = rest.char_indices().skip(1);
    let (Some((_, first)), second) = (after.next(), after.next()) else { return (Kind::Mark, 1) };
    if first == '\\' || second.is_some_and(|(_, c)| c == '\'') {
        return (Kind::Literal, escaped(rest, '\''));
    }
    (Kind::Lifetime, 1 + word(&rest[1..]))
}

#[cfg(test)]
mod tests;
