//! The moment at which replies go out.
//!
//! Neighbours: a builder and `CONFIG SET` set the moment; [`crate::served_database`] has the moment in force.

/// Moment at which replies go out, by redis' names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Appendfsync {
    /// Once the result is durable on disk: a crash of the machine loses nothing that was replied.
    #[default]
    Always,
    /// At once, when the operating system has the changes: the death of the process loses nothing that was replied. A
    /// crash of the machine may lose the last fraction of a second.
    Everysec,
    /// As [`Everysec`](Self::Everysec): the log is written and synced all the same.
    No,
}

impl Appendfsync {
    const ALL: [Self; 3] = [Self::Always, Self::Everysec, Self::No];

    /// Name as in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
            Self::No => "no",
        }
    }

    /// The value of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| name.eq_ignore_ascii_case(one.name()))
    }
}
