//! SIREN's formulas (1) and (2): how many tuples are there twice while a full picture is written (§4.1).
//!
//! ```text
//! duplicates(t) = (Nt - t Rc) * (Nt - Nt ((Nt - g) / Nt)^(t Ru)) / Nt
//! ```
//! The first factor is what the picture has not written yet. The second, as a share of Nt, is what was updated since
//! the freeze. One update duplicates g tuples: one in SIREN (1), a page's in copy-on-update of pages (2).
//!
//! Neighbours: [`super`] prints them, and holds what was measured against them.

/// Steps of the search for the peak. Each keeps two thirds of the time that is left.
const STEPS: usize = 100;

/// Tuples that are updated alike, and how fast the picture and the updates go through them.
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
    /// Tuples that are there twice `seconds` after the freeze, if an update duplicates `together` tuples.
    pub(super) fn duplicates(&self, together: f64, seconds: f64) -> f64 {
        let written = seconds * self.written_per_s / self.tuples;
        self.duplicates_after(together, written, seconds * self.updated_per_s)
    }

    /// The same once this share of the tuples is written and so many updates were made, however fast.
    pub(super) fn duplicates_after(&self, together: f64, written: f64, updates: f64) -> f64 {
        let untouched = (1.0 - together / self.tuples).max(0.0).powf(updates);
        self.tuples * (1.0 - written).max(0.0) * (1.0 - untouched)
    }

    /// Seconds until the picture has written all of them.
    pub(super) fn seconds(&self) -> f64 {
        self.tuples / self.written_per_s
    }

    /// The same picture, in which `share` of the updates go to `part` of the tuples: those tuples, then the others.
    /// They are spread evenly over the keys, so the picture takes as long for each.
    pub(super) fn skewed(&self, share: f64, part: f64) -> [Self; 2] {
        [(share, part), (1.0 - share, 1.0 - part)].map(|(share, part)| Self {
            tuples: self.tuples * part,
            written_per_s: self.written_per_s * part,
            updated_per_s: self.updated_per_s * share,
        })
    }
}

/// The most tuples that are there twice at a time, as a share of all; `parts` are written side by side.
pub(super) fn peak_share(parts: &[Rates], together: f64) -> f64 {
    let duplicates = |seconds| parts.iter().map(|part| part.duplicates(together, seconds)).sum::<f64>();
    let tuples: f64 = parts.iter().map(|part| part.tuples).sum();
    let (mut from, mut to) = (0.0, parts.iter().map(Rates::seconds).fold(0.0, f64::max));
    // The sum is concave while the picture is written: it has one peak.
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
