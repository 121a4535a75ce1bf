//! The table of channels: the numbers of listeners that each loop has, and the way of messages to the loops.
//!
//! Invariants:
//! - J2: the shard of a channel is locked while a message of the channel goes to the loops. Messages of different
//!   shards share no lock but the locks of the mail that they go to.
//! - A loop's copy of the patterns is as new as the loop's last look at the version.
//!
//! Neighbours: `publish` counts; `execution` sends; [`super::Listeners`] has the clients of a loop.

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::task::Waker;

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Mutex, Ordering};
use ensile_serving::{LoopMail, MAIL_BYTES_MAX, glob};

use super::{ChannelKind, ClientSurvey, Letter, ListenKind, Message};

/// The mail of a loop.
pub(crate) type LoopMailBox = Arc<LoopMail<Letter>>;

/// Number of parts of the table of channels.
const SHARDS: usize = 64;

const _: () = assert!(SHARDS.is_power_of_two(), "bits of a hash choose the shard");

/// Number of listeners in each loop that has some.
#[derive(Clone, Debug, Default)]
struct LoopCounts(Vec<(usize, u64)>);

impl LoopCounts {
    fn sum(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn loops(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(number, _)| *number)
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

/// Listened names, with the counts of their listeners.
#[derive(Debug, Default)]
struct ListenedNames(BTreeMap<Arc<[u8]>, LoopCounts>);

impl ListenedNames {
    fn add(&mut self, name: &[u8], of_loop: usize) {
        match self.0.get_mut(name) {
            Some(counts) => counts.add(of_loop),
            None => self.0.entry(name.into()).or_default().add(of_loop),
        }
    }

    fn remove(&mut self, name: &[u8], of_loop: usize) {
        let Some(counts) = self.0.get_mut(name) else {
            debug_assert!(false, "a listener is counted before its end");
            return;
        };
        counts.remove(of_loop);
        if counts.0.is_empty() {
            self.0.remove(name);
        }
    }

    fn count(&self, name: &[u8]) -> u64 {
        self.0.get(name).map_or(0, LoopCounts::sum)
    }
}

/// Channels of a part of the hashes.
#[derive(Debug, Default)]
struct ChannelShard {
    plain: ListenedNames,
    shard: ListenedNames,
}

impl ChannelShard {
    fn of_kind(&self, kind: ChannelKind) -> &ListenedNames {
        match kind {
            ChannelKind::Plain => &self.plain,
            ChannelKind::Shard => &self.shard,
        }
    }

    fn of_kind_mut(&mut self, kind: ChannelKind) -> &mut ListenedNames {
        match kind {
            ChannelKind::Plain => &mut self.plain,
            ChannelKind::Shard => &mut self.shard,
        }
    }
}

/// All patterns with listeners, as a loop sees them.
#[derive(Clone, Debug, Default)]
struct PatternCopy {
    version: u64,
    patterns: Arc<[(Arc<[u8]>, LoopCounts)]>,
}

impl PatternCopy {
    /// Counts of the patterns that match a channel.
    fn matching<'p>(&'p self, kind: ChannelKind, channel: &'p [u8]) -> impl Iterator<Item = &'p LoopCounts> {
        let patterns = if kind == ChannelKind::Plain { &*self.patterns } else { &[] };
        patterns.iter().filter(|(pattern, _)| glob::matches(pattern, channel)).map(|(_, counts)| counts)
    }
}

#[derive(Debug, Default)]
struct PatternTable {
    names: ListenedNames,
    /// The newest copy, for all loops; made at the first look behind a change.
    copy: PatternCopy,
}

/// Numbers of names that clients listen to, and figures of waiting messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChannelFigures {
    pub(crate) channels: usize,
    pub(crate) shard_channels: usize,
    pub(crate) patterns: usize,
    /// Memory of the messages that wait for their loops, in bytes. A message counts once for each loop.
    pub(crate) waiting_bytes: usize,
    /// Number of times that a commit has begun to wait for room in the mail of a loop.
    pub(crate) waits: u64,
}

/// All channels with listeners. Only commands of channels take a lock.
#[derive(Debug)]
pub(crate) struct Channels {
    loops: Mutex<Vec<LoopMailBox>>,
    shards: [Mutex<ChannelShard>; SHARDS],
    hasher: RandomState,
    patterns: Mutex<PatternTable>,
    /// Number of changes of the patterns. The number changes under the lock.
    patterns_version: AtomicU64,
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            loops: Mutex::default(),
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            patterns: Mutex::default(),
            patterns_version: AtomicU64::new(0),
        }
    }
}

impl Channels {
    fn shard(&self, channel: &[u8]) -> &Mutex<ChannelShard> {
        &self.shards[self.hasher.hash_one(channel) as usize % SHARDS]
    }

    /// Posts a question to all loops, and returns the question. `make` gets the number of loops.
    pub(crate) fn post_all(&self, make: impl FnOnce(usize) -> Arc<ClientSurvey>) -> Arc<ClientSurvey> {
        let loops = self.loops.lock();
        let survey = make(loops.len());
        loops.iter().for_each(|mail| mail.post(Letter::Clients(Arc::clone(&survey)), 0));
        survey
    }

    /// The newest copy of the patterns.
    fn copy_patterns(&self) -> PatternCopy {
        let mut table = self.patterns.lock();
        // Relaxed: the number changes under the lock.
        let version = self.patterns_version.load(Ordering::Relaxed);
        if table.copy.version != version {
            let patterns =
                table.names.0.iter().map(|(name, counts)| (Arc::clone(name), counts.clone())).collect();
            table.copy = PatternCopy { version, patterns };
        }
        table.copy.clone()
    }

    fn change(&self, kind: ListenKind, name: &[u8], change: impl FnOnce(&mut ListenedNames)) {
        match kind {
            ListenKind::Channel(kind) => change(self.shard(name).lock().of_kind_mut(kind)),
            ListenKind::Pattern => {
                let mut table = self.patterns.lock();
                change(&mut table.names);
                // Release: pairs with the load in `LoopChannels::patterns`. A publisher that has heard of the change
                // sees the number.
                self.patterns_version.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Names of channels that have listeners and match a pattern, in their order.
    pub(crate) fn names(&self, kind: ChannelKind, pattern: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let matches = |name: &&Arc<[u8]>| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        let mut names = Vec::new();
        for shard in &self.shards {
            names.extend(shard.lock().of_kind(kind).0.keys().filter(matches).cloned());
        }
        names.sort_unstable();
        names
    }

    /// Number of listeners of a channel, without patterns.
    pub(crate) fn count(&self, kind: ChannelKind, channel: &[u8]) -> u64 {
        self.shard(channel).lock().of_kind(kind).count(channel)
    }

    pub(crate) fn figures(&self) -> ChannelFigures {
        let mut figures =
            ChannelFigures { patterns: self.patterns.lock().names.0.len(), ..ChannelFigures::default() };
        for shard in &self.shards {
            let shard = shard.lock();
            figures.channels += shard.plain.0.len();
            figures.shard_channels += shard.shard.0.len();
        }
        for mail in self.loops.lock().iter() {
            figures.waiting_bytes += mail.bytes();
            figures.waits += mail.waits();
        }
        figures
    }
}

/// The channels, as a loop uses them.
#[derive(Debug)]
pub(crate) struct LoopChannels {
    channels: Arc<Channels>,
    /// Number of the loop.
    number: usize,
    patterns: RefCell<PatternCopy>,
    /// Mail of all loops, by their numbers. Loops that begin later are missing.
    loops: RefCell<Vec<LoopMailBox>>,
}

impl LoopChannels {
    /// Adds the loop of this mail.
    pub(crate) fn new(channels: &Arc<Channels>, mail: &LoopMailBox) -> Self {
        let mut loops = channels.loops.lock();
        let number = loops.len();
        loops.push(Arc::clone(mail));
        let copy = RefCell::new(loops.clone());
        drop(loops);
        Self { channels: Arc::clone(channels), number, patterns: RefCell::default(), loops: copy }
    }

    /// Counts a listener of the loop.
    pub(crate) fn add(&self, kind: ListenKind, name: &[u8]) {
        self.channels.change(kind, name, |names| names.add(name, self.number));
    }

    /// Takes a listener of the loop out of the count.
    pub(crate) fn remove(&self, kind: ListenKind, name: &[u8]) {
        self.channels.change(kind, name, |names| names.remove(name, self.number));
    }

    /// The patterns of all loops.
    fn patterns(&self) -> Ref<'_, PatternCopy> {
        if !self.has_newest_patterns() {
            self.patterns.replace(self.channels.copy_patterns());
        }
        self.patterns.borrow()
    }

    fn has_newest_patterns(&self) -> bool {
        // Acquire: pairs with the addition in `Channels::change`.
        self.patterns.borrow().version == self.channels.patterns_version.load(Ordering::Acquire)
    }

    /// Number of the clients that get a message of a channel. A client counts once for the channel, and once for each
    /// pattern.
    pub(crate) fn receivers(&self, kind: ChannelKind, channel: &[u8]) -> u64 {
        let of_patterns: u64 = self.patterns().matching(kind, channel).map(LoopCounts::sum).sum();
        self.channels.count(kind, channel) + of_patterns
    }

    /// Loops with patterns that match a channel.
    fn loops_of_patterns(&self, kind: ChannelKind, channel: &[u8]) -> Vec<usize> {
        self.patterns().matching(kind, channel).flat_map(LoopCounts::loops).collect()
    }

    /// Calls `call` with the mail of each loop that has listeners of a channel, under the lock of the channel.
    fn with_audience(&self, kind: ChannelKind, channel: &[u8], mut call: impl FnMut(&LoopMailBox)) {
        let mut loops = self.loops_of_patterns(kind, channel);
        let shard = self.channels.shard(channel).lock();
        // A pattern that a message before has seen is seen by this message too (J2).
        if !self.has_newest_patterns() {
            loops = self.loops_of_patterns(kind, channel);
        }
        loops.extend(shard.of_kind(kind).0.get(channel).into_iter().flat_map(LoopCounts::loops));
        loops.sort_unstable();
        loops.dedup();
        if loops.last().is_some_and(|last| *last >= self.loops.borrow().len()) {
            self.loops.replace(self.channels.loops.lock().clone());
        }
        let mails = self.loops.borrow();
        for number in loops {
            debug_assert!(number < mails.len(), "a loop is added before its first listener");
            call(&mails[number]);
        }
    }

    /// Sends a message to the loops that have listeners.
    pub(crate) fn send(&self, message: Message, epoch: Epoch) {
        let message = Arc::new(message);
        let bytes = message.memory_bytes();
        self.with_audience(message.kind, &message.channel, |mail| {
            mail.post(Letter::Message(Arc::clone(&message), epoch), bytes);
        });
    }

    /// True if the mail of each loop with listeners has room for these messages. Otherwise `waker` is called once there
    /// may be room (J4).
    #[inline]
    pub(crate) fn have_room(&self, messages: &[Message], waker: &Waker) -> bool {
        messages.is_empty() || self.look_for_room(messages, waker)
    }

    fn look_for_room(&self, messages: &[Message], waker: &Waker) -> bool {
        // The usual case. A loop that is missing here is found by the next message to the loop.
        if self.loops.borrow().iter().all(|mail| mail.bytes() < MAIL_BYTES_MAX) {
            return true;
        }
        messages.iter().all(|message| {
            let mut has_room = true;
            self.with_audience(message.kind, &message.channel, |mail| {
                has_room = has_room && mail.has_room(waker);
            });
            has_room
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ensile_base::Epoch;
    use ensile_net::LoopWakeUp;
    use ensile_serving::LoopMail;

    use super::{ChannelKind, Channels, LoopChannels, LoopMailBox};
    use crate::channels::{Letter, ListenKind, Message};

    fn texts(mail: &LoopMailBox) -> Vec<String> {
        let text = |letter| match letter {
            Letter::Message(message, _) => String::from_utf8_lossy(&message.text).into_owned(),
            other => panic!("{other:?} is no message"),
        };
        mail.take().into_iter().map(text).collect()
    }

    #[test]
    fn j2_a_loop_sees_the_listeners_of_another_loop_from_its_next_message_on() {
        let channels = Arc::new(Channels::default());
        let mails: [LoopMailBox; 2] =
            std::array::from_fn(|_| Arc::new(LoopMail::new(LoopWakeUp::new(|| ()))));
        let [here, there] = [0, 1].map(|number: usize| LoopChannels::new(&channels, &mails[number]));
        let publish = |text: &str| {
            let receivers = here.receivers(ChannelKind::Plain, b"news");
            let (channel, text) = (b"news".as_slice().into(), text.as_bytes().into());
            here.send(Message { kind: ChannelKind::Plain, channel, text }, Epoch::ZERO);
            receivers
        };
        let (pattern, channel) = (ListenKind::Pattern, ListenKind::Channel(ChannelKind::Plain));
        assert_eq!(publish("a"), 0);
        there.add(pattern, b"n*");
        assert_eq!(publish("b"), 1, "J2");
        there.add(channel, b"news");
        here.add(channel, b"news");
        assert_eq!(publish("c"), 3, "J2");
        there.remove(pattern, b"n*");
        there.remove(channel, b"news");
        assert_eq!(publish("d"), 1, "J2");
        assert_eq!([texts(&mails[0]), texts(&mails[1])], [["c", "d"], ["b", "c"]]);
    }
}
