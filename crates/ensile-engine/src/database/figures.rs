//! Table of the figures of a database, as a list and as text for Prometheus.
//!
//! Neighbours: `health` fills the statistics; `ensile_base::figures` has the mechanism, and the lower crates the tables
//! of their parts.

use ensile_base::figures;
use ensile_base::figures::{Figure, FigureList, write_prometheus};

use super::health::Stats;

/// Beginning of all names.
const PREFIX: &str = "ensile";

figures! { Stats {
    commits: counter(Number, "commits_total",
        "Committed transactions, also read-only ones, without snapshots");
    aborts: counter(Number, "aborts_total", "Failed commits: conflicts, with or without a retry");
    retries: counter(Number, "retries_total",
        "Repeated runs of closures, after a conflict or a lack of memory");
    turns: counter(Number, "turns_total", "Exclusive turns of closures with many conflicts");
    expired: counter(Number, "expired_total",
        "Transactions and snapshots that ended, because too much garbage waited for them");
    epoch: gauge(Epoch, "epoch", "Global epoch");
    durable_epoch: gauge(Epoch, "durable_epoch",
        "Durable epoch; without a log, the epoch of the last picture");
    snapshot_epoch: gauge(Epoch, "snapshot_epoch", "Epoch of the newest readable snapshot");
    garbage_pinned_bytes: gauge(Bytes, "garbage_pinned_bytes",
        "Bytes of replaced records and index nodes that open transactions may still reach");
    garbage_version_bytes: gauge(Bytes, "garbage_version_bytes", "Bytes of old versions and deleted rows");
    garbage_things: gauge(Number, "garbage_things", "Objects that wait for their release or removal");
    displaced_bytes: gauge(Bytes, "displaced_bytes",
        "Bytes of old versions that the present picture still needs");
    displaced_bytes_peak: gauge(Bytes, "displaced_peak_bytes", "Most displaced bytes since the open");
    memory: part();
    log: part();
    log_health: part();
    archive_error: presence("archive_failing",
        "1 while the archive cannot be written, or lacks a damaged file");
    shipping: part();
    checkpoints: part();
} }

/// Appends the figures of a database to `text`, in the [text format] 0.0.4 of Prometheus. The content type of an answer
/// with the text is `text/plain; version=0.0.4`.
///
/// The text has three lines for each figure with a value: `# HELP`, `# TYPE`, and the name with the value. Times are in
/// seconds, sizes in bytes. The samples have no label: a program with several databases answers with one text for each
/// database, on a page of its own.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::{Database, stats};
///
/// # fn main() -> ensile::Result<()> {
/// let db = Database::in_memory()?;
/// let numbers = db.table::<u64, u64>("numbers")?;
/// db.run(|tx| tx.put(&numbers, &1, &100))?;
///
/// let (figures, mut text) = (db.stats(), String::new());
/// stats::prometheus(&figures, &mut text);
/// let commits = figures.commits;
/// assert!(text.contains(&format!("# TYPE ensile_commits_total counter\nensile_commits_total {commits}\n")));
/// # Ok(()) }
/// ```
///
/// [text format]: https://prometheus.io/docs/instrumenting/exposition_formats/
pub fn prometheus(stats: &Stats, text: &mut String) {
    write_prometheus(&figures(stats), text);
}

/// All figures of a database, with names, kinds and units, for programs that report figures in another form. A figure
/// without a value is in the list too, such as a figure of the log in memory.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::stats::{self, FigureKind, FigureUnit};
/// use ensile::Database;
///
/// # fn main() -> ensile::Result<()> {
/// let figures = stats::figures(&Database::in_memory()?.stats());
/// let written = figures.iter().find(|figure| figure.name == "ensile_log_written_bytes_total");
/// let written = written.expect("the list has every figure");
/// assert_eq!((written.kind, written.unit), (FigureKind::Counter, FigureUnit::Bytes));
/// assert_eq!((written.field.as_str(), written.value), ("log.bytes", None));
/// # Ok(()) }
/// ```
#[must_use]
pub fn figures(stats: &Stats) -> Vec<Figure> {
    FigureList::collect(PREFIX, stats)
}
