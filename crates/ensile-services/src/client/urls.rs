//! A client of the URL service, with a connection to each partition.
//!
//! Neighbours: [`super::RespClient`] sends and receives; [`crate::ups`] is the service, and [`crate::partition`] has
//! the partition of a URL.

use std::net::ToSocketAddrs;

use super::{ClientError, ClientResult, MapValue, RespClient, all_of, integer_of, object_of};
use crate::partition::Partition;
use crate::ups::{COUNTERS, UrlProperties};

/// A client of the URL service, [`crate::ups`], with a connection to each partition.
///
/// A call returns a [`ClientError`] if the connection fails, or if the server refuses the request.
#[derive(Debug)]
pub struct UrlClient(Vec<RespClient>);

impl UrlClient {
    /// Connects to all partitions, in the order of their numbers.
    ///
    /// # Errors
    /// [`ClientError::Connection`]; [`ClientError::Unexpected`] if a process has another place than in this list.
    pub fn connect(addresses: &[impl ToSocketAddrs]) -> ClientResult<Self> {
        let mut clients = Vec::new();
        for (number, address) in addresses.iter().enumerate() {
            let mut client = RespClient::connect(address)?;
            let place = client.call(&["UPS.PARTITION"], |reply| all_of(reply, integer_of))?;
            if place != [number as i64, addresses.len() as i64] {
                let all = addresses.len();
                let why = format!("the process that is named as partition {number} of {all} is {place:?}");
                return Err(ClientError::Unexpected(why.into()));
            }
            clients.push(client);
        }
        Ok(Self(clients))
    }

    /// Connection to the partition of a URL.
    pub fn connection(&mut self, url: &[u8]) -> &mut RespClient {
        let all = self.0.len();
        &mut self.0[Partition::number_for_key(url, all)]
    }

    /// Properties of a URL.
    pub fn get(&mut self, url: &[u8]) -> ClientResult<Option<UrlProperties>> {
        self.connection(url).call(&[&b"UPS.GET"[..], url], |reply| object_of(reply, url_of))
    }

    /// Properties of several URLs, in order: one round trip to each partition with a URL of the list, all at once.
    ///
    /// # Errors
    /// [`ClientError`], of the first partition with an error. A reply for more than some ten thousand URLs may exceed
    /// the limit of a server ([`REPLY_BYTES`](crate::service::REPLY_BYTES)): request the URLs in parts.
    pub fn get_many(&mut self, urls: &[&[u8]]) -> ClientResult<Vec<Option<UrlProperties>>> {
        let all = self.0.len();
        // Places of the URLs of every partition.
        let mut places = vec![Vec::new(); all];
        for (place, url) in urls.iter().enumerate() {
            places[Partition::number_for_key(url, all)].push(place);
        }
        let asked = || (0..all).filter(|partition| !places[*partition].is_empty());
        for partition in asked() {
            let its = places[partition].iter().map(|place| urls[*place]);
            let words: Vec<&[u8]> = std::iter::once(&b"UPS.MGET"[..]).chain(its).collect();
            self.0[partition].request(&words);
            self.0[partition].send()?;
        }
        let mut found = vec![None; urls.len()];
        // Every reply is taken, so that the connections stay in step.
        let replies: Vec<_> = asked()
            .map(|partition| {
                self.0[partition].receive_as(|reply| all_of(reply, |reply| object_of(reply, url_of)))
            })
            .collect();
        for (partition, reply) in asked().zip(replies) {
            for (place, url) in places[partition].iter().zip(reply?) {
                found[*place] = url;
            }
        }
        Ok(found)
    }

    /// Notes a crawl: its time, the time of the page's modification, and the language of the text as two letters; zero
    /// and `None` are unknown. Returns the number of crawls.
    pub fn record_crawl(
        &mut self,
        url: &[u8],
        seconds: u64,
        modified: u64,
        language: Option<[u8; 2]>,
    ) -> ClientResult<i64> {
        let (seconds, modified) = (seconds.to_string(), modified.to_string());
        let mut words = vec![&b"UPS.CRAWLED"[..], url, seconds.as_bytes(), b"MODIFIED", modified.as_bytes()];
        if let Some(language) = &language {
            words.extend([&b"LANGUAGE"[..], language]);
        }
        self.connection(url).call(&words, integer_of)
    }

    /// Notes a failed crawl. Returns the number of failures since the last good crawl.
    pub fn record_failure(&mut self, url: &[u8]) -> ClientResult<i64> {
        self.connection(url).call(&[&b"UPS.FAILED"[..], url], integer_of)
    }

    /// Adds to a counter, by its place in [`COUNTERS`]. Returns the new count.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Panics
    /// If there is no counter of this number.
    pub fn count(&mut self, url: &[u8], counter: usize, by: i64) -> ClientResult<i64> {
        let by = by.to_string();
        let words = [&b"UPS.COUNT"[..], url, COUNTERS[counter].as_bytes(), by.as_bytes()];
        self.connection(url).call(&words, integer_of)
    }

    /// Sets features and clears others. Returns all features.
    pub fn classify(&mut self, url: &[u8], set: u32, clear: u32) -> ClientResult<i64> {
        let (set, clear) = (set.to_string(), clear.to_string());
        let words = [&b"UPS.CLASSIFY"[..], url, set.as_bytes(), clear.as_bytes()];
        self.connection(url).call(&words, integer_of)
    }

    /// Removes a URL. True if the URL was present.
    pub fn forget(&mut self, url: &[u8]) -> ClientResult<bool> {
        Ok(self.connection(url).call(&[&b"UPS.FORGET"[..], url], integer_of)? == 1)
    }

    /// Asks all partitions to shut down once everything is durable.
    pub fn shut_down(&mut self) -> ClientResult<()> {
        self.0.iter_mut().try_for_each(RespClient::shut_down)
    }
}

fn url_of(values: &[MapValue]) -> Option<UrlProperties> {
    let [crawled, modified, language, crawls, failures, classes, counters @ ..] = values else { return None };
    let counters: Vec<i64> = counters.iter().map(|count| count.number()).collect::<Option<_>>()?;
    Some(UrlProperties {
        crawled: crawled.number()?,
        modified: modified.number()?,
        language: language.code()?,
        crawls: crawls.number()?,
        failures: failures.number()?,
        classes: classes.number()?,
        counters: counters.try_into().ok()?,
    })
}
