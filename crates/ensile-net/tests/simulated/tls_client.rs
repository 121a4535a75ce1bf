//! A client with TLS at the other end of the simulated transport, by rustls.
//!
//! Neighbours: [`super::tls`] has the tests; the certificates stand in `tests/certificates`.

use std::io::{Cursor, ErrorKind, Read as _, Write as _};

use ensile_base::random::Random;
use ensile_net::simulation::{ClientId, SimulatedTransport};
use ensile_net::{TlsClients, TlsConfig, TlsPem};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore};

pub(crate) const AUTHORITY: &[u8] = include_bytes!("../certificates/authority.pem");

/// Certificate and key of a client, in PEM form.
pub(crate) type Identity = (&'static [u8], &'static [u8]);

pub(crate) const CLIENT: Identity =
    (include_bytes!("../certificates/client.pem"), include_bytes!("../certificates/client.key"));
pub(crate) const STRANGER: Identity =
    (include_bytes!("../certificates/stranger.pem"), include_bytes!("../certificates/stranger.key"));

/// The server's side.
pub(crate) fn config(clients: TlsClients) -> TlsConfig {
    TlsConfig::from_pem(&TlsPem {
        certificates: include_bytes!("../certificates/server.pem"),
        key: include_bytes!("../certificates/server.key"),
        client_authorities: Some(AUTHORITY),
        clients,
    })
    .expect("the test's certificates")
}

/// A client, and the bytes that it has not sent or read.
pub(crate) struct TlsClient {
    pub(crate) id: ClientId,
    pub(crate) connection: ClientConnection,
    /// Number of bytes that the client has read from its socket.
    read: usize,
    unsent: Vec<u8>,
    /// True if the client's last record goes behind its requests.
    ends: bool,
    pub(crate) replies: Vec<u8>,
    /// True once the server's last record has come.
    pub(crate) has_server_ended: bool,
    /// Text of the client's error.
    pub(crate) error: Option<String>,
}

impl TlsClient {
    pub(crate) fn new(
        id: ClientId,
        identity: Option<Identity>,
        version: &'static rustls::SupportedProtocolVersion,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(AUTHORITY).expect("a certificate")).expect("an authority");
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate).expect("a certificate")];
                let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
                builder.with_client_auth_cert(chain, key).expect("the key is the certificate's")
            }
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(std::sync::Arc::new(config), name).expect("a session");
        let (unsent, replies) = (Vec::new(), Vec::new());
        Self { id, connection, read: 0, unsent, ends: false, replies, has_server_ended: false, error: None }
    }

    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.connection.protocol_version()
    }

    /// The client sends requests once its handshake is over.
    pub(crate) fn request(&mut self, bytes: &[u8]) {
        self.connection.writer().write_all(bytes).expect("a buffer");
    }

    /// The client sends no more requests, and goes on reading.
    pub(crate) fn end(&mut self) {
        self.ends = true;
    }

    /// Reads all that has come, and sends a part of what is there to be sent.
    pub(crate) fn turn(&mut self, clients: &mut SimulatedTransport, random: &mut Random) {
        self.read(clients);
        self.encode();
        let part = self.unsent.len().min(random.next_below(400) as usize);
        let part: Vec<u8> = self.unsent.drain(..part).collect();
        if !part.is_empty() && !clients.has_closed(self.id) {
            clients.send(self.id, &part);
        }
    }

    /// True if the client has sent everything.
    pub(crate) fn has_sent(&self) -> bool {
        self.unsent.is_empty() && !self.connection.wants_write()
    }

    fn read(&mut self, clients: &SimulatedTransport) {
        let mut arrived = Cursor::new(&clients.received_bytes(self.id)[self.read..]);
        while (arrived.position() as usize) < arrived.get_ref().len() && self.error.is_none() {
            let bytes = self.connection.read_tls(&mut arrived).expect("from memory");
            self.read += bytes;
            if let Err(error) = self.connection.process_new_packets() {
                self.error = Some(error.to_string());
            }
            let mut buffer = [0; 4096];
            loop {
                match self.connection.reader().read(&mut buffer) {
                    Ok(0) => {
                        self.has_server_ended = true;
                        break;
                    }
                    Ok(bytes) => self.replies.extend_from_slice(&buffer[..bytes]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
            if bytes == 0 {
                break;
            }
        }
    }

    /// Makes records of what the client is to send.
    fn encode(&mut self) {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.unsent).expect("into memory");
            if self.ends && !self.connection.is_handshaking() && !self.connection.wants_write() {
                self.ends = false;
                self.connection.send_close_notify();
            }
        }
    }

    /// Takes the records that the client has made, for a test that sends them itself.
    pub(crate) fn take_unsent(&mut self) -> Vec<u8> {
        self.encode();
        std::mem::take(&mut self.unsent)
    }
}
