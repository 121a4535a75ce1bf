//! Files of TLS: certificate, key and authority, read at the start.
//!
//! Invariant: a refusal names the setting, the file and the remedy, and comes before a port opens.
//!
//! Neighbours: [`super::settings`] has the names of the files; `ensile-net` checks the contents.

use std::path::{Path, PathBuf};

use ensile_server::{TlsClients, TlsConfig, TlsConfigError, TlsPart, TlsPem};

/// Names of the files of `tls-port`.
pub(super) struct TlsFiles {
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    /// Authorities of the clients' certificates.
    pub(super) authority: Option<PathBuf>,
    /// `None`: clients need a certificate if there is an authority.
    pub(super) clients: Option<TlsClients>,
}

impl TlsFiles {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// The text has the setting, the file and the remedy.
    pub(super) fn read(self) -> Result<TlsConfig, String> {
        let (Some(certificate), Some(key)) = (self.certificate, self.key) else {
            return Err(
                "tls-port needs a certificate and its key: give tls-cert-file FILE and tls-key-file FILE"
                    .to_owned(),
            );
        };
        let clients = match (&self.authority, self.clients) {
            (None, Some(TlsClients::Required | TlsClients::Optional)) => {
                return Err("tls-auth-clients needs the authority of the clients' certificates: give tls-ca-cert-file FILE, \
                     or tls-auth-clients no"
                    .to_owned());
            }
            (None, _) => TlsClients::NotAsked,
            (Some(_), clients) => clients.unwrap_or_default(),
        };
        let certificates = contents("tls-cert-file", &certificate)?;
        let key_pem = contents("tls-key-file", &key)?;
        let authorities =
            self.authority.as_deref().map(|path| contents("tls-ca-cert-file", path)).transpose()?;
        let pem = TlsPem {
            certificates: &certificates,
            key: &key_pem,
            client_authorities: authorities.as_deref(),
            clients,
        };
        TlsConfig::from_pem(&pem).map_err(|TlsConfigError { part, reason }| {
            let authority = self.authority.as_deref().unwrap_or(Path::new(""));
            match part {
                TlsPart::Certificates => format!("tls-cert-file {}: {reason}", certificate.display()),
                TlsPart::Key => format!("tls-key-file {}: {reason}", key.display()),
                TlsPart::ClientAuthorities => format!("tls-ca-cert-file {}: {reason}", authority.display()),
                TlsPart::Build => format!("tls-port: {reason}"),
            }
        })
    }
}

fn contents(setting: &str, path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| {
        format!("{setting} {}: {error}; give a file that this user may read", path.display())
    })
}
