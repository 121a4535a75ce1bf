//! Requests over loopback: at a fixed rate, or as many as the service takes.
//!
//! ```text
//! open        arrivals exponential, drawn before: a slow service gets no fewer requests
//!             response: from the intended arrival to the reply, so what waits in the generator counts too
//! saturated   so many requests under way all the time; another one for each reply
//! ```
//! One thread has all connections. Requests go to the connections in turns, and a connection may have many requests
//! under way. An open load wakes up every [`TICK`] and sends the requests due by then. A generator that sends each
//! request by itself takes a core at any rate, and costs the service another core: on one machine, cores that the
//! service would have.
//!
//! Neighbours: [`super::clients`] sends and receives, [`super::requests`] encodes the requests; experiments watch.

use std::net::SocketAddr;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::sleep;
use ensile_bench::{Failure, Result};

use super::clients::{Clients, Reply};
use super::requests::Requests;

/// Number of requests under way on a saturated connection.
const UNDER_WAY: usize = 32;

/// Time between two looks of an open load. A response is longer by up to twice this time.
const TICK: Duration = Duration::from_micros(100);

/// A service's address, and the requests for the service.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) requests: Requests,
    /// Number of objects of the requests; objects count from 0.
    pub(super) objects: u64,
    pub(super) connections: usize,
    /// Time-out of a request, in nanoseconds. A request that waits longer is lost.
    pub(super) timeout_nanos: u64,
}

/// A load: requests a second, and writes in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) rate: u64,
    pub(super) writes: u64,
}

/// Observer of an open load. Times are nanoseconds since its beginning.
pub(super) trait Watch {
    /// The end of arrivals. The load calls this function again and again.
    fn end(&mut self, now: u64) -> Result<u64>;

    /// Called for a request with intended arrival `at`, sent `late` nanoseconds later; `None` if the request was not
    /// sent.
    fn arrived(&mut self, at: u64, late: Option<u64>);

    /// Called for a reply, `response` nanoseconds after the intended arrival.
    fn replied(&mut self, arrived: u64, response: u64, is_good: bool);
}

/// Sends requests at a rate until the end, and waits for the requests under way.
pub(super) fn open_loop(
    target: &Target,
    load: Load,
    (clock, random): (&Clock, &mut Random),
    watch: &mut impl Watch,
) -> Result<()> {
    let mut clients = Clients::connect(target.address, target.connections)?;
    let mut next = clock.nanos() + exponential(load.rate, random);
    let mut turn = 0;
    // More requests are under way only if new requests are lost anyway.
    let under_way_max = (2.0 * load.rate as f64 * target.timeout_nanos as f64 / 1e9).max(1_000.0) as usize;
    loop {
        let began = clock.nanos();
        let end = watch.end(began)?;
        let mut under_way = clients.under_way();
        while next <= began && next < end {
            let is_sent = under_way < under_way_max;
            if is_sent {
                let (object, is_write) = (random.next_below(target.objects), random.percent(load.writes));
                clients.request(turn, next, |out| target.requests.append(object, is_write, out));
                under_way += 1;
            }
            watch.arrived(next, is_sent.then_some(began - next));
            turn = (turn + 1) % target.connections;
            next += exponential(load.rate, random);
        }
        clients.exchange(|Reply { arrived, is_good, .. }| {
            watch.replied(arrived, clock.nanos() - arrived, is_good);
        })?;
        let now = clock.nanos();
        let patience = end.saturating_add(target.timeout_nanos);
        if next >= end && now >= end && (clients.under_way() == 0 || now >= patience) {
            return Ok(());
        }
        let tick = TICK.saturating_sub(Duration::from_nanos(now - began));
        if !tick.is_zero() {
            sleep(tick);
        }
        let wake = if next < end { next } else { patience };
        clients.wait(wake.saturating_sub(clock.nanos()))?;
    }
}

/// Requests a second that the service takes with [`UNDER_WAY`] requests on each connection. A tenth of the time is a
/// warm-up.
pub(super) fn saturated(target: &Target, writes: u64, seconds: f64, random: &mut Random) -> Result<f64> {
    let clock = Clock::machine();
    let (from, over) = ((seconds * 1e8) as u64, (seconds * 1.1e9) as u64);
    let mut replies = 0_u64;
    pump(target, |_, counts| {
        let now = clock.nanos();
        replies += u64::from(counts && now >= from);
        (now < over).then(|| (random.next_below(target.objects), random.percent(writes)))
    })?;
    Ok(replies as f64 / seconds)
}

/// Writes every object once.
pub(super) fn make(target: &Target) -> Result<()> {
    let mut made = 0..target.objects;
    pump(target, |_, _| made.next().map(|object| (object, true)))
}

/// Keeps all connections busy. `next` returns the object of a request, and true for a write; its arguments are the
/// connection, and true if a reply is the reason. The first `None` of `next` ends the requests.
fn pump(target: &Target, mut next: impl FnMut(usize, bool) -> Option<(u64, bool)>) -> Result<()> {
    let mut clients = Clients::connect(target.address, target.connections)?;
    let (mut wanted, mut refused) = (vec![UNDER_WAY; target.connections], 0_u64);
    let mut is_reply = false;
    let mut is_over = false;
    loop {
        for (connection, wanted) in wanted.iter_mut().enumerate() {
            for _ in 0..std::mem::take(wanted) {
                let Some((object, is_write)) = next(connection, is_reply).filter(|_| !is_over) else {
                    is_over = true;
                    continue;
                };
                clients.request(connection, 0, |out| target.requests.append(object, is_write, out));
            }
        }
        is_reply = true;
        if is_over && clients.under_way() == 0 {
            let why = || Failure::Usage(format!("the service replied {refused} requests with errors"));
            return if refused == 0 { Ok(()) } else { Err(why()) };
        }
        clients.exchange(|Reply { connection, is_good, .. }| {
            wanted[connection] += 1;
            refused += u64::from(!is_good);
        })?;
        if wanted.iter().all(|wanted| *wanted == 0) {
            clients.wait(target.timeout_nanos)?;
        }
    }
}

/// Nanoseconds until the next arrival: exponential, a given number a second.
fn exponential(rate: u64, random: &mut Random) -> u64 {
    let mean = 1e9 / rate as f64;
    // The unit interval excludes one, so the logarithm's argument is never zero.
    (-(1.0 - random.unit()).ln() * mean) as u64
}

#[cfg(test)]
mod tests {
    use ensile_base::random::Random;

    use super::exponential;

    #[test]
    fn arrivals_are_exponential() {
        let mut random = Random::from_seed(1);
        let gaps: Vec<u64> = (0..100_000).map(|_| exponential(1_000, &mut random)).collect();
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((0.98e6..1.02e6).contains(&mean), "{mean}");
        // In an exponential distribution one part in e is above the mean.
        let above = gaps.iter().filter(|gap| **gap as f64 > mean).count() as f64 / gaps.len() as f64;
        assert!((0.36..0.376).contains(&above), "{above}");
    }
}
