//! SIREN's formulas (1) and (2): number of duplicated tuples while a full picture is written (§4.1).
//!
//! ```text
//! duplicates(t) = (Nt - t Rc) * (Nt - Nt ((Nt - g) / Nt)^(t Ru)) / Nt
//! ```
//! The first factor is the number of tuples not yet written by the picture. The second factor, as a share of Nt, is the
//! tuples updated since the freeze. One update duplicates g tuples: one in SIREN (1), a page's tuples in copy-on-update
//! of pages (2).
//!
//! Neighbours: [`super`] prints the formulas, and compares measurements with them.

/// Number of steps of the search for the peak. Each step keeps two thirds of the remaining time.
const STEPS: usize = 100;

/// Tuples with a uniform rate of updates, and the speeds of picture and updates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Nt.
    pub(super) tuples: f64,
    /// Rc: tuples a second that the picture writes.
    pub(super) written_per_s: f64,
    /// Ru: updates a second.
    pub(super) updated_per_s: f64,
}

impl Rates {
    /// Number of duplicated tuples `seconds` after the freeze, if an update duplicates `together` tuples.
    pub(super) fn duplicates(&self, together: f64, seconds: f64) -> f64 {
        let written = seconds * self.written_per_s / self.tuples;
        self.duplicates_after(together, written, seconds * self.updated_per_s)
    }

    /// Number of duplicated tuples once the share `written` of the tuples is written and `updates` updates were made.
    pub(super) fn duplicates_after(&self, together: f64, written: f64, updates: f64) -> f64 {
        let untouched = (1.0 - together / self.tuples).max(0.0).powf(updates);
        self.tuples * (1.0 - written).max(0.0) * (1.0 - untouched)
    }

    /// Seconds until the picture has written every tuple.
    pub(super) fn seconds(&self) -> f64 {
        self.tuples / self.written_per_s
    }

    /// The same picture with `share` of the updates on `part` of the tuples: rates of these tuples, then of the rest.
    /// The tuples of a part are spread evenly over the keys, so the picture takes as long for either part.
    pub(super) fn skewed(&self, share: f64, part: f64) -> [Self; 2] {
        [(share, part), (1.0 - share, 1.0 - part)].map(|(share, part)| Self {
            tuples: self.tuples * part,
            written_per_s: self.written_per_s * part,
            updated_per_s: self.updated_per_s * share,
        })
    }
}

/// Peak number of duplicated tuples, as a share of all tuples; `parts` are written side by side.
pub(super) fn peak_share(parts: &[Rates], together: f64) -> f64 {
    let duplicates = |seconds| parts.iter().map(|part| part.duplicates(together, seconds)).sum::<f64>();
    let tuples: f64 = parts.iter().map(|part| part.tuples).sum();
    let (mut from, mut to) = (0.0, parts.iter().map(Rates::seconds).fold(0.0, f64::max));
    // The sum is concave while the picture is written, so the search finds its one peak.
    for _ in 0..STEPS {
        let third = (to - from) / 3.0;
        if duplicates(from + third) < duplicates(to - third) {
            from += third;
        } else {
            to -= third;
        }
    }
    duplicates(from) / tuples
}

#[cfg(test)]
mod tests;
