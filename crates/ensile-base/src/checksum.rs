//! Checksums of blocks and files: CRC-32C.
//!
//! Neighbours: the durability crate's blocks and manifest.

/// CRC-32C of `bytes`.
///
/// ```
/// assert_eq!(ensile_base::checksum::crc32c(b"123456789"), 0xe306_9283);
/// ```
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC-32C of the bytes behind `crc` followed by `bytes`.
#[inline]
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}
