//! Patterns of keys, as in `SCAN`'s `MATCH`, in redis' form: `*`, `?`, `[a-c]`, `[^x]`, and `\` before any byte.
//!
//! Invariant: the time is at most the product of both lengths, for every pattern: the match goes back only to the last
//! star.
//!
//! Neighbours: services show the keys that match.

/// True if the whole of `text` matches.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    // Place behind the last star, and the end of the text that the star stands for.
    let mut star: Option<(usize, usize)> = None;
    loop {
        debug_assert!(
            at <= pattern.len() && position <= text.len(),
            "a match stays within the pattern and the text"
        );
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, position));
            at += 1;
            continue;
        }
        let byte = text.get(position).copied();
        let step = byte.and_then(|byte| match_element(&pattern[at..], byte));
        match (step, star) {
            (Some(length), _) => {
                debug_assert!(length > 0, "each element of a pattern goes on");
                at += length;
                position += 1;
            }
            (None, _) if byte.is_none() && at == pattern.len() => return true,
            (None, Some((behind, end))) if end < text.len() => {
                star = Some((behind, end + 1));
                (at, position) = (behind, end + 1);
            }
            _ => return false,
        }
    }
}

/// Length of the pattern's first element, if the element is no star and matches the byte.
fn match_element(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let (is_in, length) = class_has(class, byte);
            is_in.then_some(1 + length)
        }
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [plain, ..] => (*plain == byte).then_some(1),
        [] => None,
    }
}

/// True if a class has the byte; and the length of the class, its closing bracket included. A class that is not closed
/// ends with the pattern.
fn class_has(class: &[u8], byte: u8) -> (bool, usize) {
    let is_negated = class.first() == Some(&b'^');
    let (mut at, mut is_in) = (usize::from(is_negated), false);
    loop {
        match &class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                is_in |= *escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                is_in |= (*from.min(to)..=*from.max(to)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                is_in |= *plain == byte;
                at += 1;
            }
        }
    }
    debug_assert!(at <= class.len(), "a class ends with the pattern");
    (is_in != is_negated, at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "a"),
            ("a*c", "abc"),
            ("a*c", "ac"),
            ("a**c", "axxc"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[a-c]llo", "hbllo"),
            ("h[^e]llo", "hxllo"),
            ("h\\*llo", "h*llo"),
            ("*a*b*", "xxaxxb"),
            ("[\\]]", "]"),
            ("key:*:x", "key::x"),
            ("*aab", "aaab"),
            ("[c-a]", "b"),
            ("", ""),
            ("[a", "a"),
        ] {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("a*c", "abd"),
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("h\\*llo", "hello"),
            ("*a", "ab"),
            ("a?", "a"),
            ("[a-c]", "d"),
            ("*aab", "aaba"),
        ] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        assert!(!matches("*a".repeat(30).as_bytes(), "a".repeat(3000).replace("aaa", "aab").as_bytes()));
    }
}
