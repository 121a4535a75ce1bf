//! Inline commands: words of a line, split as redis splits a line from a terminal.
//!
//! White space divides words. Inside `"..."` the escapes are `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH`, and a `\` before any
//! other byte means that byte. Inside `'...'` the only escape is `\'`. A closing quote ends its word. One difference:
//! redis ends a line at a NUL, because of its C strings; here NUL is an ordinary byte.
//!
//! Neighbours: [`crate::request`] finds the line and provides the memory for the words.

use crate::error::ProtocolError;

/// Splits `line` and appends its words to `words`. Calls `word` with the place of every word.
pub(crate) fn split(
    line: &[u8],
    words: &mut Vec<u8>,
    mut word: impl FnMut(usize, usize) -> Result<(), ProtocolError>,
) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        let skipped = rest.iter().position(|byte| !is_space(*byte));
        let Some(skipped) = skipped else { return Ok(()) };
        rest = &rest[skipped..];
        let from = words.len();
        rest = one_word(rest, words)?;
        word(from, words.len())?;
    }
}

/// Appends the first word of `rest`. Returns the bytes behind the word.
fn one_word<'l>(mut rest: &'l [u8], words: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    while let Some((&byte, behind)) = rest.split_first() {
        rest = match byte {
            b'"' => return expect_separator(double_quoted(behind, words)?),
            b'\'' => return expect_separator(single_quoted(behind, words)?),
            _ if is_space(byte) => return Ok(rest),
            _ => {
                words.push(byte);
                behind
            }
        };
    }
    Ok(rest)
}

/// Checks that white space or the line's end follows a closing quote.
fn expect_separator(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    if rest.first().is_none_or(|byte| is_space(*byte)) { Ok(rest) } else { Err(ProtocolError::Quotes) }
}

fn double_quoted<'l>(mut rest: &'l [u8], words: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        let (byte, behind) = match rest {
            [b'"', behind @ ..] => return Ok(behind),
            [b'\\', b'x', high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), behind)
            }
            [b'\\', escaped, behind @ ..] => (unescape(*escaped), behind),
            [byte, behind @ ..] => (*byte, behind),
            [] => return Err(ProtocolError::Quotes),
        };
        words.push(byte);
        rest = behind;
    }
}

fn single_quoted<'l>(mut rest: &'l [u8], words: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        let (byte, behind) = match rest {
            [b'\'', behind @ ..] => return Ok(behind),
            [b'\\', b'\'', behind @ ..] => (b'\'', behind),
            [byte, behind @ ..] => (*byte, behind),
            [] => return Err(ProtocolError::Quotes),
        };
        words.push(byte);
        rest = behind;
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// True for white space, as `isspace` of C.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::split;
    use crate::error::ProtocolError;

    fn words(line: &str) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        split(line.as_bytes(), &mut bytes, |from, to| {
            places.push((from, to));
            Ok(())
        })?;
        Ok(places.into_iter().map(|(from, to)| bytes[from..to].to_vec()).collect())
    }

    #[test]
    fn words_quotes_and_escapes() {
        let whole = |line: &str, wanted: &[&[u8]]| assert_eq!(words(line).expect("it is whole"), wanted);
        whole("", &[]);
        whole(" \t\x0b ", &[]);
        whole("  set a\tb  ", &[b"set", b"a", b"b"]);
        whole(r#"set "a b" 'c d'"#, &[b"set", b"a b", b"c d"]);
        whole(
            r#"set "\n\r\t\b\a\"\\\q" "\x41\xfF\xg1\x4""#,
            &[b"set", b"\n\r\t\x08\x07\"\\q", b"A\xffxg1x4"],
        );
        whole(r#"set '\n\'' "" ''"#, &[b"set", b"\\n'", b"", b""]);
        whole(r#"a"b c" d"#, &[b"ab c", b"d"]);
        for line in [r#"set "a"#, "set 'a", r#"set "a"b"#, "set 'a'b", r#"set "a\"#, r#"set "a\""#] {
            assert_eq!(words(line), Err(ProtocolError::Quotes), "{line}");
        }
    }
}
