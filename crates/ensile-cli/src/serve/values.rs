//! Values of settings in redis' words: yes and no, numbers, amounts of memory, addresses, passwords.
//!
//! Invariant: an error text names the possible values, and not the given value, which may be a password.
//!
//! Neighbours: [`super::settings`] reads options, variables and the configuration file with these functions.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ensile_net::KEEPALIVE_SECONDS_MAX;
use ensile_server::{Appendfsync, PASSWORD_BYTES_MAX, SLOW_REQUESTS_MAX, TlsClients};
use ensile_serving::program::IDLE_SECONDS_MAX;

/// Largest number of loops.
const LOOPS_MAX: usize = 1024;

/// A password, which `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(Vec<u8>);

impl Secret {
    pub(super) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Source of the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PasswordSource {
    /// The password itself; an empty password is none.
    Text(Secret),
    /// A file whose first line is the password.
    File(PathBuf),
}

impl PasswordSource {
    /// The password; `None` for an empty text.
    ///
    /// # Errors
    /// The file cannot be read, or is empty, or its password is too long.
    pub(super) fn read(self) -> Result<Option<Secret>, String> {
        let path = match self {
            Self::Text(secret) => return Ok(Some(secret).filter(|secret| !secret.bytes().is_empty())),
            Self::File(path) => path,
        };
        let shown = path.display();
        let mut bytes =
            std::fs::read(&path).map_err(|error| format!("the password's file {shown}: {error}"))?;
        let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(bytes.len());
        bytes.truncate(end);
        if bytes.is_empty() {
            return Err(format!(
                "the password's file {shown}: the first line is empty; write the password there"
            ));
        }
        check_password(&bytes).map_err(|error| format!("the password's file {shown}: {error}"))?;
        Ok(Some(Secret(bytes)))
    }
}

pub(super) fn password(text: &str) -> Result<PasswordSource, String> {
    check_password(text.as_bytes())?;
    Ok(PasswordSource::Text(Secret::new(text)))
}

/// Refuses a password that no client can give.
fn check_password(password: &[u8]) -> Result<(), String> {
    if password.len() <= PASSWORD_BYTES_MAX {
        return Ok(());
    }
    Err(format!("give a password of {PASSWORD_BYTES_MAX} bytes at most"))
}

pub(super) fn password_file(text: &str) -> Result<PasswordSource, String> {
    folder(text).map(PasswordSource::File)
}

/// Path of a file or a folder.
pub(super) fn folder(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("give a path".to_owned()) } else { Ok(text.into()) }
}

/// Permissions of a file in octal digits, as `700`.
pub(super) fn file_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "give three octal digits, as 700".to_owned())
}

pub(super) fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("give yes or no".to_owned()),
    }
}

pub(super) fn appendfsync(text: &str) -> Result<Appendfsync, String> {
    Appendfsync::from_name(text).ok_or_else(|| "give always, everysec or no".to_owned())
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("give a port from 1 to {}, or 0 for any free port", u16::MAX))
}

pub(super) fn port_or_none(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("give a port from 1 to {}, or 0 for none", u16::MAX))
}

/// Clients that need a certificate.
pub(super) fn tls_clients(text: &str) -> Result<TlsClients, String> {
    match text {
        "yes" => Ok(TlsClients::Required),
        "no" => Ok(TlsClients::NotAsked),
        "optional" => Ok(TlsClients::Optional),
        _ => Err("give yes, no or optional".to_owned()),
    }
}

/// A name or a number without a port. `*` is every IPv4 address, as in redis.
pub(super) fn host(text: &str) -> Result<String, String> {
    match text {
        "" => Err("give an address as 127.0.0.1".to_owned()),
        "*" => Ok("0.0.0.0".to_owned()),
        host => Ok(host.to_owned()),
    }
}

pub(super) fn loops(text: &str) -> Result<usize, String> {
    let loops = text.parse().ok().filter(|loops| (1..=LOOPS_MAX).contains(loops));
    loops.ok_or_else(|| format!("give a number from 1 to {LOOPS_MAX}"))
}

pub(super) fn idle_seconds(text: &str) -> Result<u64, String> {
    seconds_up_to(text, IDLE_SECONDS_MAX)
}

pub(super) fn keepalive_seconds(text: &str) -> Result<u64, String> {
    seconds_up_to(text, KEEPALIVE_SECONDS_MAX)
}

fn seconds_up_to(text: &str, seconds_max: u64) -> Result<u64, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= seconds_max);
    seconds.ok_or_else(|| format!("give seconds up to {seconds_max}, or 0 for none"))
}

/// A time of a script in milliseconds.
pub(super) fn script_millis(text: &str) -> Result<Duration, String> {
    let millis = text.parse().ok().filter(|millis| *millis > 0);
    millis.map(Duration::from_millis).ok_or_else(|| "give milliseconds from 1 on".to_owned())
}

/// Time in microseconds from which a request is slow; -1 for no request.
pub(super) fn slow_micros(text: &str) -> Result<i64, String> {
    let micros = text.parse().ok().filter(|micros| *micros >= -1);
    micros.ok_or_else(|| "give microseconds, or -1 for no slow request".to_owned())
}

/// Number of slow requests that are kept.
pub(super) fn slow_requests(text: &str) -> Result<u64, String> {
    let requests = text.parse().ok().filter(|requests| *requests <= SLOW_REQUESTS_MAX);
    requests.ok_or_else(|| format!("give a number up to {SLOW_REQUESTS_MAX}"))
}

/// Units of memory, by redis' names: the longer names are powers of 1,024.
const UNITS: [(&str, usize); 7] = [
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("b", 1),
];

/// An amount of memory in bytes, as `1048576`, `1mb` or `1gb`.
pub(super) fn memory_bytes(text: &str) -> Result<usize, String> {
    let text = text.to_ascii_lowercase();
    let unit = UNITS.iter().find_map(|(name, bytes)| Some((text.strip_suffix(name)?, *bytes)));
    let (number, unit) = unit.unwrap_or((&text, 1));
    let bytes = number.parse().ok().and_then(|number: usize| number.checked_mul(unit));
    bytes.ok_or_else(|| "give bytes as 1048576, 1mb or 1gb, or 0 for no limit".to_owned())
}

/// The policy of a full memory: this server evicts nothing.
pub(super) fn memory_policy(text: &str) -> Result<(), String> {
    if text.eq_ignore_ascii_case("noeviction") {
        return Ok(());
    }
    Err("give noeviction: eviction is not available in this version of ensile".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{
        PasswordSource, Secret, host, memory_bytes, port, script_millis, slow_micros, slow_requests,
        yes_or_no,
    };

    #[test]
    fn memory_has_the_units_of_redis() {
        for (text, bytes) in
            [("0", 0), ("17", 17), ("17b", 17), ("2k", 2_000), ("2KB", 2_048), ("1gb", 1 << 30)]
        {
            assert_eq!(memory_bytes(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "kb", "-1", "1.5gb", "1tb", "99999999999gb", "5%"] {
            assert!(memory_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_values_are_refused_with_the_possible_ones() {
        assert_eq!(port("0"), Ok(0));
        assert!(port("65536").expect_err("too large").contains("65535"));
        assert!(yes_or_no("true").expect_err("redis has yes").contains("yes or no"));
        assert_eq!(host("*").expect("all of IPv4"), "0.0.0.0");
        assert!(script_millis("0").expect_err("no time").contains("from 1"));
        assert!(slow_micros("-2").expect_err("redis has -1").contains("-1"));
        assert!(slow_requests("65537").expect_err("too many").contains("65536"));
    }

    #[test]
    fn a_password_is_not_shown() {
        let secret = PasswordSource::Text(Secret::new("open sesame"));
        assert!(!format!("{secret:?}").contains("sesame"));
        assert_eq!(PasswordSource::Text(Secret::new("")).read(), Ok(None));
    }
}
