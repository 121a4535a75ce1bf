//! Operations of clients on the objects of each service, and the resulting states: a model beside the service.
//!
//! Invariants:
//! - An object belongs to one client, so the outcome of its operations is known before the service replies.
//! - Different states are shown differently.
//! - No state recurs among the remembered states. An operation that makes an absent object contains the client's
//!   operation number, and the numbers only grow. Counts go up from there by different amounts. An object is removed
//!   again only after its last absence is forgotten. Lost acknowledged operations therefore show, up to the number of
//!   remembered states, and an operation made twice or out of order shows.
//!
//! Neighbours: tests that cut the power, and the bench that kills processes, send the requests and compare.

use std::collections::VecDeque;

use ensile_base::random::Random;

/// Number of remembered states before the last acknowledged state, to name the mistake.
const REMEMBERED: usize = 16;
/// Inverse probability that an operation removes a removable object.
const REMOVED_ONE_IN: u64 = 10;
/// Text of an absent object, the same for every service.
const ABSENT: &str = "-";
/// Upper bound of the amounts by which counts go up, so that an operation made twice shows.
const AMOUNTS: u64 = 1000;

/// Words of a request.
pub type RequestWords = Vec<String>;

/// State of a service's object after its operations.
pub trait Exercised: Clone + Default + Send {
    /// Draws an operation with the client's number `sequence`, and makes it. Returns the request, and the reply in
    /// words.
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String);

    /// Removes the object. Returns the request; the reply is that one object was removed.
    fn remove(&mut self, object: &str) -> RequestWords;

    /// Request that shows an object.
    fn look(object: &str) -> RequestWords;

    /// Reply to [`look`](Self::look), in words.
    fn reply_text(&self) -> String;
}

/// An object, and its possible states.
#[derive(Debug)]
pub struct Tracked<E> {
    name: String,
    /// State after the last acknowledged operation, then the states after every sent operation.
    states: VecDeque<E>,
    /// Texts of states that acknowledged operations have replaced.
    old: VecDeque<String>,
}

impl<E: Exercised> Tracked<E> {
    /// Creates an absent object.
    pub fn new(name: String) -> Self {
        Self { name, states: VecDeque::from([E::default()]), old: VecDeque::new() }
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of sent operations without an acknowledgement.
    pub fn under_way(&self) -> u64 {
        debug_assert!(!self.states.is_empty(), "an object has a state");
        self.states.len() as u64 - 1
    }

    /// Draws the next operation, with the client's number `sequence`, larger than any number before. Returns the
    /// request to send now, and the reply in words.
    ///
    /// # Panics
    /// If the operation leads to a remembered state.
    pub fn operate(&mut self, sequence: u64, random: &mut Random) -> (RequestWords, String) {
        let mut state = self.states.back().cloned().unwrap_or_default();
        let drawn = if random.next_below(REMOVED_ONE_IN) == 0 && !self.remembers(ABSENT) {
            (state.remove(&self.name), ":1".to_owned())
        } else {
            state.operate(&self.name, sequence, random)
        };
        assert!(!self.remembers(&state.reply_text()), "{}: a lost tail could not be seen", self.name);
        self.states.push_back(state);
        drawn
    }

    /// True if an old or a possible present state has this text.
    fn remembers(&self, shown: &str) -> bool {
        self.states.iter().any(|state| state.reply_text() == shown) || self.old.iter().any(|old| old == shown)
    }

    /// Acknowledges the oldest sent operation.
    pub fn acknowledge(&mut self) {
        debug_assert!(self.under_way() > 0, "a sent operation is acknowledged once");
        if let Some(state) = self.states.pop_front() {
            self.old.push_back(state.reply_text());
            if self.old.len() > REMEMBERED {
                self.old.pop_front();
            }
        }
    }

    /// Takes the state found after a recovery as the state from now on.
    ///
    /// # Errors
    /// The found state is none of the possible states.
    pub fn find(&mut self, found: &str) -> Result<(), Mistake> {
        let Some(at) = self.states.iter().position(|state| state.reply_text() == found) else {
            let expected = self.states.front().map_or_else(String::new, E::reply_text);
            let is_old = self.old.iter().any(|old| old == found);
            let text = format!("{}: {found} was found, {expected} or later was to be", self.name);
            return Err(if is_old { Mistake::Lost(text) } else { Mistake::Wrong(text) });
        };
        // The operations before were made, although no client got a reply.
        (0..at).for_each(|_| self.acknowledge());
        self.states.truncate(1);
        debug_assert_eq!(self.states[0].reply_text(), found, "the found state goes on");
        Ok(())
    }
}

/// A mistake of the service.
#[derive(Debug)]
pub enum Mistake {
    /// An acknowledged operation is missing.
    Lost(String),
    /// The found state is none of the object's states: an operation was made twice, out of order, or by half.
    Wrong(String),
}

/// Makes a request of these words.
fn words(words: &[&str]) -> RequestWords {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// An element of the hash table: a whole number, if present. The number only grows.
#[derive(Clone, Debug, Default)]
pub struct TableElement(Option<i64>);

impl Exercised for TableElement {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String) {
        // Above all earlier values: every operation since has added less than [`AMOUNTS`].
        let fresh = (sequence * AMOUNTS * AMOUNTS) as i64;
        debug_assert!(self.0.is_none_or(|before| before < fresh), "the number only grows");
        match (self.0, random.next_below(9)) {
            (None, _) | (Some(_), 0) => {
                self.0 = Some(fresh);
                (words(&["SET", object, &fresh.to_string()]), "+OK".to_owned())
            }
            (Some(before), 1) => {
                self.0 = Some(fresh);
                (words(&["SET", object, &fresh.to_string(), "IFEQ", &before.to_string()]), "+OK".to_owned())
            }
            (Some(before), _) => {
                let (by, sum) = with_amount(before, random);
                self.0 = Some(sum);
                (words(&["INCRBY", object, &by.to_string()]), format!(":{sum}"))
            }
        }
    }

    fn remove(&mut self, object: &str) -> RequestWords {
        self.0 = None;
        words(&["DEL", object])
    }

    fn look(object: &str) -> RequestWords {
        words(&["GET", object])
    }

    fn reply_text(&self) -> String {
        self.0.map_or_else(|| ABSENT.to_owned(), |value| value.to_string())
    }
}

/// Draws an amount. Returns the amount and the new count.
fn with_amount(count: i64, random: &mut Random) -> (i64, i64) {
    let by = random.next_between(1, AMOUNTS - 1) as i64;
    (by, count + by)
}

/// A URL: its last crawl, crawls and links, if present.
#[derive(Clone, Debug, Default)]
pub struct Url(Option<(u64, u32, i64)>);

impl Exercised for Url {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String) {
        match &mut self.0 {
            Some((_, _, links)) if random.next_below(9) >= 3 => {
                let (by, sum) = with_amount(*links, random);
                *links = sum;
                (words(&["UPS.COUNT", object, "inlinks", &by.to_string()]), format!(":{sum}"))
            }
            url => {
                let (crawled, crawls, _) = url.get_or_insert_default();
                debug_assert!(*crawled < sequence, "the numbers of a client only grow");
                (*crawled, *crawls) = (sequence, *crawls + 1);
                (words(&["UPS.CRAWLED", object, &sequence.to_string()]), format!(":{crawls}"))
            }
        }
    }

    fn remove(&mut self, object: &str) -> RequestWords {
        self.0 = None;
        words(&["UPS.FORGET", object])
    }

    fn look(object: &str) -> RequestWords {
        words(&["UPS.GET", object])
    }

    fn reply_text(&self) -> String {
        let Some((crawled, crawls, links)) = self.0 else { return ABSENT.to_owned() };
        format!(
            "[crawled :{crawled} modified :0 language  crawls :{crawls} failures :0 classes :0 inlinks :{links} \
             outlinks :0 clicks :0 duplicates :0]"
        )
    }
}

/// A host: its day, its days and its URLs, if present.
#[derive(Clone, Debug, Default)]
pub struct Host(Option<(u64, u32, i64)>);

impl Exercised for Host {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String) {
        match &mut self.0 {
            Some((_, _, urls)) if random.next_below(9) >= 2 => {
                let (by, sum) = with_amount(*urls, random);
                *urls = sum;
                (words(&["HIS.ADD", object, &by.to_string()]), format!(":{sum}"))
            }
            host => {
                let (day, days, urls) = host.get_or_insert_default();
                debug_assert!(*day < sequence, "the numbers of a client only grow");
                (*day, *days, *urls) = (sequence, *days + 1, (sequence % AMOUNTS) as i64);
                let figures = [sequence.to_string(), urls.to_string()];
                let request = ["HIS.DAILY", object, &figures[0], "de", &figures[1], "0"];
                (words(&request), ":1".to_owned())
            }
        }
    }

    fn remove(&mut self, object: &str) -> RequestWords {
        self.0 = None;
        words(&["HIS.FORGET", object])
    }

    fn look(object: &str) -> RequestWords {
        words(&["HIS.GET", object])
    }

    fn reply_text(&self) -> String {
        let Some((day, days, urls)) = self.0 else { return ABSENT.to_owned() };
        format!("[day :{day} days :{days} country de urls :{urls} delay :0]")
    }
}

#[cfg(test)]
mod tests;
