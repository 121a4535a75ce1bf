//! The text of `INFO`: figures of the server, of the log, of checkpoints and of shipping.
//!
//! Lines with the reason for a failure, such as `checkpoint_last_error` and `recovery_unreachable`, are present only
//! with the failure.
//!
//! Neighbours: [`super::ObjectService`] writes the text for `ensile-serving`; `ensile-objects` counts.

use ensile_objects::{CheckpointStats, ObjectDurability, ObjectsStats, ShippingStats};
use ensile_serving::{InfoText, ServerFigures};

use crate::service::Service;

/// Version of this crate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Name of a durability on the command line.
fn name_of(durability: ObjectDurability) -> &'static str {
    match durability {
        ObjectDurability::Strict => "strict",
        ObjectDurability::Process => "process",
        ObjectDurability::Relaxed => "relaxed",
        ObjectDurability::NoLog => "no-log",
    }
}

/// Writes all figures.
pub(super) fn write<S: Service>(
    service: &S,
    durability: ObjectDurability,
    figures: &ServerFigures,
    lines: &mut InfoText,
) {
    let stats = service.persistent_objects().stats();
    lines.add_heading("Server");
    lines.add("service", S::NAME);
    lines.add("ensile_version", VERSION);
    lines.add("durability", name_of(durability));
    lines.add("transport", &figures.transports);
    lines.add_heading("Clients");
    lines.add("connected_clients", figures.connections);
    lines.add("client_memory_bytes", figures.client_memory_bytes);
    lines.add_some("client_memory_bytes_max", figures.client_memory_bytes_max);
    lines.add("evicted_clients", figures.evicted);
    lines.add_heading("Stats");
    lines.add("total_commands_processed", figures.total.requests);
    lines.add("panicked_commands", figures.panicked);
    lines.add("requests_turned_away", figures.turned_away);
    lines.add("replies_unheard", figures.unheard);
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
    lines.add_some("recovery_not_proven", service.persistent_objects().recovery().not_proven.as_ref());
    for (name, figure) in service.figures() {
        lines.add(name, figure);
    }
    checkpoints(&stats, lines);
    if let Some(shipping) = &stats.shipping {
        add_shipping(shipping, lines);
    }
}

/// Adds triggers of checkpoints, the reasons of checkpoints, and the reasons why none begins (SLACH §4).
fn checkpoints(stats: &ObjectsStats, lines: &mut InfoText) {
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
fn add_shipping(shipping: &ShippingStats, lines: &mut InfoText) {
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
