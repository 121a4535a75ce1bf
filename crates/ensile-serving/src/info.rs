//! The text of `INFO`, in redis' form: a line for each figure, under headings.
//!
//! Figures are of the moment, and wait for nothing. A line with the reason for a failure is present only with the
//! failure.
//!
//! Neighbours: [`crate::ServedProgram::info`] writes; `common_commands` replies the text.

use std::fmt::{Display, Write as _};

/// Version of this crate.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Lines of `INFO`.
#[derive(Debug)]
pub struct InfoText {
    text: String,
    /// Headings that a client asks for, in small letters; none for all.
    wanted: Vec<String>,
    /// True if the last heading is wanted.
    is_wanted: bool,
}

impl InfoText {
    /// Begins the text with the sections that a client names. `all`, `everything`, `default` or no name means all.
    #[must_use]
    pub fn new<'n>(names: impl Iterator<Item = &'n [u8]>) -> Self {
        let mut wanted: Vec<String> =
            names.map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
        if wanted.iter().any(|name| matches!(name.as_str(), "all" | "everything" | "default")) {
            wanted.clear();
        }
        Self { text: String::new(), is_wanted: wanted.is_empty(), wanted }
    }

    /// The written text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Begins a section. Lines of a section that nobody asks for are left out.
    pub fn add_heading(&mut self, heading: &str) {
        debug_assert!(self.text.is_empty() || self.text.ends_with("\r\n"), "a heading begins a line");
        self.is_wanted = self.wanted.is_empty() || self.wanted.contains(&heading.to_ascii_lowercase());
        if self.is_wanted {
            self.text.push_str("# ");
            self.text.push_str(heading);
            self.text.push_str("\r\n");
        }
    }

    /// Adds a figure on a line of its own. Spaces replace line ends in the figure.
    pub fn add(&mut self, name: &str, figure: impl Display) {
        debug_assert!(!name.contains([':', '\r', '\n']), "a client reads the name up to the colon");
        if !self.is_wanted {
            return;
        }
        let begin = self.text.len();
        // A write to memory does not fail.
        let _ = write!(self.text, "{name}:{figure}");
        if self.text[begin..].contains(['\r', '\n']) {
            let line = self.text.split_off(begin).replace(['\r', '\n'], " ");
            self.text.push_str(&line);
        }
        debug_assert!(!self.text[begin..].contains(['\r', '\n']), "a figure is one line");
        self.text.push_str("\r\n");
    }

    /// Adds a figure if there is one.
    pub fn add_some(&mut self, name: &str, figure: Option<impl Display>) {
        if let Some(figure) = figure {
            self.add(name, figure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::InfoText;

    #[test]
    fn a_figure_is_one_line() {
        let mut lines = InfoText::new(std::iter::empty());
        lines.add("error", "first\r\nsecond:3");
        lines.add_some("none", None::<u64>);
        lines.add("number", 7);
        assert_eq!(lines.as_str(), "error:first  second:3\r\nnumber:7\r\n");
    }

    #[test]
    fn sections_without_interest_are_left_out() {
        let text = |names: &[&[u8]]| {
            let mut text = InfoText::new(names.iter().copied());
            for heading in ["Server", "Memory"] {
                text.add_heading(heading);
                text.add("in", heading);
            }
            text.as_str().to_owned()
        };
        assert_eq!(text(&[b"memory"]), "# Memory\r\nin:Memory\r\n");
        assert_eq!(text(&[b"memory", b"ALL"]), text(&[]));
        assert_eq!(text(&[b"none"]), "");
    }
}
