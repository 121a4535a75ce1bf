//! The table of channels: the numbers of listeners that each loop has.
//!
//! Neighbours: `publish` counts; `execution` sends; [`super::Listeners`] has the clients of a loop.

use std::collections::BTreeMap;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::sync::Mutex;
use ensile_serving::{LoopMail, glob};

use super::{ChannelKind, ClientSurvey, Letter, ListenKind, Message};

/// The mail of a loop.
pub(crate) type LoopMailBox = Arc<LoopMail<Letter>>;

/// Number of listeners in each loop that has some.
#[derive(Debug, Default)]
struct LoopCounts(Vec<(usize, u64)>);

impl LoopCounts {
    fn sum(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn add(&mut self, of_loop: usize) {
        match self.0.iter_mut().find(|(number, _)| *number == of_loop) {
            Some((_, count)) => *count += 1,
            None => self.0.push((of_loop, 1)),
        }
    }

    fn remove(&mut self, of_loop: usize) {
        let place = self.0.iter().position(|(number, _)| *number == of_loop);
        debug_assert!(place.is_some(), "a listener is counted before its end");
        let Some(place) = place else { return };
        self.0[place].1 -= 1;
        if self.0[place].1 == 0 {
            self.0.swap_remove(place);
        }
    }
}

#[derive(Debug, Default)]
struct ChannelTable {
    loops: Vec<LoopMailBox>,
    listened: BTreeMap<ListenKind, BTreeMap<Box<[u8]>, LoopCounts>>,
}

impl ChannelTable {
    fn of_kind(&self, kind: ListenKind) -> impl Iterator<Item = (&[u8], &LoopCounts)> {
        self.listened.get(&kind).into_iter().flatten().map(|(name, counts)| (&**name, counts))
    }

    /// The counts of all listeners that get a message of a channel: of the channel, and of matching patterns.
    fn audience<'t>(&'t self, kind: ChannelKind, channel: &[u8]) -> impl Iterator<Item = &'t LoopCounts> {
        let direct = self.listened.get(&ListenKind::Channel(kind)).and_then(|names| names.get(channel));
        let patterns = (kind == ChannelKind::Plain).then(|| self.of_kind(ListenKind::Pattern));
        let matching =
            patterns.into_iter().flatten().filter(move |(pattern, _)| glob::matches(pattern, channel));
        direct.into_iter().chain(matching.map(|(_, counts)| counts))
    }
}

/// Numbers of names that clients listen to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelFigures {
    pub(crate) channels: usize,
    pub(crate) shard_channels: usize,
    pub(crate) patterns: usize,
}

/// All channels with listeners. Only commands of channels take the lock.
#[derive(Debug, Default)]
pub(crate) struct Channels(Mutex<ChannelTable>);

impl Channels {
    /// Adds a loop, and returns the loop's number.
    pub(crate) fn add_loop(&self, mail: &LoopMailBox) -> usize {
        let mut table = self.0.lock();
        table.loops.push(Arc::clone(mail));
        table.loops.len() - 1
    }

    /// Posts a question to all loops, and returns the question. `make` gets the number of loops.
    pub(crate) fn post_all(&self, make: impl FnOnce(usize) -> Arc<ClientSurvey>) -> Arc<ClientSurvey> {
        let table = self.0.lock();
        let survey = make(table.loops.len());
        table.loops.iter().for_each(|mail| mail.post(Letter::Clients(Arc::clone(&survey))));
        survey
    }

    /// Counts a listener of a loop.
    pub(crate) fn add(&self, kind: ListenKind, name: &[u8], of_loop: usize) {
        let mut table = self.0.lock();
        debug_assert!(of_loop < table.loops.len(), "a loop is added before its first listener");
        table.listened.entry(kind).or_default().entry(name.into()).or_default().add(of_loop);
    }

    /// Takes a listener of a loop out of the count.
    pub(crate) fn remove(&self, kind: ListenKind, name: &[u8], of_loop: usize) {
        let mut table = self.0.lock();
        let names = table.listened.entry(kind).or_default();
        let Some(counts) = names.get_mut(name) else {
            debug_assert!(false, "a listener is counted before its end");
            return;
        };
        counts.remove(of_loop);
        if counts.0.is_empty() {
            names.remove(name);
        }
    }

    /// Number of the clients that get a message of a channel. A client counts once for the channel, and once for each
    /// pattern.
    pub(crate) fn receivers(&self, kind: ChannelKind, channel: &[u8]) -> u64 {
        self.0.lock().audience(kind, channel).map(LoopCounts::sum).sum()
    }

    /// Sends a message to the loops that have listeners.
    pub(crate) fn send(&self, message: Message, epoch: Epoch) {
        let table = self.0.lock();
        let audience = table.audience(message.kind, &message.channel);
        let mut loops: Vec<usize> =
            audience.flat_map(|counts| counts.0.iter().map(|(number, _)| *number)).collect();
        loops.sort_unstable();
        loops.dedup();
        let message = Arc::new(message);
        // J2: under the lock, so that every loop gets the messages in one order.
        for number in loops {
            table.loops[number].post(Letter::Message(Arc::clone(&message), epoch));
        }
    }

    /// Names of a kind that have listeners and match a pattern, in their order.
    pub(crate) fn names(&self, kind: ListenKind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let table = self.0.lock();
        let matches = |name: &&[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        table.of_kind(kind).map(|(name, _)| name).filter(matches).map(Into::into).collect()
    }

    /// Number of listeners of a channel, without patterns.
    pub(crate) fn count(&self, kind: ChannelKind, channel: &[u8]) -> u64 {
        let table = self.0.lock();
        let names = table.listened.get(&ListenKind::Channel(kind));
        names.and_then(|names| names.get(channel)).map_or(0, LoopCounts::sum)
    }

    pub(crate) fn figures(&self) -> ChannelFigures {
        let table = self.0.lock();
        let count = |kind: ListenKind| table.listened.get(&kind).map_or(0, BTreeMap::len);
        ChannelFigures {
            channels: count(ListenKind::Channel(ChannelKind::Plain)),
            shard_channels: count(ListenKind::Channel(ChannelKind::Shard)),
            patterns: count(ListenKind::Pattern),
        }
    }
}
