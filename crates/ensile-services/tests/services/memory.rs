//! The memory of a service in a process of its own after large requests and large replies (W17).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_resp::encode_request;

use crate::processes::{Folder, Server, with_io_uring};

/// Memory above the data that stays after large requests, at most, in bytes.
const ABOVE_DATA_BYTES: u64 = 64 << 20;
/// Longest wait, far above ten seconds, which an idle machine takes at most.
const DEADLINE: Duration = Duration::from_secs(120);

const CLIENTS: usize = 40;
const VALUE_BYTES: usize = 8 << 20;
/// Least memory of the clients together when all large values are in the server, in bytes.
const PEAK_BYTES: u64 = (CLIENTS * VALUE_BYTES / 3) as u64;

mod epoll {
    #[test]
    fn w17_memory_of_large_replies_goes_back() {
        super::memory_of_large_replies_goes_back("epoll");
    }

    #[test]
    fn w17_memory_of_large_requests_goes_back() {
        super::memory_of_large_requests_goes_back("epoll");
    }
}

mod io_uring {
    #[test]
    fn w17_memory_of_large_replies_goes_back() {
        super::with_io_uring(super::memory_of_large_replies_goes_back);
    }

    #[test]
    fn w17_memory_of_large_requests_goes_back() {
        super::with_io_uring(super::memory_of_large_requests_goes_back);
    }
}

/// Resident memory of a server's process, in bytes.
fn resident_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kibibytes << 10
}

/// Looks until the resident memory is as wanted.
fn wait_for(what: &str, server: &Server, wanted: impl Fn(u64) -> bool) {
    let clock = Clock::machine();
    loop {
        let bytes = resident_bytes(server);
        if wanted(bytes) {
            return;
        }
        assert!(clock.nanos() < DEADLINE.as_nanos() as u64, "W17: {what}: {} MiB", bytes >> 20);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn request(arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(&mut bytes, arguments);
    bytes
}

/// A table with one large value, and its resident memory.
fn server_with_a_value(folder: &Folder) -> (Server, u64) {
    let server = folder.start("pht table --durability relaxed");
    let mut client = TcpStream::connect(server.address()).expect("it listens");
    client.write_all(&request(&[b"SET", b"large", &vec![b'v'; VALUE_BYTES]])).expect("it serves");
    client.read_exact(&mut [0; 5]).expect("it replies");
    let bytes = resident_bytes(&server);
    (server, bytes)
}

/// The replies wait in the server, since no client reads before all have asked.
fn memory_of_large_replies_goes_back(transport: &'static str) {
    let folder = Folder::new("large-replies", transport);
    let (server, before) = server_with_a_value(&folder);
    let mut clients: Vec<TcpStream> =
        (0..CLIENTS).map(|_| TcpStream::connect(server.address()).expect("it listens")).collect();
    clients.iter_mut().for_each(|client| client.write_all(&request(&[b"GET", b"large"])).expect("it serves"));
    wait_for("replies wait", &server, |bytes| bytes > before + PEAK_BYTES);
    let mut reply = vec![0; VALUE_BYTES + 12];
    for client in &mut clients {
        client.read_exact(&mut reply).expect("it replies");
        assert!(reply.starts_with(b"$8388608\r\nvvv") && reply.ends_with(b"vvv\r\n"));
    }
    wait_for("clients are silent", &server, |bytes| bytes <= before + ABOVE_DATA_BYTES);
    drop(clients);
    wait_for("clients have gone", &server, |bytes| bytes <= before + ABOVE_DATA_BYTES);
}

/// Each request lacks its end, so the server has all of them at once.
fn memory_of_large_requests_goes_back(transport: &'static str) {
    let folder = Folder::new("large-requests", transport);
    let (server, before) = server_with_a_value(&folder);
    let mut clients: Vec<TcpStream> =
        (0..CLIENTS).map(|_| TcpStream::connect(server.address()).expect("it listens")).collect();
    let bytes = request(&[b"SET", b"large", &vec![b'w'; VALUE_BYTES]]);
    let (most, end) = bytes.split_at(bytes.len() - 1);
    clients.iter_mut().for_each(|client| client.write_all(most).expect("it reads"));
    wait_for("requests are there", &server, |bytes| bytes > before + PEAK_BYTES);
    // Half of them end, and the others go.
    clients.truncate(CLIENTS / 2);
    for client in &mut clients {
        client.write_all(end).expect("it reads");
        let mut reply = [0; 5];
        client.read_exact(&mut reply).expect("it replies");
        assert_eq!(&reply, b"+OK\r\n");
    }
    wait_for("clients are silent or have gone", &server, |bytes| bytes <= before + ABOVE_DATA_BYTES);
}
