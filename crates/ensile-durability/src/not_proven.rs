//! Entries of a process-safe life that the folder cannot prove: their amount, the reason, and the remedy.
//!
//! ```text
//! recovery::taking finds it --> the report of an open, an examination (`verify`, `objects check`), an adoption
//! ```
//! Invariant: B4: every reader of such a folder reports the entries. One type carries the report and its text.
//!
//! Neighbours: `store::mapped` reads the buffers; `recovery::taking` gives the reason, and counts the
//! entries of the logs.

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

/// The readable entries of a mapped buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnprovenEntries {
    /// Number of entries, including any that its log already has.
    pub entries: u32,
    /// Bytes of the entries.
    pub bytes: u32,
    /// Epochs of the first and the last entry.
    pub epochs: (Epoch, Epoch),
}

/// A mapped file of a process-safe life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprovenFile {
    /// Path relative to the main folder.
    pub file: String,
    /// Entries above the durable epoch. `None` if the file is unreadable, or has changed.
    pub held: Option<UnprovenEntries>,
}

/// Entries that a process-safe life returned to its callers, and that the folder cannot prove.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotProven {
    /// Reason for the lack of proof.
    pub reason: NotProvenReason,
    /// Durable epoch: the folder has every entry up to it. In a damaged folder, the epoch that the readable marks of
    /// the logs prove.
    pub durable: Epoch,
    /// Mapped files with entries above `durable`. With [`NotProvenReason::Changed`], the changed files.
    pub files: Vec<UnprovenFile>,
    /// Number of whole entries above `durable` in the logs, which no mark covers.
    pub log_entries: u64,
    /// Largest readable epoch of the files and the logs.
    pub last: Epoch,
}

impl NotProven {
    /// A report of these changed files. `None` if the list is empty.
    pub(crate) fn changed(files: Vec<String>, durable: Epoch) -> Option<Self> {
        let files: Vec<_> = files.into_iter().map(|file| UnprovenFile { file, held: None }).collect();
        let (reason, last) = (NotProvenReason::Changed, durable);
        (!files.is_empty()).then_some(Self { reason, durable, files, log_entries: 0, last })
    }

    /// A report without an amount: the folder is damaged, or its device was lost.
    pub(crate) fn uncounted(reason: NotProvenReason, durable: Epoch) -> Self {
        Self { reason, durable, files: Vec::new(), log_entries: 0, last: durable }
    }

    /// True if an open leaves the entries out.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        use NotProvenReason as Reason;
        matches!(self.reason, Reason::Copied | Reason::OtherBoot | Reason::OtherMount)
    }

    /// True if an open takes the entries, and no loss is known.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.reason == NotProvenReason::Changed
    }

    /// Number of readable entries. An entry that both a buffer and its log hold counts twice.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.log_entries + self.held().map(|held| u64::from(held.entries)).sum::<u64>()
    }

    /// Bytes of the readable entries of the mapped files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.held().map(|held| u64::from(held.bytes)).sum()
    }

    fn held(&self) -> impl Iterator<Item = &UnprovenEntries> {
        self.files.iter().filter_map(|file| file.held.as_ref())
    }

    /// The amount in words: a sentence without its end.
    #[must_use]
    pub fn how_much(&self) -> impl fmt::Display {
        Amount(self)
    }

    /// The end of that sentence, and the remedy.
    #[must_use]
    pub fn what_to_do(&self) -> &'static str {
        match self.reason {
            NotProvenReason::Changed => {
                ". A change of the owner, the mode or a link is harmless. An older copy of a file lacks changes that other \
                 files of the folder have: restore the whole folder from one backup"
            }
            NotProvenReason::Copied => {
                ", and an open leaves the entries out: the folder is a copy, and a copy proves nothing. If the original folder \
                 exists, open the original in its place, on the same machine and before a reboot, which takes the entries. \
                 Then close it, and copy it again"
            }
            NotProvenReason::OtherBoot => {
                ", and an open leaves the entries out: the operating system has started again, and no file proves them. No \
                 command brings the entries back: repeat their changes"
            }
            NotProvenReason::OtherMount => {
                ", and an open leaves the entries out: the file system of the folder was mounted again, and a lost device loses \
                 the bytes that were not synced. No command brings the entries back: repeat their changes"
            }
            NotProvenReason::Damaged => {
                ". The folder is damaged or unreadable, and an open fails before it takes the entries. Run `ensile verify DIR` \
                 to see the damage. Undo the damage, and open the folder before a reboot, which takes the entries. Or run \
                 `ensile verify DIR --repair`: the repair keeps the readable part, and prints the loss"
            }
            NotProvenReason::NotOpened => {
                ", and the folder had not been opened when it was read. Open the folder before a reboot, which takes the \
                 entries. Then back the folder up again: an earlier backup lacks the entries"
            }
            NotProvenReason::UnknownBoot => {
                ". The current boot or mount cannot be read, so the entries may count or not. Open the folder where \
                 /proc/sys/kernel/random/boot_id, /proc/self/mountinfo and /sys are readable"
            }
        }
    }

    fn amount(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unreadable: Vec<_> =
            self.files.iter().filter(|file| file.held.is_none()).map(|file| &*file.file).collect();
        let (bytes, logged) = (self.bytes(), self.log_entries);
        if self.entries() > 0 {
            write!(f, "{} entries", self.entries())?;
            match (bytes, logged) {
                (0, _) => write!(f, " in logs")?,
                (_, 0) => write!(f, " ({bytes} bytes in mapped buffers)")?,
                _ => write!(f, " ({bytes} bytes in mapped buffers, and {logged} of them in logs)")?,
            }
            write!(f, " of epochs {} to {}", self.durable.next(), self.last)?;
        }
        let separator = if self.entries() > 0 { ", and " } else { "" };
        match &unreadable[..] {
            [] if self.entries() == 0 && self.reason == NotProvenReason::OtherMount => {
                write!(
                    f,
                    "entries above epoch {}, which cannot be counted, may have been returned",
                    self.durable
                )
            }
            [] if self.entries() == 0 => {
                f.write_str("entries that cannot be counted, as the folder is damaged, were returned")
            }
            [] => f.write_str(" were returned"),
            files => {
                let files = files.join(", ");
                write!(f, "{separator}the entries of {files}, which cannot be read, were returned")
            }
        }
    }
}

/// Text of [`NotProven::how_much`].
struct Amount<'n>(&'n NotProven);

impl fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(left) = self;
        if left.is_taken() {
            let files: Vec<_> = left.files.iter().map(|file| &*file.file).collect();
            let were = if files.len() == 1 { "was" } else { "were" };
            return write!(
                f,
                "{} {were} changed after the process had died, and taken all the same",
                files.join(", ")
            );
        }
        left.amount(f)?;
        f.write_str(" by a process-safe life that was not closed")
    }
}

/// The amount and the remedy, as one paragraph.
impl fmt::Display for NotProven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.how_much(), self.what_to_do())
    }
}
