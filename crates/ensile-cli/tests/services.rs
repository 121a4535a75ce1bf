//! `ensile objects take-over` of a service: it ships, is killed, and is started from the folder that was taken over
//! into; the one before is fenced.
//!
//! Not under a harness, as it is the service too: run with `serve` it is one.
//!
//! Neighbours: `ensile_services` has the service and its client; here two machines are two folders.

mod outside;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use ensile_services::client::{RespClient, TableClient, in_words};
use ensile_services::command::{self, ServeArguments};
use ensile_services::server::threads::ReadyServer;

use outside::Folder;

/// The options of a service.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    serve: ServeArguments,
}

/// A process that serves; killed with this.
struct Service {
    process: Child,
    address: SocketAddr,
}

impl Service {
    fn start(folder: &Folder, data: &str) -> Self {
        let program = std::env::current_exe().expect("it is a file");
        let options = ["serve", "pht", "--listen", "127.0.0.1:0", "--ship-to", "shared", "--data", data];
        let mut process = Command::new(program)
            .args(options)
            .current_dir(&folder.0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut line).expect("it tells");
        Self { process, address: line.trim().parse().expect("its address") }
    }

    fn client(&self) -> TableClient {
        TableClient::connect(self.address).expect("it listens")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A figure of `INFO`, if it is told.
fn figure(client: &mut RespClient, name: &str) -> Option<String> {
    let told = client.call(&["INFO"], |reply| Some(in_words(reply))).expect("it serves");
    told.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned()))
}

fn epoch(client: &mut RespClient, name: &str) -> u64 {
    figure(client, name).expect("it is told").parse().expect("a number")
}

fn another_machine_takes_over_and_the_first_is_fenced() {
    let folder = Folder::new("services-take-over");
    std::fs::create_dir_all(folder.0.join("shared")).expect("makes");
    let first = Service::start(&folder, "first");
    let mut client = first.client();
    for number in 0..20_u32 {
        client.set(&number.to_le_bytes(), b"1").expect("it serves");
    }
    // A log file is closed and shipped while more is written.
    let replied = epoch(client.connection(), "epoch");
    while epoch(client.connection(), "shipped_epoch") < replied {
        client.increment(b"count", 1).expect("it serves");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SIGKILL.
    drop(first);
    let (output, said, errors) = folder.run(env!("CARGO_BIN_EXE_ensile"), "objects take-over shared second");
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    assert!(said.contains("in term 2"), "{said}");

    let second = Service::start(&folder, "second");
    let mut client = second.client();
    for number in 0..20_u32 {
        assert_eq!(client.get(&number.to_le_bytes()).expect("it serves"), Some(b"1".to_vec()), "{number}");
    }
    client.set(b"later", b"2").expect("it serves");

    // The first machine is back, and hears of the other one at its first look at the shared folder.
    let first = Service::start(&folder, "first");
    let mut client = first.client();
    let refused = loop {
        match client.set(b"lost", b"3") {
            Ok(()) => std::thread::sleep(Duration::from_millis(20)),
            Err(refused) => break refused.to_string(),
        }
    };
    assert!(refused.contains("NOTKEPT") || refused.contains("NOTDURABLE"), "{refused}");
    let fenced = figure(client.connection(), "shipping_fenced").expect("it is fenced");
    assert!(!fenced.is_empty());
    // What it was told meanwhile is not at the second machine.
    let mut client = second.client();
    assert_eq!(client.get(b"lost").expect("it serves"), None);
    assert_eq!(client.get(b"later").expect("it serves"), Some(b"2".to_vec()));
}

fn serve(words: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let arguments = Line::parse_from(words).serve;
    let ready = |server: ReadyServer<'_>| {
        println!("{}", server.address);
        std::io::stdout().flush()
    };
    let served = command::run(&arguments, ready, |notice| eprintln!("{notice}"));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == "serve") {
        return serve(std::env::args_os().skip(1));
    }
    another_machine_takes_over_and_the_first_is_fenced();
    println!("1 passed, 0 failed");
    ExitCode::SUCCESS
}
