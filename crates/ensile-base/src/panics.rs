//! What a caught panic said.
//!
//! Neighbours: those that catch a panic and tell of it; each says by itself what stands where there is no text.

use std::any::Any;

/// The text of a panic, if it has one: any that a macro made does.
///
/// ```
/// use ensile_base::panic_text;
/// let said = |panics: fn()| panic_text(&*std::panic::catch_unwind(panics).unwrap_err()).map(str::to_owned);
/// assert_eq!(said(|| panic!("a text")).as_deref(), Some("a text"));
/// assert_eq!(said(|| panic!("text {}", 2)).as_deref(), Some("text 2"));
/// assert_eq!(said(|| std::panic::panic_any(2)), None);
/// ```
#[must_use]
pub fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
