//! `ensile serve` from outside: start, kills, passwords, refused starts, the end by signals.
//!
//! Neighbours: `ensile-server` tests the commands; `guide` compares the table of commands in the guide.

use std::fs::File;
use std::process::Command;

use ensile_services::client::{RespClient, in_words};

use crate::outside::Folder;
use crate::server::{Server, told};

pub(crate) fn connect(server: &Server) -> RespClient {
    RespClient::connect(server.address).expect("it listens")
}

/// The reply to the words of a line.
pub(crate) fn call(client: &mut RespClient, line: &str) -> String {
    client.request(&line.split_whitespace().collect::<Vec<_>>());
    client.receive(in_words).expect("a reply")
}

/// Runs `ensile serve`, which does not start; its exit code and its text.
fn refused(folder: &Folder, options: &str) -> (Option<i32>, String) {
    let (output, stdout, stderr) = folder.run(env!("CARGO_BIN_EXE_ensile"), &format!("serve {options}"));
    assert_eq!(stdout, "", "no address: {stderr}");
    (output.status.code(), stderr)
}

#[test]
fn a_killed_server_loses_nothing_that_was_replied() {
    for appendfsync in ["always", "everysec", "no"] {
        let folder = Folder::new(&format!("serve-killed-{appendfsync}"));
        let options = format!("--appendfsync {appendfsync} --loops 2");
        let server = Server::start(&folder, &options);
        let mut client = connect(&server);
        assert_eq!(call(&mut client, "SET a 1"), "+OK");
        for number in 1..=100 {
            assert_eq!(call(&mut client, "INCR counter"), format!(":{number}"));
        }
        server.kill();
        let server = Server::start(&folder, &options);
        let mut client = connect(&server);
        assert_eq!(call(&mut client, "MGET a counter"), "[1 100]", "{appendfsync}");
        assert!(told(&folder).contains("data is loaded: "), "{}", told(&folder));
    }
}

#[test]
fn a_folder_has_one_server() {
    let folder = Folder::new("serve-second");
    let server = Server::start(&folder, "");
    let (code, text) = refused(&folder, "--data data --port 0");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("in use by another process"), "{text}");
    assert_eq!(call(&mut connect(&server), "PING"), "+PONG");
}

#[test]
fn a_damaged_folder_ends_the_listening_server_with_its_code() {
    let folder = Folder::new("serve-damaged");
    let server = Server::start(&folder, "");
    assert_eq!(call(&mut connect(&server), "SET a 1"), "+OK");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", told(&folder));
    let files = std::fs::read_dir(folder.0.join("data")).expect("the folder");
    for file in files.map(|file| file.expect("a file").path()).filter(|path| path.is_file()) {
        let length = file.metadata().expect("the file").len();
        std::fs::write(&file, vec![0x5a; usize::try_from(length).expect("a short file")]).expect("a file");
    }
    let (code, text) = refused(&folder, "--data data --port 0");
    assert!(matches!(code, Some(1 | 2)), "{code:?}: {text}");
    assert!(text.contains("data"), "{text}");
}

#[test]
fn a_taken_port_is_refused_before_the_folder_is_made() {
    let folder = Folder::new("serve-port");
    let server = Server::start(&folder, "");
    let (code, text) = refused(&folder, &format!("--data other --port {}", server.address.port()));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("choose another address"), "{text}");
    assert!(!folder.0.join("other").exists());
}

#[test]
fn a_client_needs_the_password() {
    let folder = Folder::new("serve-password");
    std::fs::write(folder.0.join("password"), "open sesame\n").expect("a file");
    let server = Server::start(&folder, "--requirepass-file password");
    let mut client = connect(&server);
    assert!(call(&mut client, "GET a").starts_with("!NOAUTH"));
    assert!(call(&mut client, "AUTH sesame").starts_with("!WRONGPASS"));
    assert!(call(&mut client, "GET a").starts_with("!NOAUTH"));
    client.request(&["AUTH", "open sesame"]);
    assert_eq!(client.receive(in_words).expect("a reply"), "+OK");
    assert_eq!(call(&mut client, "GET a"), "-");
}

#[test]
fn the_password_of_a_server_for_other_machines_can_be_changed_and_not_removed() {
    let folder = Folder::new("serve-open");
    std::fs::write(folder.0.join("password"), "sesame").expect("a file");
    let server = Server::start(&folder, "--bind 0.0.0.0 --requirepass-file password");
    let mut client = connect(&server);
    assert_eq!(call(&mut client, "AUTH default sesame"), "+OK");
    client.request(&["CONFIG", "SET", "requirepass", ""]);
    let text = client.receive(in_words).expect("a reply");
    assert!(text.starts_with("!ERR") && text.contains("not removed"), "{text}");
    assert_eq!(call(&mut client, "CONFIG SET requirepass other"), "+OK");
    assert_eq!(call(&mut connect(&server), "AUTH other"), "+OK");
}

#[test]
fn a_user_of_the_configuration_has_its_rights_only() {
    let folder = Folder::new("serve-users");
    std::fs::write(folder.0.join("password"), "open sesame\n").expect("a file");
    let hashed = Command::new(env!("CARGO_BIN_EXE_ensile"))
        .arg("hash-password")
        .stdin(File::open(folder.0.join("password")).expect("a file"))
        .output()
        .expect("it starts");
    let hash = String::from_utf8(hashed.stdout).expect("a text");
    std::fs::write(
        folder.0.join("users"),
        format!("user default off\nuser app on #{} ~app:* +@all -flushall\n", hash.trim()),
    )
    .expect("a file");
    let server = Server::start(&folder, "--users users");
    let mut client = connect(&server);
    assert!(call(&mut client, "PING").starts_with("!NOAUTH"));
    for (password, reply) in [("sesame", "!WRONGPASS"), ("open sesame", "+OK")] {
        client.request(&["AUTH", "app", password]);
        assert!(client.receive(in_words).expect("a reply").starts_with(reply));
    }
    assert_eq!(call(&mut client, "SET app:a 1"), "+OK");
    assert!(call(&mut client, "GET a").starts_with("!NOPERM"));
    assert!(call(&mut client, "FLUSHALL").starts_with("!NOPERM"));
}

#[test]
fn a_service_manager_learns_that_the_data_is_loaded_and_that_the_server_begins_to_end() {
    use std::io::Read as _;
    use std::net::TcpStream;
    use std::os::unix::net::UnixDatagram;

    let folder = Folder::new("serve-notify");
    let socket = UnixDatagram::bind(folder.0.join("notify")).expect("a short path");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("an open socket");
    let told_state = |wanted: &str| {
        let mut bytes = [0; 4096];
        loop {
            let length = match socket.recv(&mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                received => received.expect("a notice"),
            };
            if String::from_utf8_lossy(&bytes[..length]).contains(wanted) {
                return;
            }
        }
    };
    let server = Server::start_with(&folder, "", &[("NOTIFY_SOCKET", "notify")]);
    told_state("READY=1");
    let mut client = TcpStream::connect(server.address).expect("it listens");
    server.signal("TERM");
    assert_eq!(client.read(&mut [0]).expect("an open socket"), 0, "the server ends its clients");
    // The server still waits for the end of this client.
    socket.set_nonblocking(true).expect("an open socket");
    told_state("STOPPING=1");
    drop(client);
    assert_eq!(server.wait().code(), Some(0), "{}", told(&folder));
}

#[test]
fn the_end_of_a_terminal_ends_no_server() {
    let folder = Folder::new("serve-hangup");
    let server = Server::start(&folder, "");
    let mut client = connect(&server);
    assert_eq!(call(&mut client, "SET a 1"), "+OK");
    server.signal("HUP");
    // The signal has come before the later signal has ended the server.
    assert_eq!(call(&mut client, "GET a"), "1");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", told(&folder));
}

#[test]
fn a_unix_socket_serves_beside_the_port() {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;

    let folder = Folder::new("serve-unix");
    let path = folder.0.join("socket");
    let options = "--unixsocket socket --unixsocketperm 700 --loops 2";
    for _ in 0..2 {
        let server = Server::start(&folder, options);
        assert_eq!(call(&mut connect(&server), "SET a 1"), "+OK");
        assert_eq!(path.metadata().expect("the file").permissions().mode() & 0o777, 0o700);
        let mut client = UnixStream::connect(&path).expect("it listens");
        client.write_all(b"GET a\r\n").expect("an open socket");
        let mut reply = [0; 7];
        client.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"$1\r\n1\r\n");
        client.write_all(b"CLIENT INFO\r\n").expect("an open socket");
        let (mut info, mut bytes) = (Vec::new(), [0; 200]);
        while !info.windows(8).any(|part| part == b" user=de") {
            let count = client.read(&mut bytes).expect("a reply");
            assert!(count > 0, "the reply has all fields");
            info.extend_from_slice(&bytes[..count]);
        }
        assert!(String::from_utf8_lossy(&info).contains("addr=socket:0 laddr=socket:0 name= "), "{info:?}");
        // The file stays, and the next start replaces the file.
        server.kill();
        assert!(path.exists());
    }
    let server = Server::start(&folder, options);
    let (code, text) = refused(&folder, "--data other --port 0 --unixsocket socket");
    assert!(code == Some(2) && text.contains("unixsocket socket: "), "{text}");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", told(&folder));
    assert!(!path.exists());
}

/// A file of the tests' certificates.
pub(crate) fn certificate(name: &str) -> String {
    format!("{}/../ensile-net/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Options of a server for clients with TLS only, at a port that was free a moment ago.
pub(crate) fn tls_options() -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("a bound socket").port();
    let (pem, key) = (certificate("server.pem"), certificate("server.key"));
    format!("--tls-port {port} --tls-cert-file {pem} --tls-key-file {key}")
}

#[test]
fn a_port_for_tls_alone_tells_clients_without_tls() {
    use std::io::{Read as _, Write as _};

    let folder = Folder::new("serve-tls");
    let server = Server::start(&folder, &tls_options());
    let mut client = std::net::TcpStream::connect(server.address).expect("it listens");
    client.write_all(b"PING\r\n").expect("an open socket");
    let mut reply = String::new();
    client.read_to_string(&mut reply).expect("it is ended in order");
    assert_eq!(reply, "-ERR this port takes TLS connections only\r\n");
    while !told(&folder).contains("because their TLS failed: 1. The last reason: a client sent no TLS") {
        std::thread::yield_now();
    }
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", told(&folder));
}

#[test]
fn files_of_tls_are_checked_before_the_port_opens() {
    let folder = Folder::new("serve-tls-refused");
    let [pem, key, other, expired] =
        ["server.pem", "server.key", "client.key", "expired.pem"].map(certificate);
    for (options, reasons) in [
        (String::new(), ["tls-port needs", "give tls-cert-file FILE and tls-key-file FILE"]),
        (
            format!("--tls-cert-file none --tls-key-file {key}"),
            ["tls-cert-file none: ", "this user may read"],
        ),
        (
            format!("--tls-cert-file {pem} --tls-key-file {other}"),
            ["client.key: the key is of another certificate", "give the key"],
        ),
        (
            format!("--tls-cert-file {key} --tls-key-file {key}"),
            ["server.key: no certificate", "give a file"],
        ),
        (
            format!("--tls-cert-file {expired} --tls-key-file {key}"),
            ["expired.pem: expired", "renew the certificate"],
        ),
        (
            format!("--tls-cert-file {pem} --tls-key-file {key} --tls-auth-clients yes"),
            ["tls-auth-clients needs", "give tls-ca-cert-file FILE"],
        ),
        (
            format!("--port 0 --tls-cert-file {pem} --tls-key-file {key}"),
            ["the settings of TLS need a port", "give tls-port PORT"],
        ),
        (
            format!("--port 7381 --tls-port 7381 --tls-cert-file {pem} --tls-key-file {key}"),
            ["127.0.0.1:7381 is for clients with TLS and without", "give them two ports"],
        ),
    ] {
        let ports = if options.contains("--port") { "" } else { "--port 0 --tls-port 1" };
        let (code, text) = refused(&folder, &format!("--data data {ports} {options}"));
        assert_eq!(code, Some(2), "{options}: {text}");
        assert!(reasons.iter().all(|reason| text.contains(reason)), "{options}: {text}");
    }
    assert!(!folder.0.join("data").exists());
}

#[test]
fn a_start_that_is_refused_makes_no_folder() {
    let folder = Folder::new("serve-refused");
    let write = |text: &str| std::fs::write(folder.0.join("ensile.conf"), text).expect("a file");
    write("port 0\nappendfsink always\n");
    for (options, reason) in [
        ("--bind 0.0.0.0 --port 0", "no password is set"),
        (
            "--config ensile.conf",
            "ensile.conf:2: unknown name 'appendfsink'; the nearest name is 'appendfsync'",
        ),
        ("--config none.conf", "the configuration file none.conf"),
        ("--requirepass-file none", "the password's file none"),
        ("--appendonly true", "give yes or no"),
        ("--maxmemory-policy allkeys-lru", "eviction is not available"),
    ] {
        let (code, text) = refused(&folder, &format!("--data data {options}"));
        assert_eq!(code, Some(2), "{options}: {text}");
        assert!(text.contains(reason), "{options}: {text}");
        assert!(!folder.0.join("data").exists(), "{options}");
    }
    std::fs::write(folder.0.join("empty"), "\n").expect("a file");
    let (code, text) = refused(&folder, "--data data --requirepass-file empty");
    assert!(code == Some(2) && text.contains("the first line is empty"), "{text}");
}

#[test]
fn the_configuration_file_sets_what_no_option_sets() {
    let folder = Folder::new("serve-config");
    let text = "# settings\nport 1\nmulti-rollback yes\nappendfsync \"everysec\"\ntimeout 17\nmaxmemory-clients 1gb\nmaxmemory 64mb\n";
    std::fs::write(folder.0.join("ensile.conf"), text).expect("a file");
    let server = Server::start(&folder, "--config ensile.conf --timeout 23");
    let mut client = connect(&server);
    for (name, value) in [
        ("multi-rollback", "yes"),
        ("appendfsync", "everysec"),
        ("timeout", "23"),
        ("maxmemory-clients", "1073741824"),
        ("maxmemory", "67108864"),
        ("appendonly", "yes"),
    ] {
        assert_eq!(call(&mut client, &format!("CONFIG GET {name}")), format!("[{name} {value}]"));
    }
}

#[test]
fn at_maxmemory_writes_are_refused_until_enough_is_deleted() {
    let folder = Folder::new("serve-memory");
    let server = Server::start(&folder, "--maxmemory 8mb");
    let mut client = connect(&server);
    let value = "x".repeat(1 << 20);
    let refused = (0..64).find_map(|number| {
        let reply = call(&mut client, &format!("SET key{number} {value}"));
        (reply != "+OK").then_some((number, reply))
    });
    let (written, reply) = refused.expect("the data reaches the limit");
    assert_eq!(reply, "!OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(call(&mut client, "STRLEN key0"), format!(":{}", 1 << 20), "reads go on");
    for number in 0..written {
        assert_eq!(call(&mut client, &format!("DEL key{number}")), ":1", "deletes go on");
    }
    // Freed memory counts as free once the heartbeat has freed it.
    let is_taken = |_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        call(&mut client, &format!("SET again {value}")) == "+OK"
    };
    assert!((0..1000).any(is_taken), "writes go on");
}

#[test]
fn signals_end_the_server_with_everything_durable() {
    let folder = Folder::new("serve-signals");
    for (number, signal) in ["TERM", "INT"].into_iter().enumerate() {
        let server = Server::start(&folder, "--appendfsync no");
        assert_eq!(call(&mut connect(&server), "INCR starts"), format!(":{}", number + 1));
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{}", told(&folder));
        assert!(!told(&folder).contains("not proven"), "{}", told(&folder));
    }
    let server = Server::start(&folder, "");
    let mut client = connect(&server);
    assert_eq!(call(&mut client, "INCR starts"), ":3");
    client.shut_down().expect("it ends");
    assert_eq!(server.wait().code(), Some(0), "{}", told(&folder));
}

#[test]
fn without_a_log_a_closed_server_keeps_its_rows() {
    let folder = Folder::new("serve-no-log");
    let server = Server::start(&folder, "--appendonly no");
    assert!(told(&folder).contains("nothing is logged"), "{}", told(&folder));
    let mut client = connect(&server);
    assert_eq!(call(&mut client, "SET a 1"), "+OK");
    assert_eq!(call(&mut client, "CONFIG GET appendonly"), "[appendonly no]");
    client.shut_down().expect("it ends");
    assert_eq!(server.wait().code(), Some(0), "{}", told(&folder));
    let server = Server::start(&folder, "--appendonly no");
    assert_eq!(call(&mut connect(&server), "GET a"), "1");
}

#[test]
fn exec_rests_on_watched_keys() {
    let folder = Folder::new("serve-watch");
    let server = Server::start(&folder, "--loops 2");
    let (mut one, mut other) = (connect(&server), connect(&server));
    assert_eq!(call(&mut one, "WATCH a"), "+OK");
    assert_eq!(call(&mut other, "SET a 2"), "+OK");
    assert_eq!(call(&mut one, "MULTI"), "+OK");
    assert_eq!(call(&mut one, "SET b 1"), "+QUEUED");
    assert_eq!(call(&mut one, "EXEC"), "-");
    assert_eq!(call(&mut other, "EXISTS b"), ":0");
}
