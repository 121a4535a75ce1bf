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
                ". If that was the owner, the mode or a link, all is well. If an older copy was put there, changes may be \
                 missing that others here have seen: restore all of the folder"
            }
            NotProvenReason::Copied => {
                ", and are not taken: the folder is a copy of the one that it left, and copies prove nothing. If that one is \
                 still there, open it in its place, on the machine and in the boot in which it ran, which takes them; close \
                 it, and copy it again"
            }
            NotProvenReason::OtherBoot => {
                ", and are not taken: the operating system was started since. After a power cut nothing proves them. If a \
                 container alone was started, they are lost"
            }
            NotProvenReason::OtherMount => {
                ", and are not taken: the file system of the folder was mounted again since. A lost device loses the bytes \
                 that were not synced"
            }
            NotProvenReason::Damaged => {
                ". This is the folder that it left, and it is damaged, or cannot be read: an open ends before it takes them. \
                 `ensile verify DIR` says what is wrong. Put that back as it was, and an open in this boot takes them; or \
                 `ensile verify DIR --repair` keeps what can be kept, and says what it gives up"
            }
            NotProvenReason::NotOpened => {
                ", and nobody had opened the folder when it was looked at: an open of it in this boot takes them, and a backup that was made \
                 before has them not. Open it, and back it up again"
            }
            NotProvenReason::UnknownBoot => {
                ". Which boot of the operating system, or which mount of a file system, this is cannot be read, so it is unknown \
                 whether they count: open it where /proc/sys/kernel/random/boot_id, /proc/self/mountinfo and /sys can be read"
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
                write!(f, "{separator}what {files} held, which cannot be read, were returned")
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
