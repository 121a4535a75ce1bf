//! The evidence that a pin is held.
//!
//! Functions that follow pointers into shared memory take a [`Pinned`]: while it lives, nothing that was reachable
//! when the pin was taken is freed (E3). It costs nothing and cannot be made without `unsafe` outside this crate.
//!
//! Neighbours: handed out by pins; asked for by the index and the record module.

use std::marker::PhantomData;

/// A copyable token: "the caller holds a pin for `'p`" (E3).
///
/// The token is not `Send`: what is kept between a transaction's calls must be, so it holds no token.
#[derive(Clone, Copy, Debug)]
pub struct Pinned<'p>(PhantomData<(&'p (), *const ())>);

impl Pinned<'_> {
    /// Claims that a pin is held for the token's lifetime.
    ///
    /// # Safety
    /// For as long as the token lives, either a pin stands that was taken before any pointer reached under it was
    /// loaded, or nothing that such a pointer can reach is freed for another reason (a test that never frees, a
    /// structure that no other thread knows).
    #[inline(always)]
    #[must_use]
    pub const unsafe fn assume() -> Self {
        Self(PhantomData)
    }
}
