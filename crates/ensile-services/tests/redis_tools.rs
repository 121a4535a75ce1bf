//! redis' own clients against the hash table: redis-cli and redis-benchmark, as Debian's package redis-tools has them.
//!
//! They are not part of a plain `cargo test`, which must pass without them. `ci/redis-tools.sh` installs them and runs
//! this; without them it fails.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server in a process of its own, killed with this.
struct Server {
    process: Child,
    port: String,
    folder: PathBuf,
}

impl Server {
    fn start(name: &str, options: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("ensile-redis-tools-{name}-{}", std::process::id()));
        let mut process = Command::new(env!("CARGO_BIN_EXE_ensile-service"))
            .args(["pht", "--listen", "127.0.0.1:0", "--data"])
            .arg(&folder)
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built");
        let mut line = String::new();
        let told = process.stdout.take().expect("it is piped");
        BufReader::new(told).read_line(&mut line).expect("it tells its address");
        let port = line.trim().rsplit(':').next().expect("a port").to_owned();
        Self { process, port, folder }
    }

    /// Runs one of redis' tools against it; what it prints.
    fn tool(&self, tool: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(tool);
        let output = command.args(["-p", &self.port]).args(arguments).stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("{tool}: {error}: run ci/redis-tools.sh"));
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{tool}: {told}{}", String::from_utf8_lossy(&output.stderr));
        told
    }

    fn cli(&self, line: &str) -> String {
        self.tool("redis-cli", &line.split(' ').collect::<Vec<_>>()).trim_end().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
#[ignore = "needs redis-tools: ci/redis-tools.sh installs them and runs this"]
fn redis_cli_has_its_commands() {
    let server = Server::start("cli", &[]);
    for (line, wanted) in [
        ("PING", "PONG"),
        ("SET a 1", "OK"),
        ("GET a", "1"),
        ("INCR a", "2"),
        ("MGET a b", "2\n"),
        ("EXISTS a b", "1"),
        ("-3 GET a", "2"),
        (
            "-3 HELLO",
            "server ensile-pht\nversion 0.1.0\nproto 3\nid 0\nmode standalone\nrole master\nmodules",
        ),
        ("DEL a", "1"),
        ("FLUSHALL", "ERR unknown command 'FLUSHALL', with args beginning with:"),
    ] {
        let said = server.cli(line);
        let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("id ")).collect();
        let wanted: Vec<&str> = wanted.lines().filter(|line| !line.starts_with("id ")).collect();
        assert_eq!(said.join("\n").trim(), wanted.join("\n").trim(), "{line}");
    }
    for number in 0..500 {
        assert_eq!(server.cli(&format!("SET scanned:{number} x")), "OK");
    }
    let mut keys: Vec<String> = server.cli("--scan --pattern scanned:*").lines().map(str::to_owned).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 500);
    // What it asks for before it takes commands from a terminal.
    assert!(server.cli("COMMAND DOCS").contains("summary"));
}

#[test]
#[ignore = "needs redis-tools: ci/redis-tools.sh installs them and runs this"]
fn redis_benchmark_runs_strict_and_relaxed_and_in_pipelines() {
    for (name, options) in [("strict", ["--durability", "strict"]), ("relaxed", ["--durability", "relaxed"])]
    {
        let server = Server::start(name, &[&options[..], &["--loops", "2"]].concat());
        for pipeline in ["1", "16"] {
            let line =
                ["-t", "ping,set,get,incr", "-n", "2000", "-c", "50", "-r", "1000", "-q", "-P", pipeline];
            let said = server.tool("redis-benchmark", &line);
            for test in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR"] {
                assert!(said.contains(&format!("{test}: ")), "{name}: {said}");
            }
            assert!(!said.to_lowercase().contains("err"), "{name}: {said}");
        }
        let elements: u64 = server.cli("DBSIZE").parse().expect("a number");
        assert!((1..=2001).contains(&elements), "{elements} elements");
    }
}
