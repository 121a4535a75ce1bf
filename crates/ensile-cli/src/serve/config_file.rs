//! The configuration file: lines of a name and values, in the form of redis.conf.
//!
//! ```text
//! file    ::= line*
//! line    ::= blank | '#' comment | name value*
//! value   ::= plain | '"' (character | '\' escape)* '"' | "'" (character | "\'")* "'"
//! escape  ::= 'n' | 'r' | 't' | 'b' | 'a' | 'x' digit digit | any other character, for itself
//! ```
//! Invariant: every error has the number of its line.
//!
//! Neighbours: [`super::settings`] gives the lines their meaning.

use std::iter::Peekable;
use std::str::Chars;

/// A line with a setting.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConfigLine {
    /// Number of the line, from 1.
    pub(super) number: usize,
    /// Name in small letters.
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

/// A line that is not understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineError {
    /// Number of the line, from 1.
    pub(super) number: usize,
    pub(super) reason: String,
}

/// Reads the lines of a file.
///
/// # Errors
/// The first line with an unfinished quotation or an unknown escape.
pub(super) fn config_lines(text: &str) -> Result<Vec<ConfigLine>, LineError> {
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = words(line).map_err(|reason| LineError { number, reason })?.into_iter();
        // A line that is not blank has a word.
        let Some(name) = words.next() else { continue };
        lines.push(ConfigLine { number, name: name.to_lowercase(), values: words.collect() });
    }
    Ok(lines)
}

/// Splits a line into words.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let word = match rest.peek() {
            None => return Ok(words),
            Some('"') => double_quoted(&mut rest)?,
            Some('\'') => single_quoted(&mut rest)?,
            Some(_) => {
                let plain = std::iter::from_fn(|| rest.next_if(|c| !c.is_whitespace()));
                plain.collect()
            }
        };
        words.push(word);
    }
}

const UNFINISHED: &str = "a quotation has no end: close it with the same mark, with a space behind it";

/// A value between `"`.
fn double_quoted(rest: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    rest.next();
    let mut word = String::new();
    loop {
        match rest.next().ok_or(UNFINISHED)? {
            '"' => break,
            '\\' => word.push(escaped(rest)?),
            other => word.push(other),
        }
    }
    check_end(rest)?;
    Ok(word)
}

/// The character behind `\`.
fn escaped(rest: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    Ok(match rest.next().ok_or(UNFINISHED)? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\x08',
        'a' => '\x07',
        'x' => {
            let mut digit = || rest.next().and_then(|c| c.to_digit(16));
            let code = digit().zip(digit()).map(|(high, low)| high * 16 + low);
            let character = code.filter(|code| *code < 0x80).and_then(char::from_u32);
            character.ok_or("\\x has two digits, of a character up to \\x7f")?
        }
        other => other,
    })
}

/// A value between `'`, where `\'` is the mark itself.
fn single_quoted(rest: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    rest.next();
    let mut word = String::new();
    loop {
        match rest.next().ok_or(UNFINISHED)? {
            '\'' => break,
            '\\' if rest.next_if_eq(&'\'').is_some() => word.push('\''),
            other => word.push(other),
        }
    }
    check_end(rest)?;
    Ok(word)
}

/// Checks that a quotation ends with its word.
fn check_end(rest: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    match rest.peek() {
        Some(c) if !c.is_whitespace() => Err(UNFINISHED.to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
