//! Callers that ask for the next checkpoint, and the answer after the end of the checkpoints.
//!
//! Neighbours: `manager` calls [`Callers::demand`] for applications; an attempt takes the ticket of its callers.

use std::sync::Arc;

use super::action::Answers;
use crate::DurabilityError;
use crate::checkpoint::request::Ticket;

/// Callers of the next checkpoint.
#[derive(Debug, Default)]
pub(super) struct Callers {
    /// Ticket of callers that ask for the next checkpoint.
    ticket: Option<Arc<Ticket>>,
    /// Error for a caller that asks for a checkpoint after the end.
    refusal: Option<DurabilityError>,
}

impl Callers {
    /// Returns the ticket of the next checkpoint, which earlier callers share. After the end, the answer is an error.
    pub(super) fn demand(&mut self) -> (Arc<Ticket>, Answers) {
        assert!(self.ticket.is_none() || self.refusal.is_none(), "a waiting caller hears of the end");
        if let Some(why) = &self.refusal {
            let ticket = Arc::new(Ticket::default());
            let outcomes = vec![(Arc::clone(&ticket), Err(why.clone()))];
            return (ticket, Answers { outcomes, ..Answers::default() });
        }
        (Arc::clone(self.ticket.get_or_insert_default()), Answers::default())
    }

    /// True if a caller asks for the next checkpoint.
    pub(super) fn are_waiting(&self) -> bool {
        self.ticket.is_some()
    }

    /// Takes the ticket of the next checkpoint, if a caller asks.
    pub(super) fn take(&mut self) -> Option<Arc<Ticket>> {
        assert!(self.refusal.is_none(), "no checkpoint begins after the end");
        self.ticket.take()
    }

    /// Refuses later callers with `error`. Returns the ticket of the next checkpoint, if a caller asks.
    pub(super) fn refuse(&mut self, error: DurabilityError) -> Option<Arc<Ticket>> {
        let ticket = self.take();
        self.refusal = Some(error);
        ticket
    }

    /// True if later callers are refused, because the checkpoints have ended.
    pub(super) fn are_refused(&self) -> bool {
        self.refusal.is_some()
    }
}
