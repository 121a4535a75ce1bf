//! The log of slow requests.
//!
//! Invariant: only a slow request takes the lock.
//!
//! Neighbours: `served_program` measures requests; `admin` has the commands and the settings.

use std::collections::VecDeque;

use ensile_base::sync::{AtomicU64, Mutex, Ordering};
use ensile_resp::Request;
use ensile_serving::command::CommandInfo;

/// Numbers of noted arguments, and bytes of a noted argument, as in redis.
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_BYTES_MAX: usize = 128;

/// Defaults of the settings, as in redis.
pub(crate) const SLOWER_THAN_MICROS: i64 = 10_000;
pub(crate) const SLOW_REQUESTS: u64 = 128;
/// Largest number of slow requests that `SLOWLOG` keeps. Redis has no limit.
pub const SLOW_REQUESTS_MAX: u64 = 1 << 16;

/// A slow request.
#[derive(Debug)]
pub(crate) struct SlowRequest {
    pub(crate) number: i64,
    /// Time of the request's end in seconds since 1970.
    pub(crate) seconds: i64,
    pub(crate) micros: i64,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) client_name: Box<[u8]>,
}

/// Noted requests, the newest first.
#[derive(Debug, Default)]
struct SlowRequests {
    list: VecDeque<SlowRequest>,
    next_number: i64,
}

/// The log of slow requests.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Time in microseconds from which a request is slow; beyond `i64::MAX` for no request.
    slower_than: AtomicU64,
    entries_max: AtomicU64,
    requests: Mutex<SlowRequests>,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedRequest<'r> {
    /// The request; `None` for `EXEC`.
    pub(crate) request: Option<Request<'r>>,
    pub(crate) client_name: &'r [u8],
    /// Time of the end in milliseconds since 1970.
    pub(crate) now_millis: i64,
}

impl SlowLog {
    /// A log without requests, with these settings.
    pub(crate) fn new(slower_than_micros: i64, entries_max: u64) -> Self {
        debug_assert!(entries_max <= SLOW_REQUESTS_MAX, "a larger number is refused");
        Self {
            slower_than: AtomicU64::new(slower_than_micros.cast_unsigned()),
            entries_max: AtomicU64::new(entries_max),
            requests: Mutex::default(),
        }
    }

    /// True if requests of the command are measured. Commands with the flag `fast` take a short time for any data, and
    /// a look at the clock would be a large part of the time.
    #[inline]
    pub(crate) fn measures(&self, command: &CommandInfo) -> bool {
        self.slower_than() >= 0 && !command.has_flag("fast")
    }

    /// True if a request of this time is slow.
    #[inline]
    pub(crate) fn is_slow(&self, nanos: u64) -> bool {
        // Relaxed: a setting. A negative setting is a number beyond all times.
        nanos / 1000 >= self.slower_than.load(Ordering::Relaxed)
    }

    /// Notes a slow request of this time.
    #[cold]
    pub(crate) fn note(&self, nanos: u64, ended: EndedRequest<'_>) {
        let micros = i64::try_from(nanos / 1000).unwrap_or(i64::MAX);
        let mut requests = self.requests.lock();
        let number = requests.next_number;
        requests.next_number += 1;
        requests.list.push_front(SlowRequest {
            number,
            seconds: ended.now_millis / 1000,
            micros,
            arguments: ended.request.map_or_else(|| vec![b"EXEC".to_vec()], shown_arguments),
            client_name: ended.client_name.into(),
        });
        self.cut(&mut requests);
    }

    fn cut(&self, requests: &mut SlowRequests) {
        requests.list.truncate(usize::try_from(self.entries_max()).unwrap_or(usize::MAX));
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.lock().list.len()
    }

    pub(crate) fn clear(&self) {
        self.requests.lock().list.clear();
    }

    /// Visits the newest requests, `count` at most. `visit` gets their number, too.
    pub(crate) fn visit(
        &self,
        count: usize,
        visit: impl FnOnce(usize, &mut dyn Iterator<Item = &SlowRequest>),
    ) {
        let requests = self.requests.lock();
        visit(requests.list.len().min(count), &mut requests.list.iter().take(count));
    }

    /// Time in microseconds from which a request is slow; negative for no request.
    pub(crate) fn slower_than(&self) -> i64 {
        // Relaxed: a setting.
        self.slower_than.load(Ordering::Relaxed).cast_signed()
    }

    pub(crate) fn set_slower_than(&self, micros: i64) {
        // Relaxed: a setting.
        self.slower_than.store(micros.cast_unsigned(), Ordering::Relaxed);
    }

    pub(crate) fn entries_max(&self) -> u64 {
        // Relaxed: a setting.
        self.entries_max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_entries_max(&self, entries: u64) {
        debug_assert!(entries <= SLOW_REQUESTS_MAX, "a larger number is refused");
        // Relaxed: a setting.
        self.entries_max.store(entries, Ordering::Relaxed);
        self.cut(&mut self.requests.lock());
    }
}

/// The arguments of a request, cut as in redis.
fn shown_arguments(request: Request<'_>) -> Vec<Vec<u8>> {
    let shown = if request.len() > ARGUMENTS_MAX { ARGUMENTS_MAX - 1 } else { request.len() };
    let cut = |argument: &[u8]| match argument.get(..ARGUMENT_BYTES_MAX) {
        Some(begin) if argument.len() > ARGUMENT_BYTES_MAX => {
            let more = format!("... ({} more bytes)", argument.len() - ARGUMENT_BYTES_MAX);
            [begin, more.as_bytes()].concat()
        }
        _ => argument.to_vec(),
    };
    let mut arguments: Vec<Vec<u8>> = request.iter().take(shown).map(cut).collect();
    if shown < request.len() {
        arguments.push(format!("... ({} more arguments)", request.len() - shown).into_bytes());
    }
    arguments
}
