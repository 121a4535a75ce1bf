//! The commands of every server: of the connection, and of the server itself.
//!
//! `HELLO`, `COMMAND` and `CONFIG GET` exist as far as redis-cli, redis-benchmark and client libraries need them. The
//! replies are true: a parameter that this server lacks is not shown, and nothing can be set.
//!
//! Neighbours: [`super`] calls for commands that the service does not have.

use std::fmt::Write as _;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_net::NetLimits;
use ensile_objects::ObjectDurability;
use ensile_resp::{ReplyEncoder, Request, RespVersion};

use super::figures::{VERSION, figures};
use super::{ServerState, is_called};
use crate::service::{CommandInfo, Service};

/// Next step after a reply is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Send the reply, in strict mode once this epoch is durable.
    Reply(Epoch),
    /// Send the reply, then close.
    ReplyAndClose,
    /// The server ends, without a reply.
    Stop,
}

const ANSWERED: Flow = Flow::Reply(Epoch::ZERO);

const COMMANDS: [CommandInfo; 9] = [
    info("PING", -1, &["fast"], "Replies PONG, or the argument"),
    info("ECHO", 2, &["fast"], "Replies the argument"),
    info("HELLO", -1, &["fast"], "Chooses the version of the protocol"),
    info("COMMAND", -1, &[], "Tells the commands: COUNT, DOCS, INFO"),
    info("CONFIG", -2, &["admin"], "Tells parameters: GET"),
    info("INFO", -1, &[], "Tells figures"),
    info("BGSAVE", -1, &["admin"], "Asks for a checkpoint"),
    info("QUIT", -1, &["fast"], "Closes the connection"),
    info("SHUTDOWN", -1, &["admin"], "Makes what is logged durable and ends the server"),
];

/// First words of lines of HTTP. A page in a browser can send HTTP to any port of its machine, with commands in the
/// body of a POST.
const FOREIGN: [&str; 2] = ["POST", "HOST:"];

const fn info(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    summary: &'static str,
) -> CommandInfo {
    CommandInfo { name, arity, flags, keys: (0, 0, 0), summary }
}

/// Replies that the number of arguments is wrong.
pub(super) fn wrong_number(name: &str, reply: &mut ReplyEncoder<'_>) {
    let name = name.to_ascii_lowercase();
    reply.error("ERR", &format!("wrong number of arguments for '{name}' command"));
}

/// Carries out a request that is not of the service.
pub(super) fn carry_out<S: Service>(
    state: &ServerState<S>,
    (version, number): (&mut RespVersion, u64),
    request: Request<'_>,
    reply: &mut ReplyEncoder<'_>,
) -> Flow {
    let name = request.get(0).unwrap_or_default();
    if FOREIGN.iter().any(|foreign| is_called(name, foreign)) {
        reply.error("ERR", "this is no HTTP server: nothing behind this line is carried out");
        return Flow::ReplyAndClose;
    }
    let Some(command) = COMMANDS.iter().find(|command| is_called(name, command.name)) else {
        unknown(request, reply);
        return ANSWERED;
    };
    let takes_more = !matches!(command.name, "PING" | "QUIT");
    if !command.takes(request.len()) || (!takes_more && request.len() > 2) {
        wrong_number(command.name, reply);
        return ANSWERED;
    }
    match command.name {
        "PING" => match request.get(1) {
            Some(text) => reply.bulk(text),
            None => reply.simple("PONG"),
        },
        "ECHO" => reply.bulk(request.get(1).unwrap_or_default()),
        "HELLO" => hello::<S>((version, number), request, reply),
        "COMMAND" => tell_commands::<S>(request, reply),
        "CONFIG" => config(state, request, reply),
        "INFO" => reply.verbatim(*b"txt", figures(state).as_bytes()),
        "BGSAVE" => {
            // The handle could wait for the checkpoint's end, and no caller does.
            drop(state.service.kept().checkpoint());
            reply.simple("Background saving started");
        }
        "SHUTDOWN" => match request.get(1).map(<[u8]>::to_ascii_uppercase).as_deref() {
            None | Some(b"SAVE" | b"NOSAVE" | b"NOW" | b"FORCE") => return Flow::Stop,
            _ => reply.error("ERR", "SHUTDOWN takes no such argument; it makes all that is logged durable"),
        },
        _ => {
            reply.simple("OK");
            return Flow::ReplyAndClose;
        }
    }
    ANSWERED
}

/// Replies as redis to an unknown command: the name, and as much of the arguments as fits.
fn unknown(request: Request<'_>, reply: &mut ReplyEncoder<'_>) {
    const SHOWN_BYTES: usize = 128;
    let shown =
        |bytes: &[u8], most: usize| String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned();
    let name = shown(request.get(0).unwrap_or_default(), SHOWN_BYTES);
    let mut arguments = String::new();
    for argument in request.iter().skip(1) {
        if arguments.len() >= SHOWN_BYTES {
            break;
        }
        let most = SHOWN_BYTES - arguments.len();
        // A write to memory does not fail.
        let _ = write!(arguments, "'{}' ", shown(argument, most));
    }
    reply.error("ERR", &format!("unknown command '{name}', with args beginning with: {arguments}"));
}

/// Sets the version, and replies the server's identity.
fn hello<S: Service>(
    (version, number): (&mut RespVersion, u64),
    request: Request<'_>,
    reply: &mut ReplyEncoder<'_>,
) {
    let asked = match request.get(1) {
        None => Some(*version),
        Some(b"2") => Some(RespVersion::Resp2),
        Some(b"3") => Some(RespVersion::Resp3),
        Some(_) => None,
    };
    let (Some(asked), 1 | 2) = (asked, request.len()) else {
        return match request.get(2).filter(|_| asked.is_some()) {
            Some(option) => {
                let option = String::from_utf8_lossy(option);
                reply.error("ERR", &format!("Syntax error in HELLO option '{option}'"));
            }
            None => reply.error("NOPROTO", "unsupported protocol version"),
        };
    };
    *version = asked;
    reply.set_version(asked);
    reply.map(7);
    for (name, value) in
        [("server", S::NAME), ("version", VERSION), ("mode", "standalone"), ("role", "master")]
    {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    let proto = if asked == RespVersion::Resp3 { 3 } else { 2 };
    for (name, value) in [("proto", proto), ("id", i64::try_from(number).unwrap_or(i64::MAX))] {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    }
    reply.bulk(b"modules");
    reply.array(0);
}

/// Every command, the service's first.
fn all_commands<S: Service>() -> impl Iterator<Item = &'static CommandInfo> {
    S::COMMANDS.iter().map(|command| &command.info).chain(&COMMANDS)
}

fn tell_commands<S: Service>(request: Request<'_>, reply: &mut ReplyEncoder<'_>) {
    let named = || request.iter().skip(2);
    let count = all_commands::<S>().count();
    match request.get(1) {
        None => {
            reply.array(count);
            all_commands::<S>().for_each(|info| tell_command(info, reply));
        }
        Some(word) if is_called(word, "COUNT") => reply.integer(i64::try_from(count).unwrap_or(i64::MAX)),
        Some(word) if is_called(word, "INFO") => {
            reply.array(if request.len() == 2 { count } else { named().count() });
            if request.len() == 2 {
                all_commands::<S>().for_each(|info| tell_command(info, reply));
            }
            for name in named() {
                if reply.is_beyond() {
                    break;
                }
                match all_commands::<S>().find(|info| is_called(name, info.name)) {
                    Some(info) => tell_command(info, reply),
                    None => reply.null_array(),
                }
            }
        }
        Some(word) if is_called(word, "DOCS") => {
            let is_asked =
                |info: &&CommandInfo| request.len() == 2 || named().any(|name| is_called(name, info.name));
            reply.map(all_commands::<S>().filter(is_asked).count());
            for info in all_commands::<S>().filter(is_asked) {
                reply.bulk(info.name.to_ascii_lowercase().as_bytes());
                reply.map(3);
                for (name, text) in [("summary", info.summary), ("since", VERSION), ("group", S::NAME)] {
                    reply.bulk(name.as_bytes());
                    reply.bulk(text.as_bytes());
                }
            }
        }
        Some(word) => unknown_subcommand(word, "COMMAND", reply),
    }
}

fn unknown_subcommand(word: &[u8], command: &str, reply: &mut ReplyEncoder<'_>) {
    let word = String::from_utf8_lossy(&word[..word.len().min(128)]);
    reply.error("ERR", &format!("unknown subcommand '{word}' of {command}"));
}

fn tell_command(info: &CommandInfo, reply: &mut ReplyEncoder<'_>) {
    reply.array(6);
    reply.bulk(info.name.to_ascii_lowercase().as_bytes());
    reply.integer(info.arity);
    reply.set(info.flags.len());
    info.flags.iter().for_each(|flag| reply.simple(flag));
    let (first, last, step) = info.keys;
    [first, last, step].into_iter().for_each(|at| reply.integer(at));
}

/// Replies parameters in redis' words: the use of a log, the time of its syncs, and an empty `save`, because no
/// schedule keeps data beside the log. A process-safe result has reached the system before its reply, as with
/// `everysec`. Times are in seconds, and zero is none; a memory of zero bytes is no limit.
fn config<S: Service>(state: &ServerState<S>, request: Request<'_>, reply: &mut ReplyEncoder<'_>) {
    let word = request.get(1).unwrap_or_default();
    if !is_called(word, "GET") {
        return unknown_subcommand(word, "CONFIG: nothing is set while it runs;", reply);
    }
    let (log, sync) = match state.durability {
        ObjectDurability::Strict => ("yes", "always"),
        ObjectDurability::Relaxed | ObjectDurability::Process => ("yes", "everysec"),
        ObjectDurability::NoLog => ("no", "no"),
    };
    let seconds = |time: Option<Duration>| time.map_or(0, |time| time.as_secs()).to_string();
    let NetLimits { idle, keepalive, .. } = *state.limits.lock();
    let (idle, keepalive) = (seconds(idle), seconds(keepalive));
    let memory = state.client_memory_max().unwrap_or(0).to_string();
    let parameters = [
        ("appendonly", log),
        ("appendfsync", sync),
        ("save", ""),
        ("databases", "1"),
        ("timeout", idle.as_str()),
        ("tcp-keepalive", keepalive.as_str()),
        ("maxmemory-clients", memory.as_str()),
    ];
    let is_asked = |(name, _): &&(&str, &str)| request.iter().skip(2).any(|asked| is_called(asked, name));
    reply.map(parameters.iter().filter(is_asked).count());
    for (name, value) in parameters.iter().filter(is_asked) {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}
