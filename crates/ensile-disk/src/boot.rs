//! Identity of a run of the operating system. The contents of a run's mappings are gone after the run.
//!
//! - Linux draws an identifier at each start (`/proc/sys/kernel/random/boot_id`). A suspended machine keeps identifier
//!   and memory, and a virtual machine that moves does so, too.
//! - Systems without a known identifier per start have an unknown identity.
//!
//! Neighbours: [`crate::Disk::boot`] returns the identity; the durability crate writes the identity into its mapped
//! buffers.

use std::fmt;

/// An identifier of a run of the operating system, from start to end.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BootId(u128);

impl BootId {
    /// The identifier with this number. No other run may have the number.
    #[must_use]
    pub fn of_number(number: u128) -> Self {
        Self(number)
    }

    /// Bytes in the order of the hex digits.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The identifier with the bytes of [`BootId::to_bytes`].
    #[must_use]
    pub fn of_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Parses the system's spelling: 32 hex digits, with hyphens between.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits: String = text.trim().chars().filter(|char| *char != '-').collect();
        (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok().map(Self)).flatten()
    }

    /// The machine's identifier; `None` if the system reports no identifier.
    #[must_use]
    pub fn of_machine() -> Option<Self> {
        #[cfg(target_os = "linux")]
        return Self::parse(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?);
        #[cfg(not(target_os = "linux"))]
        None
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::BootId;

    #[test]
    fn a_boot_is_read_as_the_system_spells_it() {
        let boot = BootId::parse("65c0e87a-1aff-4693-b5cb-aebceb453da9\n").expect("well spelled");
        assert_eq!(boot.to_string(), "65c0e87a1aff4693b5cbaebceb453da9");
        assert_eq!(BootId::of_bytes(boot.to_bytes()), boot);
        for other in ["", "65c0e87a", "65c0e87a-1aff-4693-b5cb-aebceb453dag"] {
            assert_eq!(BootId::parse(other), None, "{other}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_machine_has_one_boot() {
        assert!(BootId::of_machine().is_some());
        assert_eq!(BootId::of_machine(), BootId::of_machine());
    }
}
