//! What a process-safe life returned and nothing proves where its folder is found now: how much, and what to do.
//!
//! ```text
//! recovery::taking finds it --> the report of an open, an examination (`verify`, `objects check`), an adoption
//! ```
//! Invariant: B4: nobody who sees such a folder passes it over: it is one type, which says itself in words.
//!
//! Neighbours: `store::mapped` reads the buffers; `recovery::taking` says why nothing proves them, and counts what
//! stands in the logs.

use std::fmt;

use ensile_base::Epoch;

/// Why nothing proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotProvenReason {
    /// The folder is a copy: its files were copied at different moments, and another machine or boot may have the
    /// original. An open of it takes nothing of this.
    Copied,
    /// The operating system was started since. After a power cut nothing proves it; after the start of a container
    /// alone it was returned, and is lost. An open takes nothing of it.
    OtherBoot,
    /// A file system of the folder was mounted again within the boot of the life: its device was lost, with what was
    /// not synced. An open takes nothing of it.
    OtherMount,
    /// It is the folder that its process left, in this boot, and it is damaged, or cannot be read: an open ends with an
    /// error before it takes anything.
    Damaged,
    /// It is the folder that its process left, in this boot, and the next open takes it. A backup that was made of it
    /// before has it not.
    NotOpened,
    /// Which boot of the operating system this is cannot be read, so it is unknown whether it counts. An open ends with
    /// an error until that can be read.
    UnknownBoot,
    /// These files were changed after their process had died. An open takes them all the same, as a change of owner is
    /// none of their bytes.
    Changed,
}

/// What a mapped buffer holds, as far as it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnprovenEntries {
    /// Entries; one that the log has got meanwhile is among them.
    pub entries: u32,
    /// Their bytes.
    pub bytes: u32,
    /// The epochs of the first and the last.
    pub epochs: (Epoch, Epoch),
}

/// A mapped file of a process-safe life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprovenFile {
    /// Its name, relative to the main folder.
    pub file: String,
    /// What it holds above the durable epoch. `None` if that cannot be read, or if it was changed.
    pub held: Option<UnprovenEntries>,
}

/// What a process-safe life returned and nothing proves here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotProven {
    /// Why.
    pub reason: NotProvenReason,
    /// Everything of epochs up to this one is there. In a damaged folder: what the marks of its logs still prove, of
    /// those that can be read.
    pub durable: Epoch,
    /// The mapped files that hold something above it, or, of [`NotProvenReason::Changed`], that were changed.
    pub files: Vec<UnprovenFile>,
    /// Whole entries above it in the logs, which no mark covers.
    pub log_entries: u64,
    /// The largest epoch of what is in files and logs, as far as it can be read.
    pub last: Epoch,
}

impl NotProven {
    /// These files were changed after their process had died; `None` if none was.
    pub(crate) fn changed(files: Vec<String>, durable: Epoch) -> Option<Self> {
        let files: Vec<_> = files.into_iter().map(|file| UnprovenFile { file, held: None }).collect();
        let (reason, last) = (NotProvenReason::Changed, durable);
        (!files.is_empty()).then_some(Self { reason, durable, files, log_entries: 0, last })
    }

    /// How much it is cannot be told: the folder is damaged.
    pub(crate) fn uncounted(reason: NotProvenReason, durable: Epoch) -> Self {
        Self { reason, durable, files: Vec::new(), log_entries: 0, last: durable }
    }

    /// Does an open leave it out?
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        use NotProvenReason as Reason;
        matches!(self.reason, Reason::Copied | Reason::OtherBoot | Reason::OtherMount)
    }

    /// Is it taken all the same, and nothing known to be lost?
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.reason == NotProvenReason::Changed
    }

    /// Entries that can be read. An entry that was just written to its log, and that its buffer still counted, is
    /// counted twice.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.log_entries + self.held().map(|held| u64::from(held.entries)).sum::<u64>()
    }

    /// Bytes of those of them that are in mapped files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.held().map(|held| u64::from(held.bytes)).sum()
    }

    fn held(&self) -> impl Iterator<Item = &UnprovenEntries> {
        self.files.iter().filter_map(|file| file.held.as_ref())
    }

    /// How much it is, in words, as a sentence without its end.
    #[must_use]
    pub fn how_much(&self) -> impl fmt::Display {
        Amount(self)
    }

    /// What becomes of it, and what to do, in words: the sentence's end, and more.
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
                ", and are not taken: the file system of the folder was mounted again since. Its device was lost, and what was \
                 not synced with it"
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

    /// How much it is, of which epochs, and that it was returned.
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

/// How much it is.
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

/// How much it is, what becomes of it, and what to do: a paragraph.
impl fmt::Display for NotProven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.how_much(), self.what_to_do())
    }
}
