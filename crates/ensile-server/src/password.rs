//! The password of clients.
//!
//! Invariants:
//! - The time of a comparison tells nothing of the password but the bound of its length.
//! - `Debug` does not show the password.
//!
//! Neighbours: [`crate::access`] compares; [`crate::served_database`] has the password in force.

use std::fmt;

/// Longest password in bytes: an argument of a client that has not given the password is no longer.
pub const PASSWORD_BYTES_MAX: usize = 16 << 10;

/// A password.
pub(crate) struct Password(Box<[u8]>);

impl Password {
    /// A password; an empty password is none.
    pub(crate) fn new(password: &[u8]) -> Option<Self> {
        (!password.is_empty()).then(|| Self(password.into()))
    }

    /// True if clients can give the password.
    pub(crate) fn is_givable(&self) -> bool {
        self.0.len() <= PASSWORD_BYTES_MAX
    }

    /// True if the given password is this one. Every byte of both is looked at.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        let longest = self.0.len().max(given.len());
        let byte = |text: &[u8], at: usize| text.get(at).copied().unwrap_or_default();
        let differences = (0..longest).fold(0, |all, at| all | (byte(&self.0, at) ^ byte(given, at)));
        std::hint::black_box(differences) == 0 && self.0.len() == given.len()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}
