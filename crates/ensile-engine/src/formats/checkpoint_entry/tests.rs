//! Checkpoint entries as bytes.

use super::*;

#[test]
fn rows_come_back_and_cut_ones_are_refused() {
    for (key, value) in [(&b"key"[..], &b"value"[..]), (b"", b""), (b"key", b"")] {
        let mut body = Vec::new();
        encode(&mut body, key, value);
        assert_eq!(body.len(), bytes(key.len(), value.len()));
        assert_eq!(decode(&body), Ok((key, value)));
        for length in 0..bytes(key.len(), 0) {
            assert!(decode(&body[..length]).is_err(), "cut at {length}");
        }
    }
}
