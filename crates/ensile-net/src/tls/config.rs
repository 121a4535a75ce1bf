//! The configuration of TLS: certificate, key, and the authority of the clients' certificates.
//!
//! Neighbours: [`super::server_config`] makes the configuration; [`crate::NetLoop::listen_tls`] takes it; the program
//! reads the files.

use std::fmt;

use super::records::{ServerPart, server_part};

/// Certificates of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsClients {
    /// A client without a certificate of the authority is refused.
    #[default]
    Required,
    /// A client may come without a certificate. A certificate of another authority is refused.
    Optional,
    /// No client is asked for a certificate.
    NotAsked,
}

/// Contents of the files of a configuration, in PEM form.
#[derive(Clone, Copy)]
pub struct TlsPem<'p> {
    /// The server's certificate, and behind it the certificates of the authorities between.
    pub certificates: &'p [u8],
    /// The private key of the certificate.
    pub key: &'p [u8],
    /// Certificates of the authorities of the clients' certificates.
    pub client_authorities: Option<&'p [u8]>,
    /// Clients that are asked for a certificate. Without authorities no client is asked.
    pub clients: TlsClients,
}

/// Part of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPart {
    /// The server's certificates.
    Certificates,
    /// The private key.
    Key,
    /// The authorities of the clients' certificates.
    ClientAuthorities,
    /// The build has no TLS.
    Build,
}

/// Refusal of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfigError {
    /// The wrong part.
    pub part: TlsPart,
    /// The reason in words, with the remedy.
    pub reason: String,
}

impl fmt::Display for TlsConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            TlsPart::Certificates => "the certificate",
            TlsPart::Key => "the key",
            TlsPart::ClientAuthorities => "the authority of the clients' certificates",
            TlsPart::Build => "TLS",
        };
        write!(f, "{part}: {}", self.reason)
    }
}

impl std::error::Error for TlsConfigError {}

/// The server's side of TLS, shared by all connections of its listeners.
#[derive(Clone)]
pub struct TlsConfig(ServerPart);

impl TlsConfig {
    /// Checks and makes a configuration. The versions are TLS 1.2 and 1.3.
    ///
    /// # Errors
    /// The wrong part with the remedy: a part is missing or unreadable, the key is another certificate's, or the
    /// certificate is expired or not valid yet.
    pub fn from_pem(pem: &TlsPem<'_>) -> Result<Self, TlsConfigError> {
        server_part(pem).map(Self)
    }

    pub(super) fn server_part(&self) -> &ServerPart {
        &self.0
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConfig")
    }
}
