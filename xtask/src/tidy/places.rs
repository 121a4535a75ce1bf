//! Places in the tree that a rule excepts or permits: tables of paths with reasons.
//!
//! Neighbours: rules with such a table, as [`super::atomics`] and [`super::unsafety`], look paths up here.

/// True if `path` is one of `places`, lies under a place that ends in `/`, or begins with a place that ends in `*`.
pub(super) fn lies_in(path: &str, places: &[(&str, &str)]) -> bool {
    places.iter().any(|(place, _)| match place.strip_suffix('*') {
        Some(beginning) => path.starts_with(beginning),
        None if place.ends_with('/') => path.starts_with(place),
        None => path == *place,
    })
}
