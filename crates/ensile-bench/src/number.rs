//! Numbers for people, and the median of several.
//!
//! Neighbours: every table, figure and progress line is written with these.

/// The median; the mean of the middle two where there is no middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// `count` and the noun, in the plural unless the count is 1.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count as f64), if count == 1 { "" } else { "s" })
}

/// A whole number with its thousands apart.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
