//! Strings of bytes in a row, with the length before every string: a form for the bytes of an application's objects.
//!
//! ```text
//! part   length 4, little-endian | bytes
//! ```
//! Neighbours: an application's call-backs of checkpoints and loads.

/// Bytes of a part's length.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Parts of an object's bytes, in order.
///
/// ```
/// use ensile_objects::Parts;
/// let mut bytes = Vec::new();
/// Parts::put(&mut bytes, &[b"name", b""]);
/// let parts: Result<Vec<&[u8]>, _> = Parts::new(&bytes).collect();
/// assert_eq!(parts?, [&b"name"[..], b""]);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parts<'b>(&'b [u8]);

impl<'b> Parts<'b> {
    /// Parts of `bytes`.
    #[must_use]
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Appends parts.
    ///
    /// # Panics
    /// If a part has 4 GiB or more. No object has such a part.
    pub fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
        let bytes: usize = parts.iter().map(|part| LENGTH_BYTES + part.len()).sum();
        out.reserve(bytes);
        let begin = out.len();
        for part in parts {
            let length = u32::try_from(part.len()).expect("no object is so long");
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(part);
        }
        debug_assert_eq!(out.len() - begin, bytes, "the parts take the reserved room");
    }
}

impl<'b> Iterator for Parts<'b> {
    type Item = Result<&'b [u8], &'static str>;

    /// The next part. If the bytes end within a part: an error, and then nothing.
    fn next(&mut self) -> Option<Self::Item> {
        let bytes = std::mem::take(&mut self.0);
        if bytes.is_empty() {
            return None;
        }
        let part = bytes
            .split_first_chunk()
            .and_then(|(length, behind)| behind.split_at_checked(u32::from_le_bytes(*length) as usize));
        Some(match part {
            Some((part, behind)) => {
                self.0 = behind;
                Ok(part)
            }
            None => Err("the bytes end within a part"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Parts;

    #[test]
    fn parts_come_back_and_what_ends_within_one_is_an_error() {
        let mut bytes = Vec::new();
        let long = vec![7; 300];
        let parts: [&[u8]; 3] = [b"a", b"", &long];
        Parts::put(&mut bytes, &parts);
        let all: Vec<_> = Parts::new(&bytes).collect();
        assert_eq!(all, parts.map(Ok));
        for end in 0..bytes.len() {
            let parts: Vec<_> = Parts::new(&bytes[..end]).collect();
            let is_whole = [0, 5, 9].contains(&end);
            assert_eq!(parts.iter().all(Result::is_ok), is_whole, "{end}");
            assert!(parts.len() <= 3, "nothing comes behind an error");
        }
    }
}
