//! Doors to the machine: the files that may open files and sockets, and start threads.
//!
//! Lower floors offer step functions and take a disk as a trait, so that a simulator can own steps and disk. clippy
//! holds the door of clocks (`disallowed-methods` in `clippy.toml`).
//!
//! Neighbours: [`super`] lists these rules; the door of atomics is in [`super::atomics`].

use super::facts::Facts;
use super::finding::Report;
use super::places::lies_in;
use crate::source::Source;

/// Places that may open files, with the reasons.
const FILES: &[(&str, &str)] = &[
    ("crates/ensile-disk/", "the door"),
    ("crates/ensile-bench/", "workloads make and remove data folders"),
    ("crates/ensile-papers/", "experiments make and remove data folders"),
    ("crates/ensile-cli/", "the binary reads and writes what its user names"),
    ("crates/ensile-net/src/unix_socket.rs", "the address of a Unix socket is a file"),
    ("crates/ensile/examples/", "an example is an application"),
    ("crates/ensile-objects/examples/", "an example is an application"),
    ("xtask/", "reads the tree"),
    (
        "crates/ensile-sim/src/process_threads.rs",
        "what tests ask Linux of their own threads, no file of anybody",
    ),
];

/// Places that may open sockets, with the reasons.
const SOCKETS: &[(&str, &str)] = &[
    ("crates/ensile-net/", "the door"),
    ("crates/ensile-papers/", "load generators are clients"),
    ("crates/ensile-server/src/admin_port*", "an HTTP library has its own loop of sockets"),
    ("crates/ensile-services/src/client*", "a client blocks its caller, and needs no loop"),
    ("crates/ensile/examples/", "an example is an application"),
];

/// Socket types of std; addresses are no sockets.
const SOCKET_TYPES: [&str; 6] =
    ["TcpListener", "TcpStream", "UdpSocket", "UnixDatagram", "UnixListener", "UnixStream"];

/// Places that may start threads, with the reasons.
const THREADS: &[(&str, &str)] = &[
    ("crates/ensile-engine/src/database*", "the database owns its threads"),
    ("crates/ensile-engine/src/open/threads*", "the database owns its threads"),
    ("crates/ensile-objects/src/runtime/threads*", "open objects own their threads"),
    ("crates/ensile-serving/src/threads*", "a server owns its loops' threads"),
    ("crates/ensile-server/src/admin_port*", "no client waits for the admin port"),
    ("crates/ensile-server/src/running*", "a server beside a program owns its threads"),
    (
        "crates/ensile-server/src/access/verifier*",
        "a check of a password takes milliseconds, and a loop never waits",
    ),
    ("crates/ensile-server/src/sweeper*", "a served database owns the thread that removes rows"),
    ("crates/ensile-objects/examples/", "an example is an application"),
    ("crates/ensile-bench/", "workloads are threads"),
    ("crates/ensile-papers/", "experiments are threads"),
    ("crates/ensile/examples/", "an example is an application"),
];

/// Only the disk floor opens files.
pub(super) fn files(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    if lies_in(source.path, FILES) {
        return;
    }
    for path in source.paths() {
        let is_file = matches!(path.segments[..], ["std", "fs", ..] | ["rustix", "fs", ..]);
        if is_file && !source.in_test(path.line) {
            report.add(path.line, "go through `ensile_disk`: no other floor opens files");
        }
    }
}

/// Only the loop's floor opens sockets.
pub(super) fn sockets(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    if lies_in(source.path, SOCKETS) {
        return;
    }
    for path in source.paths() {
        let is_socket = matches!(path.segments[..], ["rustix", "net", ..] | ["io_uring", ..])
            || path.segments.windows(2).any(|pair| pair[0] == "net" && SOCKET_TYPES.contains(&pair[1]));
        if is_socket && !source.in_test(path.line) {
            report.add(path.line, "go through `ensile_net`: no other floor opens sockets");
        }
    }
}

/// Only the database starts threads; lower floors offer steps.
pub(super) fn threads(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    if lies_in(source.path, THREADS) {
        return;
    }
    for path in source.paths() {
        let starts =
            path.segments.windows(2).any(|pair| matches!(pair, ["thread", "spawn" | "Builder" | "scope"]));
        if starts && !source.in_test(path.line) {
            report.add(path.line, "offer a step function: only the database starts threads");
        }
    }
}
