//! Which run of the operating system this is: what one run's mappings hold is gone when it ends.
//!
//! - Linux draws an identifier at each start (`/proc/sys/kernel/random/boot_id`). A suspended machine keeps it, and its
//!   memory; so does a virtual machine that moves.
//! - Other systems have no such identifier that we know to be one for each start: there it is not known.
//!
//! Neighbours: [`crate::Disk::boot`] hands it up; the durability crate writes it into the buffers that it maps.

use std::fmt;

/// An identifier of a run of the operating system, from its start to its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BootId(u128);

impl BootId {
    /// Of a number that no other run has.
    #[must_use]
    pub fn of_number(number: u128) -> Self {
        Self(number)
    }

    /// In the order of its hex digits.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// As [`BootId::to_bytes`] gives it.
    #[must_use]
    pub fn of_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// As the system spells it: 32 hex digits, with lines between them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits: String = text.trim().chars().filter(|char| *char != '-').collect();
        (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok().map(Self)).flatten()
    }

    /// The machine's; `None` where the system does not tell.
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
