//! Identity of a database, carried by every file of the database (I1): 128 random bits, drawn when the database is
//! made. A copied file has the same identity; the inodes of the folders tell a copy from the original.
//!
//! Neighbours: manifest, hint, the mark of every folder and the first block of every file have the identity.

use std::fmt;

use ensile_base::random::Random;

/// Identity of a database. Adopting a copy draws a new identity, and keeps the old identity as the parent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity(u128);

impl Identity {
    /// Draws an identity that no other database has.
    pub(crate) fn draw() -> Self {
        Self(Random::unique_128())
    }

    /// Bytes in an opening block, in the order of the hex digits.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Identity from the bytes of an opening block.
    pub(crate) fn of_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Identity from text: 32 lowercase hex digits. An identity has a single spelling.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let identity = Self(u128::from_str_radix(text, 16).ok()?);
        (identity.to_string() == text).then_some(identity)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::Identity;

    #[test]
    fn an_identity_is_spelled_one_way_and_drawn_once() {
        let one = Identity::draw();
        assert_ne!(one, Identity::draw());
        assert_eq!(Identity::parse(&one.to_string()), Some(one));
        let small = Identity(0xa5);
        assert_eq!(small.to_string().len(), 32);
        assert_eq!(Identity::parse(&small.to_string()), Some(small));
        for other in ["a5", "+0000000000000000000000000000000a5", "000000000000000000000000000000A5", ""] {
            assert_eq!(Identity::parse(other), None, "{other}");
        }
    }
}
