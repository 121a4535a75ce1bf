//! redis' own clients against `ensile serve`: redis-cli and redis-benchmark, as Debian's package redis-tools has them.
//!
//! A plain `cargo test` must pass without the tools, and leaves these tests out. `ci/redis-tools.sh` installs the tools
//! and runs the tests; without the tools the tests fail.
//!
//! Neighbours: `ensile-services` has the same for its hash table.

use std::process::{Command, Stdio};

use crate::outside::Folder;
use crate::serve::{certificate, tls_options};
use crate::server::{Server, told};

/// Runs one of redis' tools against a server; its output.
fn tool(server: &Server, tool: &str, arguments: &[&str]) -> String {
    let port = server.address.port().to_string();
    let output = Command::new(tool).args(["-p", &port]).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{tool}: {error}: run ci/redis-tools.sh"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{tool}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn cli(server: &Server, line: &str) -> String {
    tool(server, "redis-cli", &line.split(' ').collect::<Vec<_>>()).trim_end().to_owned()
}

#[test]
#[ignore = "needs redis-tools: ci/redis-tools.sh installs them and runs this"]
fn redis_cli_has_strings_keys_and_databases() {
    let folder = Folder::new("redis-cli");
    let server = Server::start(&folder, "--loops 2");
    for (line, wanted) in [
        ("PING", "PONG"),
        ("SET k v EX 100", "OK"),
        ("GET k", "v"),
        ("TTL k", "100"),
        ("PERSIST k", "1"),
        ("APPEND k w", "2"),
        ("-3 GET k", "vw"),
        ("INCRBYFLOAT f 1.5", "1.5"),
        ("MSET a 1 b 2", "OK"),
        ("DBSIZE", "4"),
        ("-n 1 DBSIZE", "0"),
        ("SWAPDB 0 1", "OK"),
        ("-n 1 MGET a b", "1\n2"),
        ("FLUSHALL", "OK"),
        ("-n 1 DBSIZE", "0"),
        ("GEOADD g 1 1 x", "ERR GEOADD is not available in this version of ensile"),
    ] {
        assert_eq!(cli(&server, line), wanted, "{line}; {}", told(&folder));
    }
    for number in 0..500 {
        assert_eq!(cli(&server, &format!("SET scanned:{number} x")), "OK");
    }
    let mut keys: Vec<String> =
        cli(&server, "--scan --pattern scanned:*").lines().map(str::to_owned).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 500);
    // redis-cli asks for the commands before it takes commands from a terminal.
    assert!(cli(&server, "COMMAND DOCS").contains("summary"));
}

#[test]
#[ignore = "needs redis-tools: ci/redis-tools.sh installs them and runs this"]
fn redis_benchmark_runs_with_both_kinds_of_replies_and_in_pipelines() {
    for appendfsync in ["always", "everysec"] {
        let folder = Folder::new(&format!("redis-benchmark-{appendfsync}"));
        let server = Server::start(&folder, &format!("--loops 2 --appendfsync {appendfsync}"));
        for pipeline in ["1", "16"] {
            let line = [
                "-t",
                "ping,set,get,incr,mset",
                "-n",
                "2000",
                "-c",
                "50",
                "-r",
                "1000",
                "-q",
                "-P",
                pipeline,
            ];
            let text = tool(&server, "redis-benchmark", &line);
            for test in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET"] {
                assert!(text.contains(&format!("{test}: ")) || text.contains(&format!("{test} (")), "{text}");
            }
            assert!(!text.to_lowercase().contains("err"), "{appendfsync}: {text}");
        }
        let keys: u64 = cli(&server, "DBSIZE").parse().expect("a number");
        assert!((1..=2_001).contains(&keys), "{keys} keys");
    }
}

#[test]
#[ignore = "needs redis-tools: ci/redis-tools.sh installs them and runs this"]
fn redis_cli_and_redis_benchmark_use_tls() {
    let folder = Folder::new("redis-tls");
    let authority = certificate("authority.pem");
    let (pem, key) = (certificate("client.pem"), certificate("client.key"));
    let server = Server::start(&folder, &format!("{} --tls-ca-cert-file {authority}", tls_options()));
    let without = ["--tls", "--cacert", &authority];
    let with = ["--tls", "--cacert", &authority, "--cert", &pem, "--key", &key];
    let cli = |options: &[&str], line: &[&str]| {
        tool(&server, "redis-cli", &[options, line].concat()).trim_end().to_owned()
    };
    assert_eq!(cli(&with, &["SET", "k", "v"]), "OK", "{}", told(&folder));
    assert_eq!(cli(&with, &["GET", "k"]), "v");
    let large = "x".repeat(100_000);
    assert_eq!(cli(&with, &["SET", "large", &large]), "OK");
    assert_eq!(cli(&with, &["GET", "large"]), large);
    let refused = Command::new("redis-cli")
        .args(["-p", &server.address.port().to_string()])
        .args(without)
        .arg("PING")
        .stdin(Stdio::null())
        .output()
        .expect("redis-cli");
    assert!(!String::from_utf8_lossy(&refused.stdout).contains("PONG"), "a client without a certificate");
    let line = ["-t", "set,get", "-n", "2000", "-c", "20", "-q", "-P", "4"];
    let text = tool(&server, "redis-benchmark", &[&with[..], &line].concat());
    assert!(text.contains("SET: ") && text.contains("GET: "), "{text}");
}
