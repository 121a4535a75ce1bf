//! Passwords of clients: the password of `requirepass`, and hashes of users' passwords.
//!
//! Invariants:
//! - The time of a comparison tells nothing of the password but the bound of its length.
//! - `Debug` does not show the password.
//!
//! Neighbours: [`super::authenticate`] and the verifier compare; [`crate::served_database`] has the password in force.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, PasswordVerifier as _, Version};
use ensile_base::random::Random;

/// Longest password in bytes: an argument of a client that has not given the password is no longer.
pub const PASSWORD_BYTES_MAX: usize = 16 << 10;

/// Memory of a new hash in KiB, and the number of passes over the memory: the least that OWASP recommends.
const HASH_KIB: u32 = 7168;
const HASH_PASSES: u32 = 5;

/// Largest memory of a hash in KiB, and largest number of passes: a check ends within a second.
const HASH_KIB_MAX: u32 = 64 << 10;
const HASH_PASSES_MAX: u32 = 16;

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

/// Hash of a user's password: argon2id in the form `$argon2id$v=19$m=7168,t=5,p=1$salt$hash`.
#[derive(Clone)]
pub(crate) struct PasswordHash(argon2::PasswordHash);

impl PasswordHash {
    /// Reads a hash.
    ///
    /// # Errors
    /// The text is no hash of argon2id, or its check would take too much memory or time.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let refused = "a hash begins with $argon2id$, and has at most 64 MiB and 16 passes: make it by `ensile \
                       hash-password`";
        let hash = argon2::PasswordHash::new(text).map_err(|_| refused.to_owned())?;
        let params = Params::try_from(&hash).map_err(|_| refused.to_owned())?;
        let is_argon2id = Algorithm::try_from(hash.algorithm.as_str()) == Ok(Algorithm::Argon2id);
        let is_cheap = params.m_cost() <= HASH_KIB_MAX && params.t_cost() <= HASH_PASSES_MAX;
        if is_argon2id && is_cheap && hash.hash.is_some() { Ok(Self(hash)) } else { Err(refused.to_owned()) }
    }

    /// True if a password has this hash. The call takes milliseconds.
    pub(crate) fn is_of(&self, password: &[u8]) -> bool {
        Argon2::default().verify_password(password, &self.0).is_ok()
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash")
    }
}

/// Makes the hash of a user's password, with a salt of its own, for a `user` line: `#` and the hash.
///
/// # Errors
/// The password is empty, or longer than [`PASSWORD_BYTES_MAX`].
pub fn hash_password(password: &[u8]) -> Result<String, String> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(format!("give a password of 1 to {PASSWORD_BYTES_MAX} bytes"));
    }
    let params = Params::new(HASH_KIB, HASH_PASSES, 1, None).map_err(|error| error.to_string())?;
    let salt = Random::unique_128().to_le_bytes();
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    hasher
        .hash_password_with_salt(password, &salt)
        .map(|hash| hash.to_string())
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{PasswordHash, hash_password};

    #[test]
    fn a_hash_is_of_its_password_only() {
        let (first, second) = (hash_password(b"sesame"), hash_password(b"sesame"));
        let first = first.expect("a short password");
        assert_ne!(Ok(&first), second.as_ref(), "each hash has a salt");
        let hash = PasswordHash::new(&first).expect("a hash");
        assert!(hash.is_of(b"sesame") && !hash.is_of(b"sesam") && !hash.is_of(b""));
        assert!(!format!("{hash:?}").contains(&first[30..]));
        assert!(hash_password(b"").is_err());
    }

    #[test]
    fn a_hash_of_another_kind_or_beyond_the_limits_is_refused() {
        for text in [
            "",
            "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
            "$argon2i$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
            "$argon2id$v=19$m=65537,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
            "$argon2id$v=19$m=8,t=17,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
            "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ",
        ] {
            assert!(PasswordHash::new(text).is_err(), "{text}");
        }
    }
}
