//! Records by rustls: its state machine without buffers of its own.
//!
//! Invariant: the places that rustls knows in the arrived bytes stay: bytes go from the front only, as many as rustls
//! says.
//!
//! Neighbours: [`super::TlsSession`] has the buffers.

use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus,
};

use super::{RECORD_BYTES, TakenRecords, TlsConfig};

pub(super) use super::server_config::{ServerPart, server_part};

/// State of a connection's records.
pub(super) type Records = UnbufferedServerConnection;

/// Memory of the state behind its handles in bytes: keys, and until the end of a handshake its transcript.
pub(super) const HEAP_BYTES: usize = 4 << 10;

/// Overhead of a record in bytes, at most: header, nonce, type and tag.
const OVERHEAD_BYTES: usize = 64;

pub(super) fn begin(config: &TlsConfig) -> Option<Records> {
    let records = UnbufferedServerConnection::new(Arc::clone(config.server_part()));
    debug_assert!(records.is_ok(), "the configuration was checked when it was made");
    records.ok()
}

pub(super) fn is_ready(records: &Records) -> bool {
    !records.is_handshaking()
}

/// Memory of the client's certificates in bytes.
pub(super) fn certificate_bytes(records: &Records) -> usize {
    records.peer_certificates().map_or(0, |chain| chain.iter().map(|one| one.as_ref().len()).sum())
}

/// Takes all whole records. Appends answers of the handshake, or the alert of an error, to the outgoing records.
pub(super) fn take(
    records: &mut Records,
    incoming: &mut [u8],
    outgoing: &mut Vec<u8>,
    receive: &mut dyn FnMut(&[u8]),
) -> TakenRecords {
    let mut taken = TakenRecords { consumed_bytes: 0, has_peer_ended: false, error: None };
    loop {
        let UnbufferedStatus { mut discard, state } =
            records.process_tls_records(&mut incoming[taken.consumed_bytes..]);
        let mut goes_on = true;
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            discard += record.discard;
                            receive(record.payload);
                        }
                        Err(error) => taken.error = Some(error.to_string()),
                    }
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => append_encoded(&mut data, outgoing),
            // The session sends outgoing records in their order.
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed) => taken.has_peer_ended = true,
            Ok(
                ConnectionState::BlockedHandshake
                | ConnectionState::WriteTraffic(_)
                | ConnectionState::Closed,
            ) => goes_on = false,
            // The configuration takes no early data.
            Ok(state) => taken.error = Some(format!("an unexpected state: {state:?}")),
            Err(error) => taken.error = Some(error.to_string()),
        }
        taken.consumed_bytes += discard;
        debug_assert!(taken.consumed_bytes <= incoming.len(), "W2: no byte is consumed before it arrives");
        if taken.error.is_some() {
            append_alerts(records, &mut incoming[taken.consumed_bytes..], outgoing);
            return taken;
        }
        if !goes_on {
            return taken;
        }
    }
}

/// Appends the alerts that tell the client the reason of an error.
fn append_alerts(records: &mut Records, incoming: &mut [u8], outgoing: &mut Vec<u8>) {
    // Once all are taken the state may not be asked again: the error has been reported.
    while records.wants_write() {
        match records.process_tls_records(&mut *incoming).state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => append_encoded(&mut data, outgoing),
            _ => return,
        }
    }
}

fn append_encoded<D>(data: &mut EncodeTlsData<'_, D>, outgoing: &mut Vec<u8>) {
    let appended = append(outgoing, 0, |room| match data.encode(room) {
        Ok(bytes) => Ok(bytes),
        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
            Err(Some(required_size))
        }
        Err(EncodeError::AlreadyEncoded) => Err(None),
    });
    debug_assert!(appended, "a record is encoded once");
}

/// Appends the bytes that `write` puts into the room behind the outgoing records. `write` returns the number of bytes,
/// or the room that it needs. False if `write` fails.
fn append(
    outgoing: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> bool {
    let before = outgoing.len();
    outgoing.resize(before + room, 0);
    let mut written = write(&mut outgoing[before..]);
    if let Err(Some(needed)) = written {
        outgoing.resize(before + needed, 0);
        written = write(&mut outgoing[before..]);
    }
    outgoing.truncate(before + written.unwrap_or(0));
    written.is_ok()
}

/// Encrypts replies. All arrived records were taken before.
///
/// # Errors
/// The text of the error: the connection cannot go on.
pub(super) fn encrypt(
    records: &mut Records,
    incoming: &mut [u8],
    replies: &[u8],
    outgoing: &mut Vec<u8>,
) -> Result<(), String> {
    let room = replies.len() + replies.len().div_ceil(RECORD_BYTES) * OVERHEAD_BYTES;
    let is_encrypted = write_traffic(records, incoming, outgoing, |traffic, outgoing| {
        append(outgoing, room, |room| traffic.encrypt(replies, room).map_err(|error| needed(&error)))
    });
    if is_encrypted { Ok(()) } else { Err("the keys of the connection are used up".to_owned()) }
}

/// Appends the last record (`close_notify`).
pub(super) fn end(records: &mut Records, incoming: &mut [u8], outgoing: &mut Vec<u8>) {
    let has_ended = write_traffic(records, incoming, outgoing, |traffic, outgoing| {
        append(outgoing, OVERHEAD_BYTES, |room| {
            traffic.queue_close_notify(room).map_err(|error| needed(&error))
        })
    });
    debug_assert!(has_ended, "a connection behind its handshake has a last record");
}

type Traffic<'c> = rustls::unbuffered::WriteTraffic<'c, rustls::server::ServerConnectionData>;

/// Calls `write` once the connection may send. Records of the connection itself go before, such as new keys. False if
/// the connection may not send, or `write` fails.
fn write_traffic(
    records: &mut Records,
    incoming: &mut [u8],
    outgoing: &mut Vec<u8>,
    write: impl FnOnce(&mut Traffic<'_>, &mut Vec<u8>) -> bool,
) -> bool {
    loop {
        // The whole records are taken, so no byte is consumed.
        let UnbufferedStatus { discard, state } = records.process_tls_records(&mut *incoming);
        debug_assert_eq!(discard, 0, "W2: arrived records are taken at their arrival");
        match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => append_encoded(&mut data, outgoing),
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::WriteTraffic(mut traffic)) => return write(&mut traffic, outgoing),
            _ => return false,
        }
    }
}

/// The room that an encryption needs; `None` if it fails.
fn needed(error: &EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(InsufficientSizeError { required_size }) => Some(*required_size),
        EncryptError::EncryptExhausted => None,
    }
}
