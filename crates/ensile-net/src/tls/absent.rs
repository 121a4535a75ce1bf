//! A build without TLS: a configuration is refused, and no session exists.
//!
//! Neighbours: [`super::TlsSession`] calls; a build with the feature `tls` has rustls in place of this module.

/// State of a connection's records, which no connection has.
pub(super) use std::convert::Infallible as Records;
/// The server's side, which no server has.
pub(super) use std::convert::Infallible as ServerPart;

use super::{TakenRecords, TlsConfig, TlsConfigError, TlsPart, TlsPem};

pub(super) const HEAP_BYTES: usize = 0;

pub(super) fn server_part(_: &TlsPem<'_>) -> Result<ServerPart, TlsConfigError> {
    let reason = "this build was made without it (feature tls)".to_owned();
    Err(TlsConfigError { part: TlsPart::Build, reason })
}

pub(super) fn begin(config: &TlsConfig) -> Option<Records> {
    match *config.server_part() {}
}

pub(super) fn is_ready(records: &Records) -> bool {
    match *records {}
}

pub(super) fn certificate_bytes(records: &Records) -> usize {
    match *records {}
}

pub(super) fn take(
    records: &mut Records,
    _: &mut [u8],
    _: &mut Vec<u8>,
    _: &mut dyn FnMut(&[u8]),
) -> TakenRecords {
    match *records {}
}

pub(super) fn encrypt(records: &mut Records, _: &mut [u8], _: &[u8], _: &mut Vec<u8>) -> Result<(), String> {
    match *records {}
}

pub(super) fn end(records: &mut Records, _: &mut [u8], _: &mut Vec<u8>) {
    match *records {}
}
