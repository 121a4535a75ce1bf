//! rustls' configuration from files in PEM form, with the checks of a start.
//!
//! Invariant: a certificate that every client refuses is refused at the start.
//!
//! Neighbours: [`super::TlsConfig`] keeps the configuration; [`super::records`] begins sessions with it.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore, ServerConfig};

use super::{TlsClients, TlsConfigError, TlsPart, TlsPem};

/// The server's side of TLS.
pub(super) type ServerPart = Arc<ServerConfig>;

pub(super) fn server_part(pem: &TlsPem<'_>) -> Result<ServerPart, TlsConfigError> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(pem.certificates, TlsPart::Certificates)?;
    let key = key_of(pem.key)?;
    check_time(&chain, &provider)?;
    let verifier = match pem.client_authorities {
        Some(authorities) if pem.clients != TlsClients::NotAsked => {
            client_verifier(authorities, pem.clients, &provider)?
        }
        _ => WebPkiClientVerifier::no_client_auth(),
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(TlsPart::Build, &error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| key_error(&error))?;
    debug_assert_eq!(config.max_early_data_size, 0, "W20: no request comes before the end of a handshake");
    Ok(Arc::new(config))
}

fn wrong(part: TlsPart, reason: &str) -> TlsConfigError {
    TlsConfigError { part, reason: reason.to_owned() }
}

/// The certificates of a file.
fn certificates(pem: &[u8], part: TlsPart) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let found: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| {
        wrong(part, &format!("no PEM form ({error}): give a file with lines -----BEGIN CERTIFICATE-----"))
    })?;
    if found.is_empty() {
        return Err(wrong(part, "no certificate: give a file with lines -----BEGIN CERTIFICATE-----"));
    }
    Ok(found)
}

/// The first private key of a file.
fn key_of(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    const ENCRYPTED: &[u8] = b"ENCRYPTED";
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        let is_encrypted = pem.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED);
        let reason = match error {
            _ if is_encrypted => {
                "the key has a password: give a key without one, as `openssl pkey -in FILE -out KEY` writes it"
                    .to_owned()
            }
            PemError::NoItemsFound => "no key: give a file with lines -----BEGIN PRIVATE KEY-----".to_owned(),
            error => format!("no PEM form ({error}): give a file with lines -----BEGIN PRIVATE KEY-----"),
        };
        wrong(TlsPart::Key, &reason)
    })
}

/// Refusal of a key or of its certificate.
fn key_error(error: &Error) -> TlsConfigError {
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => wrong(
            TlsPart::Key,
            "the key is of another certificate: give the key that the certificate was made for",
        ),
        Error::InvalidCertificate(_) => {
            wrong(TlsPart::Certificates, &format!("{error}: give a certificate of X.509, version 3"))
        }
        error => wrong(TlsPart::Key, &format!("{error}: give a key of RSA, ECDSA (P-256, P-384) or Ed25519")),
    }
}

/// Refuses a certificate that is expired or not valid yet. webpki checks the time before everything else, so the
/// check of a client's certificate finds the time of any certificate.
fn check_time(
    chain: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Result<(), TlsConfigError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        wrong(TlsPart::Certificates, &format!("{error}: give a certificate of X.509, version 3"))
    };
    let Some(own) = chain.first() else { return Ok(()) };
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).map_err(|error| unreadable(&error))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| unreadable(&error))?;
    let now = UnixTime::now();
    let days = |from: UnixTime, to: UnixTime| to.as_secs().saturating_sub(from.as_secs()) / 86_400;
    let reason = match verifier.verify_client_cert(own, &[], now) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            format!("expired {} days ago: renew the certificate", days(not_after, now))
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => {
            format!(
                "valid in {} days only: look at the clock, or make a new certificate",
                days(now, not_before)
            )
        }
        Err(Error::InvalidCertificate(CertificateError::BadEncoding)) => {
            return Err(unreadable(&CertificateError::BadEncoding));
        }
        // Every other condition is one of clients' certificates.
        _ => return Ok(()),
    };
    Err(wrong(TlsPart::Certificates, &reason))
}

/// The check of the clients' certificates.
fn client_verifier(
    authorities: &[u8],
    clients: TlsClients,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsConfigError> {
    let part = TlsPart::ClientAuthorities;
    let mut roots = RootCertStore::empty();
    for authority in certificates(authorities, part)? {
        roots
            .add(authority)
            .map_err(|error| wrong(part, &format!("{error}: give the authority's certificate")))?;
    }
    debug_assert!(!roots.is_empty(), "W20: clients are checked against an authority");
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = if clients == TlsClients::Optional { verifier.allow_unauthenticated() } else { verifier };
    verifier.build().map_err(|error| wrong(part, &error.to_string()))
}
