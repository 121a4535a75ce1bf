//! The requests of load generators, encoded in advance: only the key of a request changes.
//!
//! Invariant: a request names the object of its number; the keys of a service have one length.
//!
//! Neighbours: [`super::load`] and the experiments over loopback send the requests.

use ensile_resp::encode_request;
use ensile_services::command::ServiceKind;

use crate::slach::urls::{URL_BYTES, write_digits, write_url};

/// Digits of a number.
const DIGITS: usize = 12;

/// The bytes of a request, and the offset of its key.
#[derive(Clone, Debug)]
struct EncodedRequest {
    bytes: Vec<u8>,
    key_at: usize,
}

/// A service's requests.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    service: ServiceKind,
    key_bytes: usize,
    read: EncodedRequest,
    write: EncodedRequest,
}

impl Requests {
    /// The requests of a service. Values of the hash table have `value_bytes` bytes.
    pub(super) fn of(service: ServiceKind, value_bytes: u64) -> Self {
        let value = "v".repeat(value_bytes as usize);
        let (key_bytes, read, write): (usize, &str, Vec<&str>) = match service {
            ServiceKind::Pht => ("key:".len() + DIGITS, "GET", vec!["SET", &value]),
            ServiceKind::Ups => {
                (URL_BYTES, "UPS.GET", vec!["UPS.CRAWLED", "1700000000", "MODIFIED", "1600000000"])
            }
            ServiceKind::His => {
                let key_bytes = "host.example".len() + DIGITS;
                (key_bytes, "HIS.GET", vec!["HIS.DAILY", "20000", "de", "1000", "35000"])
            }
        };
        let encoded = |name: &str, more: &[&str]| {
            // Only the placeholder has zero bytes, so the search finds the place of the key.
            let mut words = vec![name.as_bytes().to_vec(), vec![0; key_bytes]];
            words.extend(more.iter().map(|word| word.as_bytes().to_vec()));
            let mut bytes = Vec::new();
            encode_request(&mut bytes, &words);
            let is_key = |part: &[u8]| part.iter().all(|byte| *byte == 0);
            let key_at = bytes.windows(key_bytes).position(is_key).expect("it is in there");
            EncodedRequest { bytes, key_at }
        };
        let (read, write) = (encoded(read, &[]), encoded(write[0], &write[1..]));
        Self { service, key_bytes, read, write }
    }

    /// Appends a read or a write of an object.
    pub(super) fn append(&self, object: u64, is_write: bool, out: &mut Vec<u8>) {
        let request = if is_write { &self.write } else { &self.read };
        let key_at = out.len() + request.key_at;
        out.extend_from_slice(&request.bytes);
        let key = &mut out[key_at..key_at + self.key_bytes];
        match self.service {
            ServiceKind::Pht => {
                key[..4].copy_from_slice(b"key:");
                write_digits(&mut key[4..], object);
            }
            ServiceKind::Ups => write_url(key, object),
            ServiceKind::His => {
                key[..4].copy_from_slice(b"host");
                write_digits(&mut key[4..4 + DIGITS], object);
                key[4 + DIGITS..].copy_from_slice(b".example");
            }
        }
    }
}

/// The name of a host in requests.
pub(super) fn host_name(number: u64) -> Vec<u8> {
    format!("host{number:0width$}.example", width = DIGITS).into_bytes()
}

#[cfg(test)]
mod tests {
    use ensile_services::command::ServiceKind;

    use super::{Requests, host_name};

    #[test]
    fn a_request_is_of_its_object() {
        let encoded = |service, is_write| {
            let mut out = b"before".to_vec();
            Requests::of(service, 3).append(42, is_write, &mut out);
            String::from_utf8(out).expect("text")
        };
        let read = encoded(ServiceKind::Pht, false);
        assert_eq!(read, "before*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n");
        let write = encoded(ServiceKind::Pht, true);
        assert_eq!(write, "before*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000042\r\n$3\r\nvvv\r\n");
        assert!(
            encoded(ServiceKind::Ups, true)
                .contains("\r\nhttp://host042.example/page000000000042\r\n$10\r\n17")
        );
        assert!(encoded(ServiceKind::His, false).contains("\r\nhost000000000042.example\r\n"));
        assert_eq!(host_name(42), b"host000000000042.example");
    }
}
