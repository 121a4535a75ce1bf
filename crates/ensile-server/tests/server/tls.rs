//! Clients with TLS: a server of the library, and an address for them beside the plain one.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};

use ensile::Database;
use ensile_server::{Server, ServerConfig, ServerTls, TlsClients, TlsConfig, TlsPem, TransportChoice};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::rig::shown;
use super::threads::Connection;

macro_rules! pem {
    ($name:literal) => {
        include_bytes!(concat!("../../../ensile-net/tests/certificates/", $name))
    };
}

fn config() -> TlsConfig {
    TlsConfig::from_pem(&TlsPem {
        certificates: pem!("server-rsa.pem"),
        key: pem!("server-rsa.key"),
        client_authorities: None,
        clients: TlsClients::NotAsked,
    })
    .expect("the test's certificate")
}

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

/// The reply to a line, over a connection of its own.
fn ask_by_tls(address: SocketAddr, line: &str) -> String {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(pem!("authority.pem")).expect("a certificate");
    roots.add(authority).expect("an authority");
    let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the versions of both sides")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let session = ClientConnection::new(Arc::new(client), name).expect("a session");
    let mut stream = StreamOwned::new(session, TcpStream::connect(address).expect("it listens"));
    stream.write_all(format!("{line}\r\n").as_bytes()).expect("an open connection");
    stream.conn.send_close_notify();
    stream.flush().expect("an open connection");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("the server ends in order");
    reply
}

#[test]
fn a_server_with_tls_serves_no_client_without() {
    let db = Database::in_memory().expect("a new database");
    let server = Server::builder(db).tls(Some(config())).build().expect("new tables");
    let server = server.listen(any_port()).expect("a free port");
    let address = server.address();
    assert_eq!(ask_by_tls(address, "SET a 1"), "+OK\r\n");
    assert_eq!(ask_by_tls(address, "GET a"), "$1\r\n1\r\n");
    let reply = Connection::open(address).ask(&["GET", "a"]);
    assert_eq!(shown(&reply), "-ERR this port takes TLS connections only");
    server.stop().expect("a server without a log");
}

#[test]
fn an_address_with_tls_stands_beside_the_plain_one() {
    let db = Database::in_memory().expect("a new database");
    let server = Server::builder(db).build().expect("new tables");
    let config = ServerConfig {
        address: any_port(),
        loops: 2,
        transport: TransportChoice::Auto,
        tls: Some(ServerTls { config: config(), beside: Some(any_port()) }),
        unix: None,
        idle: None,
        keepalive: None,
        client_memory: None,
        ended: None,
        ending: || (),
        tell: |_| {},
    };
    config.check().expect("both addresses are free");
    let (sender, listening) = mpsc::channel();
    let serving = std::thread::Builder::new().spawn(move || {
        server.serve(config, |ready| {
            sender.send((ready.address, ready.tls_address, ready.stop.clone())).map_err(std::io::Error::other)
        })
    });
    let serving = serving.expect("a thread");
    let (address, tls_address, stop) = listening.recv().expect("free ports");
    let tls_address = tls_address.expect("an address of its own");
    for number in 0..8 {
        // The kernel spreads the clients over both loops.
        let reply = ask_by_tls(tls_address, &format!("SET a {number}"));
        assert_eq!(reply, "+OK\r\n");
        assert_eq!(shown(&Connection::open(address).ask(&["GET", "a"])), format!("$1 {number}"));
    }
    stop.stop();
    serving.join().expect("no panic").expect("a server without a log");
}
