//! UPS: properties of URLs, partitioned by the hash of the URL over processes (SLACH §5).
//!
//! ```text
//! crawler  UPS.CRAWLED url seconds [MODIFIED seconds] [LANGUAGE code]   => crawls so far      UPS.FAILED url  => failures since
//! others   UPS.COUNT url counter by => the count    UPS.CLASSIFY url set clear => the bits    UPS.FORGET url  => 1 if
//! it was there readers  UPS.GET url => a map, or none            UPS.MGET url ..
//! UPS.PARTITION   => this one, and all
//! ```
//! Invariants:
//! - A process has the URLs of its partition, and refuses other URLs.
//! - R1: a reply rests on the last operation on every URL that the command changes or shows.
//!
//! Neighbours: `properties` has the properties of a URL, `persistence` the persistence; [`crate::client::UrlClient`]
//! talks to all processes.

mod persistence;
mod properties;

use ensile_objects::{ObjectsBuilder, ObjectsResult};
use ensile_resp::ReplyEncoder;

use crate::arguments::{argument, code, code_text, key, pair, show_keys};
use crate::number::{integer, number};
use crate::partition::Partition;
use crate::service::{
    CallError, CallResult, CommandRequest, KeptObjects, READ, Service, ServiceCommand, WRITE, command,
    is_called,
};
pub(crate) use persistence::Urls;
pub use properties::{COUNTERS, UrlOperation, UrlProperties};

/// The URLs of a process.
#[derive(Debug)]
pub struct UrlService {
    urls: Urls, // persist
    partition: Partition,
}

impl Service for UrlService {
    const NAME: &'static str = "ensile-ups";

    const COMMANDS: &'static [ServiceCommand<Self>] = &[
        command("UPS.GET", 2, READ, (1, 1, 1), Self::show, "Shows a URL's properties"),
        command("UPS.CRAWLED", -3, WRITE, (1, 1, 1), Self::record_crawl, "Notes a crawl: MODIFIED, LANGUAGE"),
        command("UPS.COUNT", 4, WRITE, (1, 1, 1), Self::count, "Adds to a counter"),
        command("UPS.MGET", -2, READ, (1, -1, 1), Self::get_many, "Shows the properties of several URLs"),
        command("UPS.FAILED", 2, WRITE, (1, 1, 1), Self::record_failure, "Notes a crawl that failed"),
        command("UPS.CLASSIFY", 4, WRITE, (1, 1, 1), Self::classify, "Sets and clears features"),
        command("UPS.FORGET", 2, WRITE, (1, 1, 1), Self::forget, "Removes a URL"),
        command(
            "UPS.PARTITION",
            1,
            READ,
            (0, 0, 0),
            Self::partition,
            "Tells this partition and how many there are",
        ),
    ];

    fn persistent_objects(&self) -> &dyn KeptObjects {
        &self.urls // persist
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        self.urls.prefetch(keys.iter().copied());
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("urls", self.urls.stats().objects)]
    }
}

impl UrlService {
    /// Opens the URLs of a folder, for this partition. The folder has the service's name and the partition's numbers
    /// from then on.
    ///
    /// # Errors
    /// The folder is damaged, in use, or belongs to another owner, such as another partition; or the folder has no name
    /// yet, and has a URL of another partition. Nothing was changed then.
    pub fn open(objects: ObjectsBuilder, partition: Partition) -> ObjectsResult<Self> {
        let name = format!("{}, {partition}", Self::NAME); // persist
        let is_own = move |url: &[u8]| partition.check(url).map_err(|why| why.to_string()); // persist
        Ok(Self { urls: persistence::open(objects.accept_keys(is_own), name)?, partition }) // persist
    }

    /// URL of a request, checked to be of this partition.
    fn url<'r>(&self, request: &CommandRequest<'r>, at: usize) -> Result<&'r [u8], CallError> {
        let url = key(request, at)?;
        self.partition.check(url)?;
        Ok(url)
    }

    fn change(
        &self,
        request: &CommandRequest<'_>,
        operation: &UrlOperation,
        reply: &mut ReplyEncoder<'_>,
    ) -> CallResult {
        let url = self.url(request, 1)?;
        reply.integer(persistence::change(&self.urls, url, operation, &request.rests)?); // persist
        Ok(())
    }

    fn record_crawl(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        let (at, mut modified, mut language) = (number(argument(request, 2))?, 0, [0; 2]);
        for option in (3..request.len()).step_by(2) {
            let value = request.get(option + 1).ok_or(CallError::Syntax)?;
            match argument(request, option).to_ascii_uppercase().as_slice() {
                b"MODIFIED" => modified = number(value)?,
                b"LANGUAGE" => language = code(value)?,
                _ => return Err(CallError::Syntax),
            }
        }
        self.change(request, &UrlOperation::Crawled { at, modified, language }, reply)
    }

    fn record_failure(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        self.change(request, &UrlOperation::Failed, reply)
    }

    fn count(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        let name = argument(request, 2);
        let counter = COUNTERS.iter().position(|counter| is_called(name, counter));
        let known = "a counter is one of inlinks, outlinks, clicks, duplicates";
        let counter = counter.ok_or(CallError::Argument(known))? as u8;
        self.change(request, &UrlOperation::Count { counter, by: integer(argument(request, 3))? }, reply)
    }

    fn classify(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        let (set, clear) = (number(argument(request, 2))?, number(argument(request, 3))?);
        self.change(request, &UrlOperation::Classify { set, clear }, reply)
    }

    fn forget(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        self.change(request, &UrlOperation::Forget, reply)
    }

    fn get_many(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        reply.array(request.len() - 1);
        self.show(request, reply)
    }

    fn show(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        (1..request.len()).try_for_each(|at| self.url(request, at).map(drop))?;
        show_keys(request, reply, |urls, reply| {
            let show = |url: Option<&UrlProperties>| match url {
                Some(url) => show(url, reply),
                None => reply.null(),
            };
            persistence::look(&self.urls, urls, &request.rests, show) // persist
        })
    }

    fn partition(&self, _: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        reply.array(2);
        self.partition.numbers().into_iter().for_each(|number| reply.integer(number as i64));
        Ok(())
    }
}

fn show(url: &UrlProperties, reply: &mut ReplyEncoder<'_>) {
    let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    reply.map(6 + COUNTERS.len());
    pair("crawled", seconds(url.crawled), reply);
    pair("modified", seconds(url.modified), reply);
    reply.bulk(b"language");
    code_text(url.language, reply);
    pair("crawls", i64::from(url.crawls), reply);
    pair("failures", i64::from(url.failures), reply);
    pair("classes", i64::from(url.classes), reply);
    COUNTERS.iter().zip(url.counters).for_each(|(name, count)| pair(name, count, reply));
}
