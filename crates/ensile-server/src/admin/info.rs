//! The sections of `INFO`, by redis' names, and a section `# Epochs`.
//!
//! A figure that this server does not have is left out.
//!
//! Neighbours: `ensile-serving` replies the text; the database and the server count.

use ensile::checkpoint::CheckpointProgress;
use ensile::stats::Stats;
use ensile_base::clock::unix_seconds;
use ensile_base::sync::Ordering;
use ensile_disk::{ProcessUsage, process_usage};
use ensile_serving::{DurableEpochs as _, InfoText, LogState, ServerFigures};

use crate::access::User;
use crate::command_figures::CommandFigures;
use crate::effects::Effects;
use crate::load_progress::LoadAmounts;
use crate::model::keyspace::KeyCounts;
use crate::model::{DATABASES, Keyspace, SWEEPER_STRIPE};
use crate::observed::ObservedFigures;
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
    let (stats, usage) = (server.db().stats(), process_usage());
    let observed = server.observed().look(&stats);
    write_memory(server, &stats, MemorySeen { observed, usage }, text);
    write_persistence(server, &stats, observed, text);
    write_stats(server, figures, text);
    text.add_heading("Replication");
    text.add("role", "master");
    text.add("connected_slaves", 0);
    text.add("master_replid", server.run_id());
    text.add("master_repl_offset", 0);
    if let Some(used) = usage {
        text.add_heading("CPU");
        text.add("used_cpu_sys", format_args!("{:.6}", used.system_seconds));
        text.add("used_cpu_user", format_args!("{:.6}", used.user_seconds));
    }
    text.add_heading("Cluster");
    text.add("cluster_enabled", 0);
    write_epochs(&stats, text);
    if user.has_all_keys() {
        write_keyspace(server, text);
    }
}

fn write_stats(server: &ServedDatabase, figures: &ServerFigures, text: &mut InfoText) {
    let ServerFigures { total, rate, .. } = figures;
    // Thousands of 1,024 bytes, as in redis.
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    text.add_heading("Stats");
    text.add("total_connections_received", figures.opened);
    text.add("total_commands_processed", total.requests);
    text.add("instantaneous_ops_per_sec", rate.requests);
    text.add("total_net_input_bytes", total.received_bytes);
    text.add("total_net_output_bytes", total.sent_bytes);
    text.add("instantaneous_input_kbps", kilobytes(rate.received_bytes));
    text.add("instantaneous_output_kbps", kilobytes(rate.sent_bytes));
    text.add("rejected_connections", 0);
    let keys = server.key_figures();
    text.add("expired_keys", keys.expired);
    text.add("keyspace_hits", keys.hits);
    text.add("keyspace_misses", keys.misses);
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
    text.add("maxclients", figures.connections_max);
    text.add("blocked_clients", server.waiting_clients().count());
    text.add("client_memory_bytes", figures.client_memory_bytes);
    text.add_some("maxmemory_clients", figures.client_memory_bytes_max);
}

/// The memory as somebody has seen it.
struct MemorySeen {
    observed: ObservedFigures,
    /// `None` if the system does not tell.
    usage: Option<ProcessUsage>,
}

/// Adds an amount of memory in bytes, and in redis' form for people.
fn add_bytes(text: &mut InfoText, name: &str, bytes: u64) {
    text.add(name, bytes);
    text.add(&format!("{name}_human"), bytes_for_people(bytes));
}

/// An amount of memory in redis' form: `512B`, `1.50K`, `2.00G`.
fn bytes_for_people(bytes: u64) -> String {
    let units = ['K', 'M', 'G', 'T', 'P'];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let (mut amount, mut unit) = (bytes as f64 / 1024.0, 0);
    while amount >= 1024.0 && unit + 1 < units.len() {
        (amount, unit) = (amount / 1024.0, unit + 1);
    }
    format!("{amount:.2}{}", units[unit])
}

fn write_memory(server: &ServedDatabase, stats: &Stats, seen: MemorySeen, text: &mut InfoText) {
    text.add_heading("Memory");
    let used = stats.memory.live_bytes;
    add_bytes(text, "used_memory", used);
    add_bytes(text, "used_memory_peak", seen.observed.memory_peak_bytes);
    if let Some(ProcessUsage { resident_bytes, .. }) = seen.usage {
        add_bytes(text, "used_memory_rss", resident_bytes);
        text.add(
            "mem_fragmentation_ratio",
            format_args!("{:.2}", resident_bytes as f64 / used.max(1) as f64),
        );
    }
    add_bytes(text, "maxmemory", stats.memory.bytes_max.unwrap_or(0));
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

fn write_persistence(server: &ServedDatabase, stats: &Stats, observed: ObservedFigures, text: &mut InfoText) {
    text.add_heading("Persistence");
    text.add("loading", 0);
    text.add("async_loading", 0);
    text.add("aof_enabled", u8::from(server.has_log()));
    let log = server.log_state();
    text.add("aof_last_write_status", if log == LogState::Running { "ok" } else { "err" });
    if let Some(log) = stats.log.as_ref().filter(|_| server.has_log()) {
        text.add("rdb_changes_since_last_save", observed.changes);
        text.add("aof_delayed_fsync", log.buffer_waits);
    }
    text.add_some("log_bytes", stats.log.as_ref().map(|log| log.bytes));
    text.add_some("log_status", stats.log_health.as_ref().map(|health| health.name()));
    text.add_some("log_error", stats.log_health.as_ref().and_then(|health| health.reason()));
    if let Some(checkpoints) = &stats.checkpoints {
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
        let begun = observed.begun_seconds.filter(|_| running.is_some());
        let running_seconds = begun.map(|begun| unix_seconds().saturating_sub(begun));
        text.add(
            "rdb_current_bgsave_time_sec",
            running_seconds.map_or(-1, |time| i64::try_from(time).unwrap_or(-1)),
        );
        text.add("aof_rewrite_in_progress", u8::from(running.is_some()));
        text.add("rdb_last_save_time", observed.saved_seconds);
        text.add("rdb_saves", checkpoints.installed);
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
    for (name, counts) in counts.filter(|(_, counts)| counts.calls + counts.refused > 0) {
        let CommandFigures { calls, conflicts, failed, refused, .. } = counts;
        let micros = counts.micros_per_call();
        let line = format!(
            "calls={calls},usec={:.0},usec_per_call={micros:.2},rejected_calls={refused},failed_calls={failed},\
             conflicts={conflicts}",
            micros * calls as f64
        );
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
            let line = format!("keys={},expires={},avg_ttl=0", counts.keys, counts.expiring);
            text.add(&format!("db{database}"), line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes_for_people;

    #[test]
    fn an_amount_has_the_largest_unit_that_it_fills() {
        for (bytes, text) in
            [(0, "0B"), (1023, "1023B"), (1536, "1.50K"), (1 << 20, "1.00M"), (3 << 40, "3.00T")]
        {
            assert_eq!(bytes_for_people(bytes), text);
        }
    }
}
