//! The admin port of `ensile serve` from outside: who may ask, and the answers.
//!
//! Neighbours: `serve` has the clients' port; `ci/live-page.sh` looks at the page in a browser.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::outside::Folder;
use crate::serve::{call, connect};
use crate::server::{Server, told};

/// `any:secret`.
const SECRET: &str = "Authorization: Basic YW55OnNlY3JldA==\r\n";

/// A server with an admin port, and the port's address.
fn start(folder: &Folder) -> (Server, SocketAddr) {
    std::fs::write(folder.0.join("secret"), "secret\n").expect("a file");
    let server = Server::start(folder, "--loops 1 --admin-port 0 --admin-password-file secret");
    let told = told(folder);
    let (_, rest) = told.split_once("admin port: http://").expect("the address is told");
    let address = rest.split('/').next().and_then(|at| at.parse().ok()).expect("an address");
    (server, address)
}

/// The reply to a request with these header lines: head and body.
fn ask(address: SocketAddr, line: &str, headers: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).expect("it listens");
    write!(connection, "{line} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").expect("a request");
    let mut reply = String::new();
    connection.read_to_string(&mut reply).expect("a reply in UTF-8");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, &format!("GET {path}"), &format!("Host: {address}\r\n{SECRET}"))
}

#[test]
fn the_admin_port_answers_its_owner_on_this_machine_only() {
    let folder = Folder::new("admin-refused");
    let (_server, address) = start(&folder);
    let host = format!("Host: {address}\r\n");
    for path in ["/", "/metrics", "/stats.json", "/health", "/none"] {
        let line = format!("GET {path}");
        for (headers, status) in [
            (host.clone(), "401"),
            (format!("{host}Authorization: Basic YW55Ondyb25n\r\n"), "401"),
            (format!("{host}Authorization: Bearer secret\r\n"), "401"),
            (format!("Host: evil.example\r\n{SECRET}"), "403"),
            (SECRET.to_owned(), "403"),
        ] {
            let (head, body) = ask(address, &line, &headers);
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {headers}: {head}");
            assert!(!body.contains("ensile_"), "{path}: no figure is shown");
        }
    }
    let (head, _) = ask(address, "POST /metrics", &format!("{host}{SECRET}Content-Length: 0\r\n"));
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    assert!(get(address, "/none").0.starts_with("HTTP/1.1 404 "));
}

#[test]
fn an_admin_port_without_a_password_is_refused() {
    let folder = Folder::new("admin-open");
    let (output, _, stderr) = folder.run(env!("CARGO_BIN_EXE_ensile"), "serve --port 0 --admin-port 0");
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("admin-port needs a password"), "{stderr}");
    assert!(!folder.0.join("data").exists(), "a refused start changes nothing");
}

#[test]
fn the_figures_of_all_answers_are_the_same() {
    let folder = Folder::new("admin-figures");
    let (server, address) = start(&folder);
    let mut client = connect(&server);
    for number in 1..=50 {
        assert_eq!(call(&mut client, "INCR counter"), format!(":{number}"));
    }
    let (head, metrics) = get(address, "/metrics");
    assert!(head.contains("200 OK"), "{head}");
    let guide = include_str!("../../../../docs/guide/redis.md");
    for line in metrics.lines().filter_map(|line| line.strip_prefix("# HELP ensile_server_")) {
        let (name, help) = line.split_once(' ').expect("a name and a text");
        let row = guide.lines().find(|row| row.starts_with(&format!("| `ensile_server_{name}` |")));
        assert!(row.is_some_and(|row| row.replace('`', "").contains(help)), "the guide lacks: {line}");
    }
    let (_, json) = get(address, "/stats.json");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let figures = json["figures"].as_object().expect("figures by name");
    for (name, value) in figures {
        let line = metrics.lines().find(|line| line.starts_with(&format!("{name} ")));
        assert_eq!(line.is_some(), !value.is_null(), "{name} is in both answers or has no value");
    }
    assert!(metrics.contains("ensile_server_command_calls_total{command=\"incr\"} 50\n"), "{metrics}");
    let calls =
        json["commands"].as_array().expect("commands").iter().find(|command| command["name"] == "INCR");
    assert_eq!(calls.expect("the command")["calls"], 50);
    let counted: u64 = json["latency"]
        .as_array()
        .expect("buckets")
        .iter()
        .filter_map(|bucket| bucket["count"].as_u64())
        .sum();
    assert!(counted >= 50, "each reply has a time: {counted}");
    assert_eq!((&json["is_well"], get(address, "/health").0.contains("200 OK")), (&Value::Bool(true), true));
    let (head, page) = get(address, "/");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    assert!(page.starts_with("<!doctype html>") && !page.contains("http://") && !page.contains("https://"));
}
