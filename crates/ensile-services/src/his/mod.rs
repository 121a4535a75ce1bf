//! HIS: information on web hosts. The figures of the hosts come in a burst once a day (SLACH §5).
//!
//! ```text
//! daily    HIS.DAILY host day country urls delay-micros => 1, or 0 if newer figures are there       HIS.FORGET host => 1 if it was there
//! between  HIS.ADD host urls => its URLs    HIS.DELAY host micros => the moving average
//! readers  HIS.GET host => a map, or none   HIS.MGET host ..
//! ```
//! A burst has a `HIS.DAILY` for every host, in pipelines: [`crate::client::HostClient::daily`].
//!
//! Invariant: R1: a reply rests on the last operation on every host that the request changes or shows.
//!
//! Neighbours: `host` has the information, `persistence` keeps the information; [`crate::server`] calls.

mod host;
mod persistence;

use ensile_objects::{ObjectsBuilder, ObjectsResult};
use ensile_resp::ReplyEncoder;

use crate::arguments::{argument, code, code_text, key, pair, show_keys};
use crate::number::{integer, number};
use crate::service::{
    CallResult, CommandRequest, KeptObjects, READ, Service, ServiceCommand, WRITE, command,
};
pub use host::{DailyFigures, HostInformation, HostOperation};
pub(crate) use persistence::Hosts;

/// The hosts.
#[derive(Debug)]
pub struct HostService {
    hosts: Hosts, // persist
}

impl Service for HostService {
    const NAME: &'static str = "ensile-his";

    const COMMANDS: &'static [ServiceCommand<Self>] = &[
        command("HIS.GET", 2, READ, (1, 1, 1), Self::show, "Shows a host"),
        command("HIS.DAILY", 6, WRITE, (1, 1, 1), Self::daily, "Notes a day's figures: country, URLs, delay"),
        command("HIS.ADD", 3, WRITE, (1, 1, 1), Self::add, "Adds to the URLs that are stored"),
        command("HIS.DELAY", 3, WRITE, (1, 1, 1), Self::delay, "Adds a measured delay to the average"),
        command("HIS.MGET", -2, READ, (1, -1, 1), Self::get_many, "Shows several hosts"),
        command("HIS.FORGET", 2, WRITE, (1, 1, 1), Self::forget, "Removes a host"),
    ];

    fn persistent_objects(&self) -> &dyn KeptObjects {
        &self.hosts // persist
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        self.hosts.prefetch(keys.iter().copied());
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("hosts", self.hosts.stats().objects)]
    }
}

impl HostService {
    /// Opens the hosts of a folder. The folder has the service's name from then on.
    ///
    /// # Errors
    /// The folder is damaged, in use, or of something else, such as another service.
    pub fn open(objects: ObjectsBuilder) -> ObjectsResult<Self> {
        Ok(Self { hosts: persistence::open(objects, Self::NAME)? }) // persist
    }

    fn change(
        &self,
        request: &CommandRequest<'_>,
        operation: &HostOperation,
        reply: &mut ReplyEncoder<'_>,
    ) -> CallResult {
        let host = key(request, 1)?;
        reply.integer(persistence::change(&self.hosts, host, operation, &request.rests)?); // persist
        Ok(())
    }

    fn daily(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        let figures = DailyFigures {
            day: number(argument(request, 2))?,
            country: code(argument(request, 3))?,
            urls: integer(argument(request, 4))?,
            delay_micros: number(argument(request, 5))?,
        };
        self.change(request, &HostOperation::Daily(figures), reply)
    }

    fn add(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        self.change(request, &HostOperation::Add(integer(argument(request, 2))?), reply)
    }

    fn delay(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        self.change(request, &HostOperation::Delay(number(argument(request, 2))?), reply)
    }

    fn forget(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        self.change(request, &HostOperation::Forget, reply)
    }

    fn get_many(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        reply.array(request.len() - 1);
        self.show(request, reply)
    }

    fn show(&self, request: &CommandRequest<'_>, reply: &mut ReplyEncoder<'_>) -> CallResult {
        (1..request.len()).try_for_each(|at| key(request, at).map(drop))?;
        show_keys(request, reply, |hosts, reply| {
            let show = |host: Option<&HostInformation>| match host {
                Some(host) => show(host, reply),
                None => reply.null(),
            };
            persistence::look(&self.hosts, hosts, &request.rests, show) // persist
        })
    }
}

fn show(host: &HostInformation, reply: &mut ReplyEncoder<'_>) {
    reply.map(5);
    pair("day", i64::from(host.day), reply);
    pair("days", i64::from(host.days), reply);
    reply.bulk(b"country");
    code_text(host.country, reply);
    pair("urls", host.urls, reply);
    pair("delay", i64::try_from(host.delay_micros).unwrap_or(i64::MAX), reply);
}
