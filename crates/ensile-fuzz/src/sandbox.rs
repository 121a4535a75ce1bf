//! Target: scripts in Lua, from a grammar and with any text, through `EVAL` of a simulated server.
//!
//! Invariants: no script panics, and each script has one reply. A limit ends an endless script. Behind a script, the
//! next script finds the same functions and no new globals. A state of Lua that stays has 32 MiB at most.
//!
//! Neighbours: `grammar` makes scripts of bytes; `served` has the server.

mod grammar;

use std::sync::OnceLock;

use ensile_resp::{Reply, ReplyDecoder, ReplyLimits};

use crate::input::Input;
use crate::served::{Served, Words};

/// Most scripts of an input, one behind the other in one state of Lua.
const SCRIPTS_MAX: usize = 4;
/// Most memory of a state that stays, in bytes.
const KEPT_BYTES_MAX: u64 = 32 << 20;

/// A script that tells the functions and globals that a script sees: a name and a value in turn.
fn probe() -> &'static str {
    static PROBE: OnceLock<String> = OnceLock::new();
    PROBE.get_or_init(|| {
        let names = grammar::FUNCTIONS.iter().chain(grammar::GLOBALS).map(|name| format!("'{name}'"));
        format!(
            "local told = {{}}
            for _, name in ipairs({{{}}}) do
              local is_there, value = pcall(loadstring('return ' .. name))
              told[#told + 1] = name
              if not is_there then told[#told + 1] = 'absent'
              elseif type(value) == 'table' then told[#told + 1] = 'table'
              else told[#told + 1] = tostring(value) end
            end
            told[#told + 1] = 'metatable of strings'
            told[#told + 1] = tostring(getmetatable(''))
            told[#told + 1] = 'arguments'
            told[#told + 1] = #KEYS .. ' ' .. #ARGV
            return told",
            names.collect::<Vec<_>>().join(",")
        )
    })
}

/// The names and values of a probe's reply.
fn told(reply: &[u8]) -> Vec<(String, String)> {
    let mut decoder = ReplyDecoder::new(ReplyLimits::default());
    let decoded = decoder.decode(reply).expect("a reply is RESP").expect("a reply is whole");
    let Reply::Array(replies) = decoded.reply() else {
        panic!("the probe has failed: {}", String::from_utf8_lossy(reply));
    };
    let texts = replies.map(|reply| match reply {
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no text: {other:?}"),
    });
    let texts: Vec<String> = texts.collect();
    texts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

/// The values without addresses, for a state that is new.
fn without_addresses(told: &[(String, String)]) -> Vec<(&str, &str)> {
    let shortened = |text| str::split(text, ": 0x").next().unwrap_or_default();
    told.iter().map(|(name, value)| (name.as_str(), shortened(value))).collect()
}

fn eval(script: &[u8]) -> Words {
    vec![b"EVAL".to_vec(), script.to_vec(), b"2".to_vec(), b"s".to_vec(), b"l".to_vec(), b"7".to_vec()]
}

/// Memory of the state of Lua in bytes.
fn lua_bytes(served: &mut Served) -> u64 {
    let info = served.ask_new(&[vec![b"INFO".to_vec(), b"memory".to_vec()]]);
    let info = String::from_utf8_lossy(&info[0]).into_owned();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory_vm_eval:"));
    line.and_then(|number| number.trim().parse().ok()).expect("INFO has the memory of Lua")
}

/// The first byte chooses the number of scripts. A script ends with the input at the latest.
pub fn sandbox(data: &[u8]) {
    let mut input = Input::new(data);
    let mut served = Served::new(1);
    let before = told(&served.ask_new(&[eval(probe().as_bytes())])[0]);
    for _ in 0..1 + input.choice(SCRIPTS_MAX) {
        let script = grammar::script(&mut input);
        // `RESET` would end a queue; a single script in a queue has the queue's reply.
        let replies = served.ask_new(&[eval(&script)]);
        assert_eq!(replies.len(), 1, "a script has one reply");
        let bytes = lua_bytes(&mut served);
        assert!(bytes <= KEPT_BYTES_MAX, "the state has {bytes} bytes behind the script");
    }
    let after = told(&served.ask_new(&[eval(probe().as_bytes())])[0]);
    // A state beyond its memory is replaced, with all of its functions.
    let is_new = before[0].1 != after[0].1;
    if is_new {
        assert_eq!(without_addresses(&before), without_addresses(&after), "the next script sees a change");
    } else {
        assert_eq!(before, after, "the next script sees a change");
    }
    served.settle_all();
    served.check_agreement();
}
