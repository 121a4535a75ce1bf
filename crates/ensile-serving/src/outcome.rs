//! Outcomes of requests, and refusals of users.
//!
//! Neighbours: a [`ServedProgram`](crate::ServedProgram) returns them; [`crate::ServingLoop`] takes the next step.

use ensile_base::Epoch;

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reply goes out, in its turn, once this epoch is durable if replies wait.
    Reply(Epoch),
    /// The reply goes out, then the connection ends.
    ReplyAndClose,
    /// The server ends, without a reply.
    Stop,
    /// Nothing is done and nothing is replied: the request would have to wait. The loop sets the request aside, serves
    /// other connections, and calls the request again after a wake-up.
    Busy,
}

/// Outcome of a reply that rests on no epoch.
pub const ANSWERED: Outcome = Outcome::Reply(Epoch::ZERO);

/// Refusal of a user or a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthRefusal {
    /// Code at the beginning of the error reply.
    pub code: &'static str,
    /// Text of the error reply.
    pub text: &'static str,
}
