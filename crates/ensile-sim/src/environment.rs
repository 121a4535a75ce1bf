//! Settings of long runs, from the environment. [`count`] refuses zero, because an empty run finds nothing and passes.
//!
//! Neighbours: `schedules`, and the engine's tests that people run for long by hand.

/// Number of the environment variable `name`, or `otherwise` if the variable is unset.
///
/// # Panics
/// If the variable is set and not a number. The panic names the variable.
#[must_use]
pub fn number(name: &str, otherwise: u64) -> u64 {
    at_least(0, name, otherwise)
}

/// Count of the environment variable `name`, at least 1, or `otherwise` if the variable is unset.
///
/// # Panics
/// If the variable is set and not a number from 1 on. The panic names the variable.
#[must_use]
pub fn count(name: &str, otherwise: u64) -> u64 {
    at_least(1, name, otherwise)
}

fn at_least(least: u64, name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => parsed(name, &text, least),
        Err(std::env::VarError::NotPresent) => otherwise,
        Err(error) => panic!("{name}: {error}"),
    }
}

fn parsed(name: &str, text: &str, least: u64) -> u64 {
    let number = text.parse().ok().filter(|number| *number >= least);
    number.unwrap_or_else(|| panic!("{name} is a number from {least} on, and not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read() {
        assert_eq!(parsed("ENSILE_SEED", "0", 0), 0);
        assert_eq!(parsed("ENSILE_SEEDS", "7", 1), 7);
        assert_eq!(number("ENSILE_NOBODY_SETS_THIS", 3), 3);
        assert_eq!(count("ENSILE_NOBODY_SETS_THIS", 4), 4);
    }

    #[test]
    #[should_panic(expected = "ENSILE_SEEDS is a number from 1 on, and not \"0\"")]
    fn a_run_of_nothing_is_refused() {
        parsed("ENSILE_SEEDS", "0", 1);
    }

    #[test]
    #[should_panic(expected = "ENSILE_TRANSACTIONS is a number from 1 on, and not \"abc\"")]
    fn what_is_no_number_is_refused_by_name() {
        parsed("ENSILE_TRANSACTIONS", "abc", 1);
    }
}
