//! Next step of a loop after the reply to a request is written.
//!
//! Neighbours: commands choose the step; [`super::ServiceLoop`] takes the step.

use ensile_base::Epoch;

/// Next step after a reply is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Send the reply, in strict mode once this epoch is durable.
    Reply(Epoch),
    /// Send the reply, then close.
    ReplyAndClose,
    /// The server ends, without a reply.
    Stop,
}

/// Step after a reply that rests on no operation.
pub(super) const ANSWERED: Flow = Flow::Reply(Epoch::ZERO);
