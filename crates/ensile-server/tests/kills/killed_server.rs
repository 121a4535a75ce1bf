//! A server in a process of its own: this test program once more, which runs one of its tests.
//!
//! Neighbours: `main` begins and kills the processes; `workload` calls the procedure.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ensile::{Database, Durability};
use ensile_server::{Appendfsync, ProcedureCall, ProcedureError, ReplyValue, Server};

use crate::lists;

/// Folder of the killed process.
const FOLDER: &str = "ENSILE_KILLED_FOLDER";
const APPENDFSYNC: &str = "ENSILE_KILLED_APPENDFSYNC";
/// Words before the address on the standard output.
const ADDRESS: &str = "the address is ";

/// Has no effect, except in a process that a test kills.
#[test]
fn the_server_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let appendfsync = match std::env::var(APPENDFSYNC).as_deref() {
        Ok("always") => Appendfsync::Always,
        Ok("everysec") => Appendfsync::Everysec,
        other => panic!("{APPENDFSYNC}: {other:?}"),
    };
    let db = Database::builder(&folder).durability(Durability::Process).open().expect("the folder opens");
    let server = Server::builder(db).appendfsync(appendfsync).procedure(lists::PROCEDURE, carry_out);
    let server = server.build().expect("the tables").listen("127.0.0.1:0".parse().expect("an address"));
    let server = server.expect("a free port");
    println!("{ADDRESS}{}", server.address());
    // The pipe ends with the process that has begun this process.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    server.stop().expect("the end is durable");
}

/// The procedure: the operations of [`lists::SCRIPT`] in Rust.
fn carry_out(call: &mut ProcedureCall<'_, '_>) -> Result<ReplyValue, ProcedureError> {
    let words: Vec<&[u8]> = call.arguments().to_vec();
    let mut seen = Vec::new();
    for operation in words.chunks(3) {
        let &[verb, key, element] = operation else {
            return Err(ProcedureError::Reply("ERR three words".to_owned()));
        };
        let length = |reply: ReplyValue| match reply {
            ReplyValue::Integer(length) => (length + 1).to_string().into_bytes(),
            other => panic!("no length: {other:?}"),
        };
        match (verb, key.first()) {
            (b"r", Some(b'l')) => seen.push(call.command(&[b"LRANGE", key, b"0", b"-1"])?),
            (b"r", Some(b's')) => seen.push(call.command(&[b"GET", key])?),
            (b"r", Some(b'h')) => seen.push(flat(call.command(&[b"HGETALL", key])?)),
            (b"r", Some(b'z')) => {
                seen.push(flat(call.command(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])?));
            }
            (b"a", Some(b'l')) => drop(call.command(&[b"RPUSH", key, element])?),
            (b"a", Some(b's')) => drop(call.command(&[b"APPEND", key, &[element, b","].concat()])?),
            (b"a", Some(b'h')) => {
                let place = length(call.command(&[b"HLEN", key])?);
                call.command(&[b"HSET", key, &place, element])?;
            }
            (b"a", Some(b'z')) => {
                let place = length(call.command(&[b"ZCARD", key])?);
                call.command(&[b"ZADD", key, &place, element])?;
            }
            _ => return Err(ProcedureError::Reply("ERR an operation".to_owned())),
        }
    }
    Ok(ReplyValue::Array(seen))
}

/// The pairs of a map, or of members and scores, one behind the other.
fn flat(value: ReplyValue) -> ReplyValue {
    let flat = match value {
        ReplyValue::Map(pairs) => pairs.into_iter().flat_map(|(field, value)| [field, value]).collect(),
        ReplyValue::Array(pairs) => {
            let parts = |pair| if let ReplyValue::Array(parts) = pair { parts } else { vec![pair] };
            pairs.into_iter().flat_map(parts).collect()
        }
        other => vec![other],
    };
    ReplyValue::Array(flat)
}

/// A process that serves a folder. The drop kills the process.
pub(crate) struct KilledServer {
    process: Child,
}

impl KilledServer {
    /// Begins a process.
    pub(crate) fn begin(folder: &Path, appendfsync: &str) -> Self {
        let process = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "killed_server::the_server_that_is_killed", "--nocapture"])
            .env(FOLDER, folder)
            .env(APPENDFSYNC, appendfsync)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts");
        Self { process }
    }

    /// The address, once the database is loaded.
    pub(crate) fn address(&mut self) -> SocketAddr {
        let output = self.process.stdout.take().expect("the output is piped");
        for line in BufReader::new(output).lines() {
            let line = line.expect("the output is text");
            if let Some((_, address)) = line.split_once(ADDRESS) {
                return address.trim().parse().expect("an address");
            }
        }
        panic!("the server has ended before it listens");
    }

    /// Ends the process by SIGKILL.
    pub(crate) fn kill(self) {}
}

impl Drop for KilledServer {
    fn drop(&mut self) {
        let process = &mut self.process;
        let has_ended = process.try_wait().expect("the process was begun");
        let killed = process.kill().and_then(|()| process.wait());
        if !std::thread::panicking() {
            assert!(has_ended.is_none(), "the server has ended by itself: {has_ended:?}");
            killed.expect("the process is killed");
        }
    }
}
