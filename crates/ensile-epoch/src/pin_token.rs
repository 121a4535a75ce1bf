//! The evidence that a pin is held.
//!
//! Functions that follow pointers into shared memory take a [`Pinned`]. While the token lives, nothing that was
//! reachable at the time of the pin is freed (E3). The token costs nothing and cannot be made without `unsafe` outside
//! this crate.
//!
//! Neighbours: pins hand out tokens; the index and the record module ask for tokens.

use std::marker::PhantomData;

/// A copyable token: "the caller holds a pin for `'p`" (E3).
///
/// The token is not `Send`: a value kept between a transaction's calls must be `Send`, and therefore holds no token.
#[derive(Clone, Copy, Debug)]
pub struct Pinned<'p>(PhantomData<(&'p (), *const ())>);

impl Pinned<'_> {
    /// Claims that a pin is held for the token's lifetime.
    ///
    /// # Safety
    /// For as long as the token lives, a pin stands that was taken before the load of any pointer reached under the
    /// pin. Or, for another reason, nothing that such a pointer can reach is freed (a test that never frees, a
    /// structure that no other thread knows).
    #[inline(always)]
    #[must_use]
    pub const unsafe fn assume() -> Self {
        Self(PhantomData)
    }
}
