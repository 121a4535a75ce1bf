//! Table of the figures of open objects, as a list and as text for Prometheus.
//!
//! Neighbours: `stats` has the statistics; `ensile_base::figures` has the mechanism, and `ensile-durability` the tables
//! of log, checkpoints and shipping.

use ensile_base::figures;
use ensile_base::figures::{Figure, FigureList, write_prometheus};

use super::stats::ObjectsStats;
use super::watchdog::WaitingCallBack;

/// Beginning of all names. The figures of a database begin otherwise, so one text may have both.
const PREFIX: &str = "ensile_objects";

figures! { ObjectsStats {
    objects: gauge(Number, "objects", "Objects, and removed objects since the last checkpoint");
    poisoned: gauge(Number, "poisoned_objects",
        "Objects whose operation has panicked, or whose change has failed");
    epoch: gauge(Epoch, "epoch", "Global epoch");
    durable_epoch: gauge(Epoch, "durable_epoch",
        "Durable epoch: all operations up to this epoch survive a crash");
    log: part();
    log_health: part();
    checkpoints: part();
    shipping: part();
    waiting_call_back: presence("call_back_waiting",
        "1 while a call-back of a checkpoint makes no progress"), part();
} }

figures! { WaitingCallBack {
    object: no_figure();
    waited: gauge(Seconds, "call_back_waiting_seconds", "Time without progress of the call-back");
} }

/// Appends the figures of open objects to `text`, in the [text format] 0.0.4 of Prometheus. The content type of an
/// answer with the text is `text/plain; version=0.0.4`.
///
/// The text has three lines for each figure with a value: `# HELP`, `# TYPE`, and the name with the value. Times are in
/// seconds, sizes in bytes. The samples have no label: a program with several folders of objects answers with one text
/// for each folder, on a page of its own. A text with the figures of one database is no obstacle.
///
/// ```
/// use ensile_objects::{ObjectsStats, stats};
///
/// fn page(figures: &ObjectsStats) -> String {
///     let mut text = String::new();
///     stats::prometheus(figures, &mut text);
///     assert!(text.contains("# TYPE ensile_objects_poisoned_objects gauge\n"));
///     text
/// }
/// ```
///
/// [text format]: https://prometheus.io/docs/instrumenting/exposition_formats/
pub fn prometheus(stats: &ObjectsStats, text: &mut String) {
    write_prometheus(&figures(stats), text);
    debug_assert!(text.ends_with('\n'), "the last sample ends its line");
}

/// All figures of open objects, with names, kinds and units, for programs that report figures in another form. A figure
/// without a value is in the list too, such as a figure of shipping without a shared store.
///
/// ```
/// use ensile_objects::{ObjectsStats, stats};
///
/// fn print(figures: &ObjectsStats) {
///     for figure in stats::figures(figures) {
///         println!("{} ({}): {:?}", figure.name, figure.unit, figure.value);
///     }
/// }
/// ```
#[must_use]
pub fn figures(stats: &ObjectsStats) -> Vec<Figure> {
    FigureList::collect(PREFIX, stats)
}
