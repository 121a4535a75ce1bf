//! The sections of `INFO`, by redis' names, and a section `# Epochs`.
//!
//! A figure that this server does not have is left out.
//!
//! Neighbours: `ensile-serving` replies the text; the database and the server count.

use ensile::checkpoint::CheckpointProgress;
use ensile::stats::Stats;
use ensile_base::sync::Ordering;
use ensile_serving::{DurableEpochs as _, InfoText, LogState, ServerFigures};

use crate::access::User;
use crate::command_figures::CommandFigures;
use crate::effects::Effects;
use crate::load_progress::LoadAmounts;
use crate::model::keyspace::KeyCounts;
use crate::model::{DATABASES, Keyspace, SWEEPER_STRIPE};
use crate::served_database::ServedDatabase;

/// Version of redis whose commands this server has.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// Writes all sections. A user with prefixes does not see the numbers of all keys.
pub(crate) fn write_info(server: &ServedDatabase, user: &User, figures: &ServerFigures, text: &mut InfoText) {
    write_server(server, figures, text);
    write_clients(server, figures, text);
    if !server.is_open() {
        return write_load(server, text);
    }
    let stats = server.db().stats();
    write_memory(server, &stats, text);
    write_persistence(server, &stats, text);
    text.add_heading("Stats");
    text.add("total_connections_received", figures.opened);
    text.add("total_commands_processed", figures.requests);
    text.add("rejected_changes", figures.turned_away);
    text.add("panicked_commands", figures.panicked);
    text.add("evicted_clients", figures.evicted);
    text.add("evicted_keys", 0);
    text.add("latest_fork_usec", 0);
    text.add("slow_subscribers", figures.slow_listeners);
    let channels = server.channels().figures();
    text.add("pubsub_channels", channels.channels);
    text.add("pubsub_patterns", channels.patterns);
    text.add("pubsubshard_channels", channels.shard_channels);
    text.add("pubsub_waiting_bytes", channels.waiting_bytes);
    text.add("pubsub_waits", channels.waits);
    // Relaxed, both: figures for people.
    text.add("watch_conflicts", server.watches().conflicts.load(Ordering::Relaxed));
    text.add("watch_expired", server.watches().expired.load(Ordering::Relaxed));
    text.add_heading("Replication");
    text.add("role", "master");
    text.add("connected_slaves", 0);
    text.add("master_replid", server.run_id());
    text.add("master_repl_offset", 0);
    text.add_heading("Cluster");
    text.add("cluster_enabled", 0);
    write_epochs(&stats, text);
    if user.has_all_keys() {
        write_keyspace(server, text);
    }
}

fn write_server(server: &ServedDatabase, figures: &ServerFigures, text: &mut InfoText) {
    text.add_heading("Server");
    text.add("redis_version", REDIS_VERSION);
    text.add("ensile_version", env!("CARGO_PKG_VERSION"));
    text.add("redis_mode", "standalone");
    text.add("run_id", server.run_id());
    text.add("process_id", std::process::id());
    text.add("uptime_in_seconds", server.uptime_seconds());
    text.add("uptime_in_days", server.uptime_seconds() / (24 * 3600));
    text.add("transport", &figures.transports);
}

fn write_clients(server: &ServedDatabase, figures: &ServerFigures, text: &mut InfoText) {
    text.add_heading("Clients");
    text.add("connected_clients", figures.connections);
    text.add("blocked_clients", server.waiting_clients().count());
    text.add("client_memory_bytes", figures.client_memory_bytes);
    text.add_some("maxmemory_clients", figures.client_memory_bytes_max);
}

fn write_memory(server: &ServedDatabase, stats: &Stats, text: &mut InfoText) {
    text.add_heading("Memory");
    text.add("used_memory", stats.memory.live_bytes);
    text.add("maxmemory", stats.memory.bytes_max.unwrap_or(0));
    let scripts = server.script_cache().figures();
    text.add("number_of_cached_scripts", scripts.scripts);
    text.add("used_memory_scripts_eval", scripts.bytes);
    text.add("used_memory_vm_eval", server.lua_bytes());
    text.add("garbage_bytes", stats.garbage_pinned_bytes + stats.garbage_version_bytes);
    text.add("maxmemory_policy", "noeviction");
}

/// Writes the progress of the load. The other figures come with the data.
fn write_load(server: &ServedDatabase, text: &mut InfoText) {
    let LoadAmounts { bytes_done, bytes_total, left } = server.progress.amounts();
    let percent = if bytes_total == 0 { 0.0 } else { 100.0 * bytes_done as f64 / bytes_total as f64 };
    text.add_heading("Persistence");
    text.add("loading", 1);
    text.add("async_loading", 0);
    text.add("loading_start_time", server.progress.begun_seconds());
    text.add("loading_total_bytes", bytes_total);
    text.add("loading_loaded_bytes", bytes_done);
    text.add("loading_loaded_perc", format_args!("{percent:.2}"));
    text.add("loading_eta_seconds", left.map_or(1, |left| left.as_secs()));
}

fn write_persistence(server: &ServedDatabase, stats: &Stats, text: &mut InfoText) {
    text.add_heading("Persistence");
    text.add("loading", 0);
    text.add("async_loading", 0);
    text.add("aof_enabled", u8::from(server.has_log()));
    let log = server.log_state();
    text.add("aof_last_write_status", if log == LogState::Running { "ok" } else { "err" });
    text.add_some("log_bytes", stats.log.as_ref().map(|log| log.bytes));
    text.add_some("log_status", stats.log_health.as_ref().map(|health| health.name()));
    text.add_some("log_error", stats.log_health.as_ref().and_then(|health| health.reason()));
    if let Some(checkpoints) = &stats.checkpoints {
        server.save_time().look(stats);
        let running = checkpoints.running.as_ref();
        text.add("current_save_keys_processed", running.map_or(0, |running| running.entries));
        text.add("current_save_keys_total", running.map_or(0, expected_entries));
        text.add("current_cow_peak", 0);
        text.add("rdb_bgsave_in_progress", u8::from(running.is_some()));
        text.add("rdb_last_cow_size", 0);
        let last_seconds = checkpoints.last.as_ref().map(|last| last.elapsed.as_secs());
        text.add(
            "rdb_last_bgsave_time_sec",
            last_seconds.map_or(-1, |time| i64::try_from(time).unwrap_or(-1)),
        );
        text.add("rdb_last_save_time", server.save_time().seconds());
        text.add("rdb_last_bgsave_status", if checkpoints.last_error.is_none() { "ok" } else { "err" });
        text.add_some("checkpoint_last_error", checkpoints.last_error.as_ref());
        text.add("checkpoints_installed", checkpoints.installed);
        text.add("checkpoints_failed", checkpoints.failed);
    }
}

/// Number of entries of a checkpoint under way, from its progress.
fn expected_entries(running: &CheckpointProgress) -> u64 {
    if running.share > 0.0 { (running.entries as f64 / running.share) as u64 } else { running.entries }
}

/// Writes the counts of the commands that were called.
pub(crate) fn write_commands(
    counts: impl Iterator<Item = (&'static str, CommandFigures)>,
    text: &mut InfoText,
) {
    text.add_heading("Commandstats");
    for (name, CommandFigures { calls, conflicts }) in counts.filter(|(_, counts)| counts.calls > 0) {
        let line = format!("calls={calls},conflicts={conflicts}");
        text.add(&format!("cmdstat_{}", name.to_ascii_lowercase()), line);
    }
}

fn write_epochs(stats: &Stats, text: &mut InfoText) {
    text.add_heading("Epochs");
    text.add("epoch", stats.epoch.number());
    text.add_some("durable_epoch", stats.durable_epoch.map(|epoch| epoch.number()));
    text.add("snapshot_epoch", stats.snapshot_epoch.number());
    text.add("commits", stats.commits);
    text.add("conflicts", stats.aborts);
    text.add("turns", stats.turns);
    text.add("expired_transactions", stats.expired);
}

/// Number of times that the counts of keys are read, if other transactions change the counts meanwhile.
const COUNT_TRIES: usize = 8;

/// Reads the counts of all databases, of one moment, once. The counts may rest on changes that are not durable yet, as
/// the loop does not wait for the disk.
fn count_keys(server: &ServedDatabase) -> ensile::Result<Vec<KeyCounts>> {
    let mut tx = server.db().begin();
    let mut effects = Effects::default();
    let mut keyspace =
        Keyspace::new(&mut tx, server.model(), &mut effects, 0, SWEEPER_STRIPE, server.now_millis());
    let counts = (0..DATABASES).map(|database| {
        keyspace.select(database);
        keyspace.key_counts()
    });
    let counts = counts.collect::<ensile::Result<Vec<KeyCounts>>>()?;
    tx.submit()?;
    Ok(counts)
}

/// Adds a line for each database with keys. The lines are left out while other transactions change the counts.
fn write_keyspace(server: &ServedDatabase, text: &mut InfoText) {
    text.add_heading("Keyspace");
    let counted = (0..COUNT_TRIES).find_map(|_| count_keys(server).ok());
    for (database, counts) in counted.unwrap_or_default().into_iter().enumerate() {
        if counts.keys > 0 {
            let line = format!("keys={},expires={}", counts.keys, counts.expiring);
            text.add(&format!("db{database}"), line);
        }
    }
}
