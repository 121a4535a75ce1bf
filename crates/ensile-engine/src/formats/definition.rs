//! A table's row in the catalogue: id, types and indexes (X1). Byte example: `docs/internals/formats/rows.md`.
//!
//! Neighbours: `open::catalogue` writes and reads the row; `open::folder` reads the row without an open.

/// A table's row in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) id: u32,
    pub(crate) key_type: String,
    pub(crate) value_type: String,
    /// Fields of the values' type, if the type states its fields (X2).
    pub(crate) value_layout: Option<String>,
    pub(crate) indexes: Vec<IndexDefinition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexDefinition {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) unique: bool,
    pub(crate) key_type: String,
}

/// Version of the encoding below.
const DEFINITION_VERSION: u8 = 1;

impl Definition {
    /// ```text
    /// version u8 | id u32 | key type | value type | count u16 | (name | version u32 | unique u8 | key type)* | layout?
    /// text := length u16 | UTF-8        all little-endian
    /// ```
    /// Programs that do not know the layout ignore bytes behind the indexes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![DEFINITION_VERSION];
        out.extend_from_slice(&self.id.to_le_bytes());
        put_text(&mut out, &self.key_type);
        put_text(&mut out, &self.value_type);
        debug_assert!(self.indexes.len() <= usize::from(u16::MAX), "the count is a u16");
        out.extend_from_slice(&(self.indexes.len() as u16).to_le_bytes());
        for index in &self.indexes {
            put_text(&mut out, &index.name);
            out.extend_from_slice(&index.version.to_le_bytes());
            out.push(u8::from(index.unique));
            put_text(&mut out, &index.key_type);
        }
        self.value_layout.iter().for_each(|layout| put_text(&mut out, layout));
        assert_eq!(Self::decode(&out).as_ref(), Some(self), "what is written is what will be read");
        out
    }

    /// Decodes a row of the catalogue. `None` for another version, or for bytes that are no definition.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let [version] = take(&mut bytes)?;
        if version != DEFINITION_VERSION {
            return None;
        }
        let id = u32::from_le_bytes(take(&mut bytes)?);
        let (key_type, value_type) = (take_text(&mut bytes)?, take_text(&mut bytes)?);
        let count = u16::from_le_bytes(take(&mut bytes)?);
        let mut indexes = Vec::new();
        for _ in 0..count {
            let name = take_text(&mut bytes)?;
            let version = u32::from_le_bytes(take(&mut bytes)?);
            let [unique] = take(&mut bytes)?;
            indexes.push(IndexDefinition {
                name,
                version,
                unique: unique != 0,
                key_type: take_text(&mut bytes)?,
            });
        }
        let value_layout = if bytes.is_empty() { None } else { Some(take_text(&mut bytes)?) };
        Some(Self { id, key_type, value_type, value_layout, indexes })
    }
}

/// Appends a text with its length in front.
fn put_text(out: &mut Vec<u8>, text: &str) {
    assert!(text.len() <= usize::from(u16::MAX), "an opening refuses longer names: {} bytes", text.len());
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// Splits a text with its length in front off `bytes`; `None` if `bytes` end earlier or are not UTF-8.
fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = u16::from_le_bytes(take(bytes)?);
    let (text, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests;
