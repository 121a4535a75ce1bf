//! A client of the host service, and its daily bursts.
//!
//! Neighbours: [`super::RespClient`] sends and receives; [`crate::his`] is the service.

use std::net::ToSocketAddrs;

use super::{ClientResult, MapValue, RespClient, all_of, integer_of, object_of};
use crate::his::{DailyFigures, HostInformation};

/// Number of requests that a burst has under way.
const BURST: usize = 256;

/// A client of the host service, [`crate::his`].
///
/// A call returns a [`ClientError`](super::ClientError) if the connection fails, or if the server refuses the request.
#[derive(Debug)]
pub struct HostClient(RespClient);

impl HostClient {
    /// Connects to a server.
    pub fn connect(address: impl ToSocketAddrs) -> ClientResult<Self> {
        RespClient::connect(address).map(Self)
    }

    /// The connection, for other commands.
    pub fn connection(&mut self) -> &mut RespClient {
        &mut self.0
    }

    /// Information on a host.
    pub fn get(&mut self, host: &[u8]) -> ClientResult<Option<HostInformation>> {
        self.0.call(&[&b"HIS.GET"[..], host], |reply| object_of(reply, host_of))
    }

    /// Information on several hosts, in order, in one round trip.
    ///
    /// # Errors
    /// [`ClientError`](super::ClientError). A reply for more than some ten thousand hosts may exceed the limit of a
    /// server ([`REPLY_BYTES`](crate::service::REPLY_BYTES)): request the hosts in parts.
    pub fn get_many(&mut self, hosts: &[&[u8]]) -> ClientResult<Vec<Option<HostInformation>>> {
        if hosts.is_empty() {
            return Ok(Vec::new());
        }
        let words: Vec<&[u8]> = std::iter::once(&b"HIS.MGET"[..]).chain(hosts.iter().copied()).collect();
        self.0.call(&words, |reply| all_of(reply, |reply| object_of(reply, host_of)))
    }

    /// Sends the burst of a day: the figures of many hosts, in pipelines. Returns the number of figures that were not
    /// older than the stored figures.
    ///
    /// # Errors
    /// [`ClientError`](super::ClientError), of the first refused host; figures of further hosts may have been taken.
    pub fn daily<'h>(
        &mut self,
        hosts: impl IntoIterator<Item = (&'h [u8], DailyFigures)>,
    ) -> ClientResult<u64> {
        let (mut under_way, mut taken) = (0, 0);
        for (host, DailyFigures { day, country, urls, delay_micros }) in hosts {
            let (day, urls, delay) = (day.to_string(), urls.to_string(), delay_micros.to_string());
            let words =
                [&b"HIS.DAILY"[..], host, day.as_bytes(), &country, urls.as_bytes(), delay.as_bytes()];
            self.0.request(&words);
            under_way += 1;
            if under_way == BURST {
                taken += self.receive_accepted(under_way)?;
                under_way = 0;
            }
        }
        Ok(taken + self.receive_accepted(under_way)?)
    }

    fn receive_accepted(&mut self, under_way: usize) -> ClientResult<u64> {
        let replies: Vec<ClientResult<i64>> = (0..under_way).map(|_| self.0.receive_as(integer_of)).collect();
        replies.into_iter().try_fold(0, |taken, reply| Ok(taken + u64::from(reply? == 1)))
    }

    /// Adds to the number of stored URLs of a host. Returns the new number.
    pub fn add(&mut self, host: &[u8], urls: i64) -> ClientResult<i64> {
        self.0.call(&[&b"HIS.ADD"[..], host, urls.to_string().as_bytes()], integer_of)
    }

    /// Adds a measured delay to the average. Returns the new average, in microseconds.
    pub fn delay(&mut self, host: &[u8], micros: u64) -> ClientResult<i64> {
        self.0.call(&[&b"HIS.DELAY"[..], host, micros.to_string().as_bytes()], integer_of)
    }

    /// Removes a host. True if the host was present.
    pub fn forget(&mut self, host: &[u8]) -> ClientResult<bool> {
        Ok(self.0.call(&[&b"HIS.FORGET"[..], host], integer_of)? == 1)
    }

    /// Requests the server's end, after everything is durable.
    pub fn shut_down(&mut self) -> ClientResult<()> {
        self.0.shut_down()
    }
}

fn host_of(values: &[MapValue]) -> Option<HostInformation> {
    let [day, days, country, urls, delay] = values else { return None };
    Some(HostInformation {
        day: day.number()?,
        days: days.number()?,
        country: country.code()?,
        urls: urls.number()?,
        delay_micros: delay.number()?,
    })
}
