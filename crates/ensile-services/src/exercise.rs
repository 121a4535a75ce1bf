//! What clients do to the objects of each service, and what becomes of an object: a model beside the service.
//!
//! Invariants:
//! - Each object belongs to one client, so what its operations come to is known before the service replies.
//! - Objects that differ are shown differently.
//! - No state comes twice among those that are remembered: what makes an object that is not there has the client's
//!   number of the operation, which only grows, counts go up from there by amounts that differ, and an object is
//!   removed again only once its last absence is forgotten. So acknowledged operations that are lost show, as many as
//!   are remembered, and one that is made twice or out of order does.
//!
//! Neighbours: tests that cut the power, and the bench that kills processes, send the requests and compare.

use std::collections::VecDeque;

use ensile_base::random::Random;

/// States before the last acknowledged one that are remembered, to tell what is wrong.
const REMEMBERED: usize = 16;
/// An object that may be removed is, by one operation in so many.
const REMOVED_ONE_IN: u64 = 10;
/// What each service shows of an object that is not there.
const ABSENT: &str = "-";
/// Counts go up by less than this, so that one that was made twice shows.
const AMOUNTS: u64 = 1000;

/// RequestWords of a request.
pub type RequestWords = Vec<String>;

/// An object of a service as its operations have made it.
pub trait Exercised: Clone + Default + Send {
    /// Draws an operation, which is the client's number `sequence`, and makes it. The request, and its reply in words.
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String);

    /// Removes it. The request; the reply is that one was removed.
    fn remove(&mut self, object: &str) -> RequestWords;

    /// The request that shows an object.
    fn look(object: &str) -> RequestWords;

    /// Its reply, in words.
    fn shown(&self) -> String;
}

/// An object, and what may be found of it.
#[derive(Debug)]
pub struct Tracked<E> {
    name: String,
    /// The state behind the last acknowledged operation, then those behind each one that was sent.
    states: VecDeque<E>,
    /// States that were replaced by acknowledged operations, as they were shown.
    old: VecDeque<String>,
}

impl<E: Exercised> Tracked<E> {
    /// One that is not there yet.
    pub fn new(name: String) -> Self {
        Self { name, states: VecDeque::from([E::default()]), old: VecDeque::new() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many operations were sent that are not acknowledged.
    pub fn under_way(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// Draws the next operation, which is the client's number `sequence`, larger than any before: the request that is
    /// sent now, and its reply in words.
    ///
    /// # Panics
    /// If the operation comes to a state that is remembered.
    pub fn operate(&mut self, sequence: u64, random: &mut Random) -> (RequestWords, String) {
        let mut state = self.states.back().cloned().unwrap_or_default();
        let drawn = if random.below(REMOVED_ONE_IN) == 0 && !self.remembers(ABSENT) {
            (state.remove(&self.name), ":1".to_owned())
        } else {
            state.operate(&self.name, sequence, random)
        };
        assert!(!self.remembers(&state.shown()), "{}: a lost tail could not be seen", self.name);
        self.states.push_back(state);
        drawn
    }

    /// Whether it was shown so a while ago, or may be now.
    fn remembers(&self, shown: &str) -> bool {
        self.states.iter().any(|state| state.shown() == shown) || self.old.iter().any(|old| old == shown)
    }

    /// The oldest operation that was sent is acknowledged.
    pub fn acknowledge(&mut self) {
        if let Some(state) = self.states.pop_front() {
            self.old.push_back(state.shown());
            if self.old.len() > REMEMBERED {
                self.old.pop_front();
            }
        }
    }

    /// Takes what was found behind a recovery for the state from now on; or what is wrong with it.
    ///
    /// # Errors
    /// It is in none of the states that it may be in.
    pub fn find(&mut self, found: &str) -> Result<(), Mistake> {
        let Some(at) = self.states.iter().position(|state| state.shown() == found) else {
            let expected = self.states.front().map_or_else(String::new, E::shown);
            let is_old = self.old.iter().any(|old| old == found);
            let text = format!("{}: {found} was found, {expected} or later was to be", self.name);
            return Err(if is_old { Mistake::Lost(text) } else { Mistake::Wrong(text) });
        };
        // Those before it were made, though nobody was told.
        (0..at).for_each(|_| self.acknowledge());
        self.states.truncate(1);
        Ok(())
    }
}

/// Something that must not be.
#[derive(Debug)]
pub enum Mistake {
    /// An acknowledged operation is not there.
    Lost(String),
    /// Something is there that is none of the object's states: an operation was made twice, out of order, or by half.
    Wrong(String),
}

/// A request of these words.
fn words(words: &[&str]) -> RequestWords {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// An element of the hash table: a whole number, if it is there. It only grows.
#[derive(Clone, Debug, Default)]
pub struct TableElement(Option<i64>);

impl Exercised for TableElement {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String) {
        // Above all values before: each operation since has added less than that.
        let fresh = (sequence * AMOUNTS * AMOUNTS) as i64;
        match (self.0, random.below(9)) {
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

    fn shown(&self) -> String {
        self.0.map_or_else(|| ABSENT.to_owned(), |value| value.to_string())
    }
}

/// An amount, and what a count is with it.
fn with_amount(count: i64, random: &mut Random) -> (i64, i64) {
    let by = random.between(1, AMOUNTS - 1) as i64;
    (by, count + by)
}

/// A URL: its last crawl, crawls and links, if it is there.
#[derive(Clone, Debug, Default)]
pub struct Url(Option<(u64, u32, i64)>);

impl Exercised for Url {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String) {
        match &mut self.0 {
            Some((_, _, links)) if random.below(9) >= 3 => {
                let (by, sum) = with_amount(*links, random);
                *links = sum;
                (words(&["UPS.COUNT", object, "inlinks", &by.to_string()]), format!(":{sum}"))
            }
            url => {
                let (crawled, crawls, _) = url.get_or_insert_default();
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

    fn shown(&self) -> String {
        let Some((crawled, crawls, links)) = self.0 else { return ABSENT.to_owned() };
        format!(
            "[crawled :{crawled} modified :0 language  crawls :{crawls} failures :0 classes :0 inlinks :{links} \
             outlinks :0 clicks :0 duplicates :0]"
        )
    }
}

/// A host: its day, its days and its URLs, if it is there.
#[derive(Clone, Debug, Default)]
pub struct Host(Option<(u64, u32, i64)>);

impl Exercised for Host {
    fn operate(&mut self, object: &str, sequence: u64, random: &mut Random) -> (RequestWords, String) {
        match &mut self.0 {
            Some((_, _, urls)) if random.below(9) >= 2 => {
                let (by, sum) = with_amount(*urls, random);
                *urls = sum;
                (words(&["HIS.ADD", object, &by.to_string()]), format!(":{sum}"))
            }
            host => {
                let (day, days, urls) = host.get_or_insert_default();
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

    fn shown(&self) -> String {
        let Some((day, days, urls)) = self.0 else { return ABSENT.to_owned() };
        format!("[day :{day} days :{days} country de urls :{urls} delay :0]")
    }
}

#[cfg(test)]
mod tests;
