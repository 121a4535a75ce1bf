//! Results of a process-safe life that the folder cannot prove: their files, the reason, and the remedy.
//!
//! Invariant: B4: every reader of such a folder reports the possible loss. The report names files, and counts no
//! entries (decision 0018).
//!
//! Neighbours: `store::mapped_buffers` reads the buffers; `recovery::mapped_tail` gives the reason and the files to the
//! report of an open, to an examination and to an adoption.

use std::fmt;

use ensile_base::Epoch;

/// The reason why the folder cannot prove the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotProvenReason {
    /// The folder is a copy, and its files may come from different moments. An open takes none of the entries.
    Copied,
    /// The operating system has started again since the life. An open takes none of the entries.
    OtherBoot,
    /// A file system of the folder was mounted again within the same boot. Its device lost the bytes that were not
    /// synced. An open takes none of the entries.
    OtherMount,
    /// The process died in this folder, the machine has not rebooted since, and the folder is damaged or unreadable.
    /// An open ends with an error before it takes an entry.
    Damaged,
    /// The process died in this folder, and the machine has not rebooted since. The next open takes the entries. An
    /// earlier backup does not contain them.
    NotOpened,
    /// The boot identity of the operating system cannot be read. An open ends with an error until it can be read.
    UnknownBoot,
    /// The files changed after the process had died. An open takes the entries all the same: a change of owner alone
    /// leaves the bytes as they were.
    Changed,
}

/// Results that a process-safe life acknowledged, and that the folder cannot prove.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotProven {
    /// Reason for the lack of proof.
    pub reason: NotProvenReason,
    /// Durable epoch: the folder has every entry up to it. In a damaged folder, the epoch that the readable marks of
    /// the logs prove.
    pub durable: Epoch,
    /// Paths, relative to the main folder, of the mapped files and logs with entries above `durable`, and of the mapped
    /// files that are missing or unreadable. Empty if the folder shows no such file, and may have lost it. With
    /// [`NotProvenReason::Changed`], the changed files.
    pub files: Vec<String>,
    /// Largest readable epoch of the files; `durable` without a readable entry.
    pub last: Epoch,
}

impl NotProven {
    /// A report of these changed files. `None` if the list is empty.
    pub(crate) fn for_changed_files(files: Vec<String>, durable: Epoch) -> Option<Self> {
        let (reason, last) = (NotProvenReason::Changed, durable);
        (!files.is_empty()).then_some(Self { reason, durable, files, last })
    }

    /// A report without files, for a folder that may have lost them.
    pub(crate) fn without_files(reason: NotProvenReason, durable: Epoch) -> Self {
        Self { reason, durable, files: Vec::new(), last: durable }
    }

    /// True if an open ignores the entries, for good.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        use NotProvenReason as Reason;
        matches!(self.reason, Reason::Copied | Reason::OtherBoot | Reason::OtherMount)
    }

    /// True if an open takes the entries, and no loss is known. An adoption asks, and refuses other reports without
    /// consent; the CLI and the C interface choose the words of their reports by the answer.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.reason == NotProvenReason::Changed
    }

    /// Text of the loss with the files, without a full stop.
    #[must_use]
    pub fn loss(&self) -> String {
        let files = self.files.join(", ");
        if self.is_taken() {
            let were = if self.files.len() == 1 { "was" } else { "were" };
            return format!("{files} {were} changed after the process had died, and taken all the same");
        }
        let files = if files.is_empty() { files } else { format!(" ({files})") };
        format!("results above epoch {} that were acknowledged at the level Process{files}", self.durable)
    }

    /// Text of the reason and the remedy, without the last full stop.
    #[must_use]
    pub fn what_to_do(&self) -> &'static str {
        match self.reason {
            NotProvenReason::Changed => {
                "A change of the owner, the mode or a link is harmless. An older copy of a file lacks changes that other \
                 files of the folder have: restore the whole folder from one backup"
            }
            NotProvenReason::Copied => {
                "An open leaves the results out: the folder is a copy, and a copy proves nothing. If the original folder \
                 exists, open the original in its place, on the same machine and before a reboot, which takes the results. \
                 Then close it, and copy it again"
            }
            NotProvenReason::OtherBoot => {
                "An open leaves the results out: the operating system has started again, and no file proves them. No \
                 command brings the results back: repeat their changes"
            }
            NotProvenReason::OtherMount => {
                "An open leaves the results out: the file system of the folder was mounted again, and a lost device loses \
                 the bytes that were not synced. No command brings the results back: repeat their changes"
            }
            NotProvenReason::Damaged => {
                "The folder is damaged or unreadable, and an open fails before it takes the results. Run `ensile verify DIR` \
                 to see the damage. Undo the damage, and open the folder before a reboot, which takes the results. Or run \
                 `ensile verify DIR --repair`: the repair keeps the readable part, and prints the loss"
            }
            NotProvenReason::NotOpened => {
                "The folder had not been opened when it was read. Open the folder before a reboot, which takes the results. \
                 Then back the folder up again: an earlier backup lacks the results"
            }
            NotProvenReason::UnknownBoot => {
                "The current boot or mount cannot be read, so the results may count or not. Open the folder where \
                 /proc/sys/kernel/random/boot_id, /proc/self/mountinfo and /sys are readable"
            }
        }
    }
}

/// The loss, the reason and the remedy, as one paragraph.
impl fmt::Display for NotProven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let may = if self.is_taken() { "" } else { " may be missing" };
        write!(f, "{}{may}. {}", self.loss(), self.what_to_do())
    }
}
