//! `ensile objects take-over` of a service that ships, from the folder that was taken over into. The one before was
//! killed and comes back, or lives and replies all the while: it is fenced.
//!
//! Not under a harness, as it is the service too: run with `serve` it is one.
//!
//! Neighbours: `ensile_services` has the service and its client; here two machines are two folders.

mod outside;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Sender, channel};
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
    // Increments may have become durable behind the last shipped file.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}{errors}");
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
    // Its folder remembers that it is fenced.
    drop(first);
    let program = std::env::current_exe().expect("it is a file");
    let line = "serve pht --listen 127.0.0.1:0 --ship-to shared --data first";
    let (refused, _, errors) = folder.run(program.to_str().expect("a name in UTF-8"), line);
    assert!(!refused.status.success() && errors.contains("is fenced"), "{errors}");
    // What it was told meanwhile is not at the second machine.
    let mut client = second.client();
    assert_eq!(client.get(b"lost").expect("it serves"), None);
    assert_eq!(client.get(b"later").expect("it serves"), Some(b"2".to_vec()));
}

/// What a client increments at a machine, one call after the other, until one is refused.
struct IncrementLoad {
    /// E before a call, and what the call replied.
    replied: Vec<(u64, i64)>,
    /// What was said instead of the last reply.
    refused: String,
}

impl IncrementLoad {
    /// `began` is told once calls are replied to.
    fn run(mut client: TableClient, began: &Sender<()>) -> Self {
        let mut replied = Vec::new();
        loop {
            let before = epoch(client.connection(), "epoch");
            match client.increment(b"count", 1) {
                Ok(count) => replied.push((before, count)),
                Err(refused) => return Self { replied, refused: refused.to_string() },
            }
            if replied.len() == 10 {
                began.send(()).expect("the test waits for it");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The least and the most that a state has which is complete to the end of this epoch, and has nothing behind it.
    fn at_the_end_of(&self, epoch: u64) -> (i64, i64) {
        // What was replied before E was looked at again is of that epoch at most, and of its own look's at least.
        let calls = self.replied.iter().zip(self.replied.iter().skip(1));
        let least = calls.take_while(|(_, next)| next.0 <= epoch).last().map_or(0, |(call, _)| call.1);
        let most =
            self.replied.iter().take_while(|(before, _)| *before <= epoch).last().map_or(0, |call| call.1);
        (least, most)
    }
}

/// Runs `ensile objects take-over`: up to the end of which epoch, of which database, from which one.
fn take_over(folder: &Folder, line: &str) -> (u64, String, String) {
    let line = format!("objects take-over {line}");
    let (output, said, errors) = folder.run(env!("CARGO_BIN_EXE_ensile"), &line);
    let behind = |before: &str, end: char| {
        let (_, behind) = said.split_once(before).unwrap_or_else(|| panic!("no {before:?}: {said}"));
        behind.split(end).next().unwrap_or_default().to_owned()
    };
    let number = |text: String| text.parse::<u64>().expect("a number");
    let epoch = number(behind("complete up to the end of epoch ", ';'));
    let durable = number(behind("entries up to epoch ", ' '));
    assert!(durable >= epoch, "{said}");
    assert_eq!(output.status.code(), Some(if durable > epoch { 3 } else { 0 }), "{said}{errors}");
    (epoch, behind("database ", ','), behind("taken over from ", ' '))
}

/// What is in a folder, and how long it is.
fn listing(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("lists") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files.extend(listing(&path)),
            false => files.push((path.clone(), std::fs::metadata(&path).expect("is there").len())),
        }
    }
    files.sort();
    files
}

/// The first machine lives, and replies to a client all the while.
fn another_machine_takes_over_while_the_first_one_serves() {
    let folder = Folder::new("services-alive");
    let shared = folder.0.join("shared");
    std::fs::create_dir_all(&shared).expect("makes");
    let first = Service::start(&folder, "first");
    let mut client = first.client();
    client.set(b"before", b"1").expect("it serves");
    let kept = epoch(client.connection(), "epoch");
    let (began, has_begun) = channel();
    let under_load = first.client();
    #[expect(clippy::disallowed_methods, reason = "a client of its own")]
    let load = std::thread::spawn(move || IncrementLoad::run(under_load, &began));
    has_begun.recv().expect("it serves");
    // A log file is closed and shipped while the load goes on.
    while epoch(client.connection(), "shipped_epoch") < kept {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (complete, second_id, _) = take_over(&folder, "shared second");
    assert!(complete >= kept, "{complete} {kept}");

    // The first one hears of it when it ships again. Nothing of what it ships comes to the shared folder from then on.
    let load = load.join().expect("it ends when it is refused");
    assert!(load.refused.contains("NOTKEPT") || load.refused.contains("NOTDURABLE"), "{}", load.refused);
    let fenced = loop {
        if let Some(fenced) = figure(client.connection(), "shipping_fenced") {
            break fenced;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(fenced.contains(&second_id), "{fenced}: {second_id}");
    let before = listing(&shared);
    let refused = client.set(b"lost", b"3").expect_err("it is fenced").to_string();
    assert!(refused.contains(&second_id), "{refused}");
    assert_eq!(client.get(b"before").expect("it serves"), Some(b"1".to_vec()), "reads are served");
    assert_eq!(epoch(client.connection(), "shipped_epoch"), complete, "it stays what it was");
    assert_eq!(listing(&shared), before, "it puts nothing there any more");

    // The second has all up to the end of the epoch that was said, and nothing of later ones.
    let second = Service::start(&folder, "second");
    let mut served = second.client();
    assert_eq!(served.get(b"before").expect("it serves"), Some(b"1".to_vec()));
    let count = served
        .get(b"count")
        .expect("it serves")
        .map_or(0, |count| String::from_utf8(count).expect("digits").parse::<i64>().expect("a number"));
    let (least, most) = load.at_the_end_of(complete);
    assert!((least..=most).contains(&count), "{least} {count} {most}");
    assert!(
        count < load.replied.last().expect("it was served").1,
        "the first one went on behind what it had shipped"
    );
    assert_eq!(served.get(b"lost").expect("it serves"), None);

    // And it ships on, while the first one still runs: a third machine gets what the second has replied.
    served.set(b"later", b"2").expect("it serves");
    let kept = epoch(served.connection(), "epoch");
    while epoch(served.connection(), "shipped_epoch") < kept {
        served.increment(b"count", 1).expect("it serves");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(figure(client.connection(), "shipping_fenced").is_some(), "it lives");
    assert_eq!(epoch(client.connection(), "shipped_epoch"), complete, "it stays what it was");
    let (complete, _, from) = take_over(&folder, "shared third");
    assert!(complete >= kept, "{complete} {kept}");
    assert_eq!(from, second_id);
    let third = Service::start(&folder, "third");
    assert_eq!(third.client().get(b"later").expect("it serves"), Some(b"2".to_vec()));
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
    another_machine_takes_over_while_the_first_one_serves();
    println!("2 passed, 0 failed");
    ExitCode::SUCCESS
}
