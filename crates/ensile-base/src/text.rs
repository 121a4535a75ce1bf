//! Cut of texts for places of a fixed size.
//!
//! Neighbours: names of folders, and the error texts of the library for C, have such places.

/// Beginning of `text` with at most `bytes_max` bytes, cut between two characters.
#[must_use]
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::cut;

    #[test]
    fn a_character_is_cut_off_as_a_whole() {
        assert_eq!([cut("aé", 3), cut("aé", 2), cut("aé", 1), cut("é", 1)], ["aé", "a", "a", ""]);
    }
}
