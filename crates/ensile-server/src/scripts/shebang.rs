//! Options in the first line of a script: `#!lua flags=no-writes,allow-oom`.
//!
//! Neighbours: `script_commands` reads the options before a script is compiled.

/// A script's options and code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScriptSource<'s> {
    /// Source without the options. The first line stays, so lines keep their numbers.
    pub(super) code: &'s [u8],
    /// True if the script has a first line with options.
    pub(super) has_options: bool,
    /// True if the script may not write.
    pub(super) is_read_only: bool,
}

/// Flags of redis. The flags other than `no-writes` change nothing here: each write is checked by itself.
const FLAGS: [&[u8]; 5] =
    [b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"];

impl<'s> ScriptSource<'s> {
    /// Reads the first line.
    ///
    /// # Errors
    /// Text of the reply, in redis' words.
    pub(super) fn read(source: &'s [u8]) -> Result<Self, String> {
        if !source.starts_with(b"#!") {
            return Ok(Self { code: source, has_options: false, is_read_only: false });
        }
        let Some(end) = source.iter().position(|byte| *byte == b'\n') else {
            return Err("Invalid script shebang".to_owned());
        };
        let (line, code) = source.split_at(end);
        let shown = String::from_utf8_lossy;
        let mut words =
            line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r')).filter(|word| !word.is_empty());
        let engine = words.next().unwrap_or_default();
        if engine != b"#!lua" {
            return Err(format!("Unexpected engine in script shebang: {}", shown(engine)));
        }
        let mut is_read_only = false;
        for word in words {
            let Some(flags) = word.strip_prefix(b"flags=") else {
                return Err(format!("Unknown lua shebang option: {}", shown(word)));
            };
            for flag in flags.split(|byte| *byte == b',').filter(|flag| !flag.is_empty()) {
                if !FLAGS.contains(&flag) {
                    return Err(format!("Unexpected flag in script shebang: {}", shown(flag)));
                }
                is_read_only |= flag == b"no-writes";
            }
        }
        Ok(Self { code, has_options: true, is_read_only })
    }
}
