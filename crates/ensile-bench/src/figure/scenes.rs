//! Content of a figure over time: scenes, lines and points.
//!
//! Neighbours: experiments make the content; [`super::over_time`] writes the files, [`super::panels`] draws.

use serde::Serialize;

use super::rows::Row;

/// Averages over the half second before `second`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// End of the window, in seconds since the beginning of the run.
    pub second: f64,
    /// Results in a second.
    pub throughput: f64,
    /// Mean latency, in milliseconds.
    pub mean_ms: Option<f64>,
    /// Median latency, in milliseconds.
    pub p50_ms: Option<f64>,
    /// 99th percentile of latency, in milliseconds.
    pub p99_ms: Option<f64>,
    /// 99.9th percentile of latency, in milliseconds.
    pub p999_ms: Option<f64>,
    /// Resident memory, in MB.
    pub resident_mb: f64,
}

/// One run of one system.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Name of the system.
    pub system: String,
    /// True if the line's latencies until durable are drawn.
    pub durable: bool,
    /// Points in the order of time.
    pub points: Vec<Point>,
    /// Begin and end of the checkpoints, in seconds.
    pub checkpoints: Vec<(f64, f64)>,
}

/// Lines over one time axis.
#[derive(Clone, Debug, Serialize)]
pub struct Scene {
    /// Title above the scene.
    pub title: String,
    /// Lines of the systems.
    pub lines: Vec<Line>,
}

/// A measured figure over time before the figure is written.
#[derive(Debug)]
pub struct OverTime {
    /// Name of the files.
    pub name: &'static str,
    /// Title above the picture.
    pub title: String,
    /// Scenes below each other.
    pub scenes: Vec<Scene>,
    /// Averages over whole runs.
    pub rows: Vec<Row>,
}
