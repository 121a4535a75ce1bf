//! Helpers of the crate's tests: objects that call the test, a number's bytes, and an application that does nothing.
//!
//! Neighbours: up, the tests of `apply_time` and `runtime`.

use std::marker::PhantomData;

use crate::{Application, CallBackResult, CodecResult, ObjectWriter, Persistent};

/// Calls from a test's objects to the test.
pub(crate) trait Calls: Send + 'static {
    /// An operation is applied, under its object's lock.
    fn on_apply(_operation: u64) {}

    /// An object is encoded, in a checkpoint's call-back.
    fn on_encode() {}
}

/// An object without bytes that calls the test.
pub(crate) struct Calling<C>(PhantomData<C>);

impl<C: Calls> Persistent for Calling<C> {
    type Operation = u64;
    type Output = ();
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(object: &mut Option<Self>, operation: &u64) {
        *object = Some(Self(PhantomData));
        C::on_apply(*operation);
    }

    fn encode(&self, _: &mut Vec<u8>) {
        C::on_encode();
    }

    fn decode(_: u16, _: &[u8]) -> CodecResult<Self> {
        Ok(Self(PhantomData))
    }

    fn encode_operation(operation: &u64, out: &mut Vec<u8>) {
        encode_number(*operation, out);
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
        decode_number(bytes)
    }
}

pub(crate) fn encode_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn decode_number(bytes: &[u8]) -> CodecResult<u64> {
    bytes.try_into().map(u64::from_le_bytes).map_err(|_| "not eight bytes".into())
}

/// An application without objects.
pub(crate) struct NoObjects;

impl Application for NoObjects {
    fn checkpoint(&self, _: u64, _: &mut ObjectWriter<'_>) -> Option<u64> {
        None
    }

    fn load_one(&self, _: u64, _: &[u8]) -> CallBackResult {
        Ok(())
    }

    fn replay_one(&self, _: u64, _: u32, _: &[&[u8]]) -> CallBackResult {
        Ok(())
    }
}
