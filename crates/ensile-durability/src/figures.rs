//! Tables of the figures of log, checkpoints, recovery and shipping. The names are below the prefix of the database or
//! of the objects.
//!
//! Neighbours: `ensile_base::figures` has the mechanism; the tables of engine and objects contain these tables.

use ensile_base::figures;
use ensile_base::figures::{FigureList, Figures};

use crate::checkpoint::{CheckpointProgress, CheckpointReport, CheckpointStats};
use crate::control::recovery_time::{RecoveryForecast, RecoveryRates};
use crate::log::{Health, LogStats};
use crate::shipping::ShippingStats;

figures! { LogStats {
    bytes: counter(Bytes, "log_written_bytes_total", "Bytes written to the log, with durable marks");
    blocks: counter(Number, "log_written_blocks_total", "Data blocks written to the log");
    entries: counter(Number, "log_written_entries_total", "Entries written to the log");
    marks: counter(Number, "log_written_marks_total", "Durable marks written to the log");
    syncs: counter(Number, "log_syncs_total", "Syncs on the commit path");
    buffer_waits: counter(Number, "log_buffer_waits_total",
        "Waits of workers for a log buffer, because too many buffers were unwritten");
    early_closes: counter(Number, "log_early_closes_total",
        "Epochs that a logger closed early, because strict results waited");
    waiter_steps: counter(Number, "log_waiter_steps_total",
        "Steps of a logger that a lone waiter took on its own thread");
    rolls: counter(Number, "log_rolls_total", "Log files begun after the first file of each log");
    rolls_held: counter(Number, "log_rolls_held_total", "Attempts to begin a log file that found no space");
    holds: counter(Number, "log_holds_total", "Writes that were put off, because the disk had no space");
    files_removed: counter(Number, "log_files_removed_total",
        "Log files removed, because a checkpoint has their entries");
    bytes_removed: counter(Bytes, "log_removed_bytes_total", "Bytes of the removed log files");
    removals_put_off: counter(Number, "log_removals_put_off_total",
        "Removals of files that were put off for the lease of a reader");
    leases_overrun: counter(Number, "log_leases_overrun_total",
        "Removals of files that were done despite a lease");
    archived_files: counter(Number, "log_archived_files_total", "Log files copied into the archive");
    archived_bytes: counter(Bytes, "log_archived_bytes_total", "Bytes of log files copied into the archive");
    unarchived_files: gauge(Number, "log_unarchived_files", "Closed log files that wait for the archive");
    unarchived_bytes: gauge(Bytes, "log_unarchived_bytes",
        "Bytes of the log files that wait for the archive");
    archive_failures: counter(Number, "log_archive_failures_total", "Failed writes to the archive");
    archived_epoch: gauge(Epoch, "log_archived_epoch",
        "Epoch up to which the archive is complete, 0 without an archive");
    files: gauge(Number, "log_files", "Log files on disk");
    file_bytes: gauge(Bytes, "log_file_bytes", "Bytes of the log files on disk, with allocated space");
    buffer_bytes: gauge(Bytes, "log_buffer_bytes", "Bytes of all log buffers");
} }

impl Figures for Health {
    fn add_figures(stats: Option<&Self>, list: &mut FigureList) {
        let runs = "1 while the log takes entries";
        list.flag(stats, "log_running", runs, |health| matches!(health, Self::Running));
        list.flag(
            stats,
            "log_ended",
            "1 if the log never writes again: open the folder again",
            Self::has_ended,
        );
    }
}

figures! { CheckpointStats {
    installed: counter(Number, "checkpoint_installed_total", "Installed checkpoints");
    failed: counter(Number, "checkpoint_failed_total", "Checkpoints that were given up");
    bytes: counter(Bytes, "checkpoint_written_bytes_total",
        "Bytes written for checkpoints, also for failed ones");
    entries: counter(Number, "checkpoint_written_entries_total",
        "Entries written for checkpoints, also for failed ones");
    syncs: counter(Number, "checkpoint_syncs_total", "Syncs of checkpoint files during the writes");
    files_removed: counter(Number, "checkpoint_files_removed_total",
        "Files removed, because a checkpoint covers the files");
    removals_failed: counter(Number, "checkpoint_removals_failed_total", "Failed removals of covered files");
    page_file_bytes: gauge(Bytes, "checkpoint_page_file_bytes", "Bytes of the page files of pictures");
    page_file_bytes_free: gauge(Bytes, "checkpoint_page_file_free_bytes",
        "Bytes of the page files that the next picture may use again");
    last_error: no_figure();
    misfit: presence("checkpoint_misfit", "1 while the next checkpoint does not fit on the disk");
    last: part();
    running: presence("checkpoint_running", "1 while a checkpoint is under way"), part();
    load: gauge(Ratio, "checkpoint_load_ratio", "Load that the thresholds follow, 1 is the capacity");
    capacity: gauge(NumberPerSecond, "checkpoint_capacity_per_second",
        "Capacity of the load, in requests, bytes or entries");
    log_bytes_threshold: gauge(Bytes, "checkpoint_threshold_bytes",
        "Bytes of log at which the next checkpoint begins at this load");
    log_records_threshold: gauge(Number, "checkpoint_threshold_entries",
        "Entries of the log at which the next checkpoint begins at this load");
    interval_threshold: gauge(Seconds, "checkpoint_threshold_seconds",
        "Time after the last checkpoint at which the next checkpoint begins at this load");
    verdict: no_figure();
    recovery: part();
    unreachable: presence("recovery_target_unreachable",
        "1 while no checkpoint can keep the set recovery time");
    niceness_refused: presence("checkpoint_niceness_refused",
        "1 if the system refused the niceness of checkpoints");
} }

figures! { CheckpointReport {
    number: gauge(Number, "checkpoint_last_number", "Number of the last checkpoint");
    low: gauge(Epoch, "checkpoint_last_low_epoch", "Epoch from which on a recovery needs the log");
    high: gauge(Epoch, "checkpoint_last_high_epoch", "Durable epoch that the last checkpoint waited for");
    reason: no_figure();
    entries: gauge(Number, "checkpoint_last_entries", "Entries of the last checkpoint");
    displaced: gauge(Number, "checkpoint_last_displaced_entries",
        "Entries of the last checkpoint that are displaced versions beside pages");
    displaced_tail_bytes: gauge(Bytes, "checkpoint_last_displaced_tail_bytes",
        "Bytes of the blocks of displaced versions in page tails");
    bytes: gauge(Bytes, "checkpoint_last_bytes", "Bytes that a load of the last checkpoint reads");
    bytes_written: gauge(Bytes, "checkpoint_last_written_bytes", "Bytes written for the last checkpoint");
    pages_written: gauge(Number, "checkpoint_last_written_pages", "Pages written for the last picture");
    pages_kept: gauge(Number, "checkpoint_last_kept_pages",
        "Pages that the last picture keeps from its predecessor");
    turn: no_figure();
    recovery: no_figure();
    adaptive: no_figure();
    elapsed: gauge(Seconds, "checkpoint_last_seconds",
        "Time from the begin to the end of the last checkpoint");
} }

figures! { CheckpointProgress {
    bytes: gauge(Bytes, "checkpoint_running_bytes", "Bytes that the present checkpoint has written");
    entries: gauge(Number, "checkpoint_running_entries", "Entries that the present checkpoint has written");
    share: gauge(Ratio, "checkpoint_running_ratio", "Finished fraction of the present checkpoint");
} }

figures! { RecoveryForecast {
    target: gauge(Seconds, "recovery_target_seconds", "Set time of a recovery");
    load: gauge(Seconds, "recovery_load_seconds", "Predicted time to load the checkpoint at the next open");
    replay: gauge(Seconds, "recovery_replay_seconds",
        "Predicted time to read and replay the log at the next open");
    rest: gauge(Seconds, "recovery_fixed_seconds", "Predicted fixed time of the next open");
    growth: gauge(Seconds, "recovery_growth_seconds",
        "Predicted growth of the replay until a checkpoint that begins now ends");
    checkpoint: gauge(Seconds, "recovery_checkpoint_seconds",
        "Expected time of a checkpoint that begins now");
    log_bytes: gauge(Bytes, "recovery_log_bytes", "Bytes of log that a recovery would replay");
    log_entries: gauge(Number, "recovery_log_entries", "Entries of the log that a recovery would replay");
    rates: part();
} }

figures! { RecoveryRates {
    is_measured: gauge(Flag, "recovery_rates_measured", "1 if a recovery of the folder was measured");
    threads: gauge(Number, "recovery_threads", "Threads that recover");
    load_bytes_per_second: gauge(BytesPerSecond, "recovery_load_bytes_per_second",
        "Rate of loading a checkpoint");
    replay_entries_per_second: gauge(NumberPerSecond, "recovery_replay_entries_per_second",
        "Rate of replaying entries of the log");
    applied_nanos_per_entry: nanos("recovery_apply_seconds",
        "Time of applying one operation, 0 if not measured");
} }

figures! { ShippingStats {
    shipped_epoch: gauge(Epoch, "shipping_shipped_epoch", "Epoch up to which the shared store is complete");
    durable_epoch: gauge(Epoch, "shipping_durable_epoch", "Durable epoch that the shared store has to reach");
    manifest: gauge(Number, "shipping_manifest",
        "Number of the last manifest in the shared store, 0 without one");
    term: gauge(Number, "shipping_term", "Term of this machine in the shared store, 0 before the first step");
    files: counter(Number, "shipping_written_files_total", "Files written to the shared store");
    bytes: counter(Bytes, "shipping_written_bytes_total", "Bytes written to the shared store");
    waiting_files: gauge(Number, "shipping_waiting_files", "Files that wait for the shared store");
    waiting_bytes: gauge(Bytes, "shipping_waiting_bytes", "Bytes that wait for the shared store");
    failures: counter(Number, "shipping_failures_total", "Failed attempts to write to the shared store");
    last_error: presence("shipping_failing", "1 while the last attempt to ship has failed");
    fenced: presence("shipping_fenced", "1 after another machine has taken over");
    overruns: counter(Number, "shipping_overruns_total", "Removals of log files that were not shipped yet");
} }
