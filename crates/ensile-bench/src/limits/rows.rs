//! Rows of figures: an aligned table for people, an array of objects for programs.
//!
//! Invariant: the rows of one table have the same names in the same order.
//!
//! Neighbours: every experiment of [`super`] answers with these.

use std::fmt::Write as _;

use serde::{Serialize, Serializer};

use crate::number::grouped;

/// One figure.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Figure {
    Text(String),
    Count(u64),
    Number(f64),
}

impl Figure {
    fn in_words(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => grouped(*count as f64),
            Self::Number(number) => format!("{number:.2}"),
        }
    }
}

impl From<&str> for Figure {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Figure {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Figure {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Figure {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// One row: figures by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row(Vec<(&'static str, Figure)>);

impl Row {
    pub(crate) fn with(mut self, name: &'static str, figure: impl Into<Figure>) -> Self {
        self.0.push((name, figure.into()));
        self
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, figure)| (name, figure)))
    }
}

/// A line of names, and one for each row.
pub(crate) fn table(rows: &[Row]) -> String {
    let Some(Row(first)) = rows.first() else { return String::new() };
    let names = first.iter().map(|(name, _)| name.replace('_', " ")).collect();
    let figures = rows.iter().map(|Row(row)| row.iter().map(|(_, figure)| figure.in_words()).collect());
    let lines: Vec<Vec<String>> = std::iter::once(names).chain(figures).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..first.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        for (word, width) in line.iter().zip(&widths) {
            let _ = write!(text, "{word:>width$}  ");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Row, table};

    #[test]
    fn a_table_is_aligned_and_programs_get_the_names_in_order() {
        let row = |what: &str, count: u64| Row::default().with("what", what).with("rows_s", count);
        let rows = [row("puts", 1_234_567), row("a", 1)];
        assert_eq!(table(&rows), "what     rows s\nputs  1,234,567\n   a          1\n");
        let json = serde_json::to_string(&rows).expect("plain figures serialize");
        assert_eq!(json, r#"[{"what":"puts","rows_s":1234567},{"what":"a","rows_s":1}]"#);
        assert_eq!(table(&[]), "");
    }
}
