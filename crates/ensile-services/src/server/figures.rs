//! The text of `INFO`, in redis' form: a line for each figure, under headings.
//!
//! Figures are of the moment, and wait for nothing. A line with the reason for a failure is present only with the
//! failure: `checkpoint_last_error`, `recovery_unreachable` and similar lines.
//!
//! Neighbours: [`super::common_commands`] replies the text; `ensile-objects` counts.

use std::fmt::{Display, Write as _};

use ensile_base::sync::{AtomicU64, Ordering};
use ensile_objects::{CheckpointStats, ObjectDurability, ObjectsStats, ShippingStats};

use super::state::ServerState;
use crate::service::Service;

/// Version of this crate.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

struct FigureLines(String);

impl FigureLines {
    fn add_heading(&mut self, heading: &str) {
        debug_assert!(self.0.is_empty() || self.0.ends_with("\r\n"), "a heading begins a line");
        self.0.push_str("# ");
        self.0.push_str(heading);
        self.0.push_str("\r\n");
    }

    /// Adds a figure on a line of its own. Spaces replace line ends in the figure.
    fn add(&mut self, name: &str, figure: impl Display) {
        debug_assert!(!name.contains([':', '\r', '\n']), "a client reads the name up to the colon");
        let begin = self.0.len();
        // A write to memory does not fail.
        let _ = write!(self.0, "{name}:{figure}");
        if self.0[begin..].contains(['\r', '\n']) {
            let line = self.0.split_off(begin).replace(['\r', '\n'], " ");
            self.0.push_str(&line);
        }
        debug_assert!(!self.0[begin..].contains(['\r', '\n']), "a figure is one line");
        self.0.push_str("\r\n");
    }

    fn add_some(&mut self, name: &str, figure: Option<impl Display>) {
        if let Some(figure) = figure {
            self.add(name, figure);
        }
    }
}

/// Name of a durability on the command line.
fn name_of(durability: ObjectDurability) -> &'static str {
    match durability {
        ObjectDurability::Strict => "strict",
        ObjectDurability::Process => "process",
        ObjectDurability::Relaxed => "relaxed",
        ObjectDurability::NoLog => "no-log",
    }
}

/// All figures.
pub(super) fn figures<S: Service>(state: &ServerState<S>) -> String {
    let stats = state.service.persistent_objects().stats();
    let mut lines = FigureLines(String::new());
    lines.add_heading("Server");
    lines.add("service", S::NAME);
    lines.add("ensile_version", VERSION);
    lines.add("durability", name_of(state.durability));
    lines.add("transport", state.transports());
    // Relaxed: a figure for people.
    let figure = |count: &AtomicU64| count.load(Ordering::Relaxed);
    lines.add_heading("Clients");
    lines.add("connected_clients", figure(&state.connections));
    lines.add("client_memory_bytes", state.memory.bytes());
    lines.add_some("client_memory_bytes_max", state.client_memory_max());
    lines.add("evicted_clients", figure(&state.evicted));
    lines.add_heading("Stats");
    lines.add("total_commands_processed", figure(&state.requests));
    lines.add("panicked_commands", figure(&state.panicked));
    lines.add("requests_turned_away", figure(&state.turned_away));
    lines.add("replies_unheard", figure(&state.unheard));
    lines.add_heading("Persistence");
    lines.add("epoch", stats.epoch.number());
    lines.add("durable_epoch", stats.durable_epoch.number());
    lines.add("log_bytes", stats.log.bytes);
    lines.add("log_entries", stats.log.entries);
    lines.add("log_status", stats.log_health.name());
    lines.add_some("log_error", stats.log_health.reason());
    let waits = stats.waiting_call_back.map(|waiting| (waiting.object, waiting.waited.as_secs()));
    lines.add_some(
        "checkpoint_waits",
        waits.map(|(object, seconds)| format!("{seconds} s at object {object}")),
    );
    lines.add("poisoned_objects", stats.poisoned);
    lines.add_some("recovery_not_proven", state.not_proven());
    for (name, figure) in state.service.figures() {
        lines.add(name, figure);
    }
    checkpoints(&stats, &mut lines);
    if let Some(shipping) = &stats.shipping {
        add_shipping(shipping, &mut lines);
    }
    lines.0
}

/// Adds triggers of checkpoints, the reasons of checkpoints, and the reasons why none begins (SLACH §4).
fn checkpoints(stats: &ObjectsStats, lines: &mut FigureLines) {
    let CheckpointStats { verdict, load, capacity, recovery, .. } = &stats.checkpoints;
    let checkpoints = &stats.checkpoints;
    lines.add_heading("Checkpoints");
    lines.add("checkpoints_installed", checkpoints.installed);
    lines.add("checkpoints_failed", checkpoints.failed);
    lines.add("checkpoint_under_way", u8::from(checkpoints.running.is_some()));
    lines.add("checkpoint_verdict", verdict);
    lines.add_some("checkpoint_last_reason", checkpoints.last.as_ref().map(|last| last.reason));
    lines.add_some("checkpoint_last_error", checkpoints.last_error.as_ref());
    lines.add_some("checkpoint_misfit", checkpoints.misfit.as_ref());
    lines.add_some("checkpoint_niceness_refused", checkpoints.niceness_refused.as_ref());
    lines.add_some("load", load.map(|load| format!("{load:.4}")));
    lines.add_some("capacity", *capacity);
    lines.add_some("log_bytes_threshold", checkpoints.log_bytes_threshold);
    lines.add_some("log_records_threshold", checkpoints.log_records_threshold);
    let millis = checkpoints.interval_threshold.map(|interval| interval.as_millis());
    lines.add_some("interval_threshold_ms", millis);
    if let Some(reading) = checkpoints.last.as_ref().and_then(|last| last.adaptive) {
        lines.add("checkpoint_last_load", format!("{:.4}", reading.load));
        lines.add("checkpoint_last_threshold", reading.threshold);
        lines.add("checkpoint_last_reached", reading.reached);
    }
    if let Some(recovery) = recovery {
        lines.add("recovery_ms", recovery.total().as_millis());
        lines.add_some("recovery_target_ms", recovery.target.map(|target| target.as_millis()));
    }
    lines.add_some("recovery_unreachable", checkpoints.unreachable.as_ref());
}

/// Adds the state of the shared folder, and the obstacles to shipping.
fn add_shipping(shipping: &ShippingStats, lines: &mut FigureLines) {
    lines.add_heading("Shipping");
    lines.add("shipped_epoch", shipping.shipped_epoch.number());
    lines.add("shipping_term", shipping.term);
    lines.add("shipping_waiting_files", shipping.waiting_files);
    lines.add("shipping_waiting_bytes", shipping.waiting_bytes);
    lines.add("shipping_failures", shipping.failures);
    lines.add("shipping_overruns", shipping.overruns);
    lines.add_some("shipping_last_error", shipping.last_error.as_ref());
    lines.add_some("shipping_fenced", shipping.fenced.as_ref());
}

#[cfg(test)]
mod tests {
    use super::FigureLines;

    #[test]
    fn a_figure_is_one_line() {
        let mut lines = FigureLines(String::new());
        lines.add("error", "first\r\nsecond:3");
        lines.add_some("none", None::<u64>);
        lines.add("number", 7);
        assert_eq!(lines.0, "error:first  second:3\r\nnumber:7\r\n");
    }
}
