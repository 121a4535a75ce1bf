//! cargo-fuzz's way into `ensile_fuzz::resp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ensile_fuzz::resp(data));
