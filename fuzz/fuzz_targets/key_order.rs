//! cargo-fuzz's way into `ensile_fuzz::key_order`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ensile_fuzz::key_order(data));
