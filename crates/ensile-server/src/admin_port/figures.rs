//! Figures of the admin port: those of the database by their names, and those of the server.
//!
//! Neighbours: [`super::answer`] sends the texts; the guide's page on metrics lists the names.

use std::fmt::Write as _;

use ensile::stats::{self, Figure};
use ensile_base::sync::Ordering;
use ensile_serving::ServerFigures;
use serde_json::{Map, Value, json};

use super::AdminSource;
use crate::command_figures::CommandFigures;
use crate::command_table::counted_names;

/// A figure of the server.
struct ServerFigure {
    name: &'static str,
    /// Kind in Prometheus' words.
    kind: &'static str,
    help: &'static str,
    value: u64,
}

/// The figures of the server without labels.
fn server_figures(source: &AdminSource, figures: &ServerFigures) -> Vec<ServerFigure> {
    let (is_loading, load) = (!source.served.is_open(), source.served.progress.amounts());
    // Relaxed, both: figures for people.
    let watches = source.served.watches();
    let watch_conflicts = watches.conflicts.load(Ordering::Relaxed);
    let watch_expired = watches.expired.load(Ordering::Relaxed);
    let keys = source.served.key_figures();
    let counter = |name, help, value| ServerFigure { name, kind: "counter", help, value };
    let gauge = |name, help, value| ServerFigure { name, kind: "gauge", help, value };
    vec![
        gauge("ensile_server_loading", "1 while the database is loaded", u64::from(is_loading)),
        gauge("ensile_server_load_done_bytes", "Loaded bytes of the phase under way", load.bytes_done),
        gauge("ensile_server_load_total_bytes", "Bytes of the phase under way", load.bytes_total),
        gauge("ensile_server_connections", "Open connections of clients", figures.connections),
        counter("ensile_server_connections_total", "Connections of clients since the start", figures.opened),
        counter("ensile_server_requests_total", "Requests of clients", figures.total.requests),
        counter("ensile_server_received_bytes_total", "Bytes from clients", figures.total.received_bytes),
        counter("ensile_server_sent_bytes_total", "Bytes to clients", figures.total.sent_bytes),
        counter("ensile_server_key_hits_total", "Reads that found their key", keys.hits),
        counter("ensile_server_key_misses_total", "Reads without their key", keys.misses),
        counter("ensile_server_expired_keys_total", "Expired keys that were removed", keys.expired),
        counter("ensile_server_refused_requests_total", "Requests that the log refused", figures.turned_away),
        counter("ensile_server_panicked_requests_total", "Requests that panicked", figures.panicked),
        counter(
            "ensile_server_unheard_replies_total",
            "Replies that no client had waited for",
            figures.unheard,
        ),
        counter(
            "ensile_server_evicted_clients_total",
            "Clients disconnected for the memory of their requests and replies",
            figures.evicted,
        ),
        gauge(
            "ensile_server_client_memory_bytes",
            "Memory of all clients' requests and replies",
            figures.client_memory_bytes as u64,
        ),
        counter(
            "ensile_server_watch_conflicts_total",
            "EXEC that replied nil after a change",
            watch_conflicts,
        ),
        counter(
            "ensile_server_watch_expired_total",
            "EXEC that replied nil as the database had ended the transaction",
            watch_expired,
        ),
    ]
}

/// All figures in Prometheus' text format.
pub(super) fn prometheus(source: &AdminSource) -> String {
    let mut text = String::new();
    if source.served.is_open() {
        stats::prometheus(&source.served.db().stats(), &mut text);
    }
    let figures = (source.figures)();
    for ServerFigure { name, kind, help, value } in server_figures(source, &figures) {
        // A write to memory does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    write_commands(source, &mut text);
    write_latency(&figures, &mut text);
    text
}

/// Counts of the commands, in the order of their names.
fn command_figures(source: &AdminSource) -> Vec<CommandFigures> {
    source.served.command_figures(counted_names().count())
}

/// Reads a figure of a command.
type CommandFigure = fn(&CommandFigures) -> u64;

fn write_commands(source: &AdminSource, text: &mut String) {
    let figures = command_figures(source);
    let families: [(&str, &str, CommandFigure); 4] = [
        ("ensile_server_command_calls_total", "Calls of a command", |counts| counts.calls),
        ("ensile_server_command_errors_total", "Calls of a command with an error as the reply", |counts| {
            counts.failed
        }),
        (
            "ensile_server_command_refusals_total",
            "Requests of a command that were refused before the call",
            |counts| counts.refused,
        ),
        (
            "ensile_server_command_conflicts_total",
            "Runs of a command that lost to another transaction",
            |counts| counts.conflicts,
        ),
    ];
    for (name, help, figure) in families {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
        for (command, counts) in counted_names().zip(&figures) {
            if counts.calls + counts.refused > 0 {
                let command = command.to_ascii_lowercase();
                let _ = writeln!(text, "{name}{{command=\"{command}\"}} {}", figure(counts));
            }
        }
    }
}

fn write_latency(figures: &ServerFigures, text: &mut String) {
    let name = "ensile_server_latency_seconds";
    let help = "Time from the arrival of a request to its reply";
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
    let mut count = 0;
    for bucket in &figures.latency.buckets {
        count += bucket.count;
        let bound = bucket.up_to_seconds.map_or_else(|| "+Inf".to_owned(), |seconds| seconds.to_string());
        let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
    }
    let _ = writeln!(text, "{name}_sum {}\n{name}_count {count}", figures.latency.sum_seconds);
}

/// All figures as JSON, for the live page and for programs.
pub(super) fn json(source: &AdminSource) -> String {
    let db_stats = source.served.is_open().then(|| source.served.db().stats());
    let figures = (source.figures)();
    let mut named = Map::new();
    for Figure { name, value, .. } in db_stats.iter().flat_map(stats::figures) {
        named.insert(name, value.map_or(Value::Null, Value::from));
    }
    for ServerFigure { name, value, .. } in server_figures(source, &figures) {
        named.insert(name.to_owned(), Value::from(value));
    }
    let counts = command_figures(source);
    let commands: Vec<Value> = counted_names()
        .zip(&counts)
        .map(|(name, counts)| json!({ "name": name, "calls": counts.calls, "conflicts": counts.conflicts }))
        .collect();
    let latency: Vec<Value> = figures
        .latency
        .buckets
        .iter()
        .map(|bucket| json!({ "up_to_seconds": bucket.up_to_seconds, "count": bucket.count }))
        .collect();
    let health = health(source);
    let is_checkpoint_under_way =
        db_stats.and_then(|db| db.checkpoints).is_some_and(|checkpoints| checkpoints.running.is_some());
    let load = source.served.progress.amounts();
    json!({
        "is_loading": !source.served.is_open(),
        "load_seconds_left": load.left.map(|left| left.as_secs_f64()),
        "at_millis": source.served.now_millis(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": source.served.uptime_seconds(),
        "is_well": health.is_well,
        "reasons": health.reasons,
        "is_checkpoint_under_way": is_checkpoint_under_way,
        "figures": named,
        "commands": commands,
        "latency": latency,
    })
    .to_string()
}

/// Health of the server, with the reasons of an obstacle.
pub(super) struct ServerHealth {
    pub(super) is_well: bool,
    reasons: Vec<String>,
}

impl ServerHealth {
    pub(super) fn json(&self) -> String {
        json!({ "is_well": self.is_well, "reasons": self.reasons }).to_string()
    }
}

/// The health of the database.
pub(super) fn health(source: &AdminSource) -> ServerHealth {
    if !source.served.is_open() {
        return ServerHealth { is_well: false, reasons: vec!["the database is being loaded".to_owned()] };
    }
    let health = source.served.db().health();
    let mut reasons: Vec<String> = [
        health.log.as_ref().and_then(|log| log.reason()).map(ToString::to_string),
        health.read_only.clone(),
        health.checkpoint_misfit.clone(),
        health.checkpoint_failing.clone(),
        health.archive_error.clone(),
        health.fenced.clone(),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(full) = &health.memory_full {
        reasons.push(format!("the memory is full: {full:?}"));
    }
    if health.heartbeat_has_panicked {
        reasons.push("the heartbeat has panicked: start the server again".to_owned());
    }
    ServerHealth { is_well: health.is_well(), reasons }
}
