//! The commands of every server: of the connection, and of the server itself.
//!
//! `HELLO`, `CLIENT`, `COMMAND` and `CONFIG GET` exist as far as redis-cli, redis-benchmark and client libraries need
//! them. The replies are true: a parameter that this server lacks is not shown, and nothing can be set.
//!
//! Neighbours: [`crate::execution`] calls for commands that the service does not have; `handshake` has the commands
//! that a client sends at the start of a connection.

use std::fmt::Write as _;

use ensile_resp::{ReplyEncoder, Request, RequestDecoder, encode_request, integer};

use crate::command::{CommandInfo, Subcommand, WhileQueueing, is_called, takes};
use crate::glob;
use crate::handshake;
use crate::info::{InfoText, VERSION};
use crate::limits::REQUEST_LIMITS;
use crate::outcome::{ANSWERED, Outcome};
use crate::queue::CommandQueue;
use crate::reply::{NewReply, SHOWN_BYTES, shown_part, shown_word};
use crate::served_program::{CommonCall, ServedProgram, ServiceCall};
use crate::state::ServingState;

/// Error text for the commands of conditional transactions.
const NO_WATCH: &str = "WATCH and UNWATCH do not exist here: EXEC has no condition, and is not one transaction; SET key \
     value IFEQ expected is compare-and-set";

/// A command of every server.
#[derive(Debug)]
pub(crate) struct CommonCommand {
    pub(crate) info: CommandInfo,
}

impl CommonCommand {
    /// Treatment of a request of this command between `MULTI` and `EXEC`.
    pub(crate) fn while_queueing<S: ServedProgram>(&self, request: Request<'_>) -> WhileQueueing {
        match self.info.name {
            // A refusal may end the connection, so nothing of the transaction may come before.
            "SELECT" if S::DATABASES > 1 || handshake::database_of::<S>(request).is_some() => {
                WhileQueueing::Queued
            }
            // The queue may run several times, or without a commit.
            "CLIENT" if request.get(1).is_some_and(|word| is_called(word, "UNBLOCK")) => {
                WhileQueueing::Refused
            }
            _ => self.info.while_queueing,
        }
    }
}

use WhileQueueing::{AtOnce, Exec, Queued, Refused};

const COMMANDS: [CommonCommand; 17] = [
    common("PING", -1, &["fast"], Queued, "Replies PONG, or the argument"),
    common("ECHO", 2, &["fast"], Queued, "Replies the argument"),
    common("MULTI", 1, &["fast", "allow_busy"], AtOnce, "Begins a queue of commands"),
    common("EXEC", 1, &[], Exec, "Carries out the queued commands"),
    common("DISCARD", 1, &["fast", "allow_busy"], AtOnce, "Drops the queued commands"),
    common("WATCH", -2, &["fast"], AtOnce, "Is refused: EXEC has no condition"),
    common("UNWATCH", 1, &["fast"], Refused, "Is refused: EXEC has no condition"),
    common(
        "HELLO",
        -1,
        &["fast", "allow_busy"],
        Refused,
        "Chooses the version of the protocol: AUTH, SETNAME",
    ),
    common(
        "AUTH",
        -2,
        &["fast", "allow_busy"],
        AtOnce,
        "Checks a password; without passwords, ends the connection",
    ),
    common("SELECT", 2, &["fast"], AtOnce, "Takes a database by its number"),
    with_subcommands(
        "CLIENT",
        -2,
        &[],
        &CLIENT,
        "Tells and sets names: ID, GETNAME, SETNAME, SETINFO, UNBLOCK",
    ),
    with_subcommands("COMMAND", -1, &[], &COMMAND, "Tells the commands: COUNT, DOCS, GETKEYS, INFO, LIST"),
    with_subcommands("CONFIG", -2, &["admin"], &CONFIG, "Tells parameters: GET"),
    common("INFO", -1, &[], Queued, "Tells figures"),
    common("BGSAVE", -1, &["admin"], Queued, "Asks for a checkpoint"),
    common("QUIT", -1, &["fast", "allow_busy"], AtOnce, "Closes the connection"),
    common(
        "SHUTDOWN",
        -1,
        &["admin", "allow_busy"],
        Refused,
        "Makes all logged operations durable and ends the server",
    ),
];

const CLIENT: [Subcommand; 5] = [
    Subcommand::new("ID", 2),
    Subcommand::new("GETNAME", 2),
    Subcommand::new("SETNAME", 3),
    Subcommand::new("SETINFO", 4),
    Subcommand::new("UNBLOCK", -3),
];
const COMMAND: [Subcommand; 5] = [
    Subcommand::new("COUNT", 2),
    Subcommand::new("DOCS", -2),
    Subcommand::new("GETKEYS", -3),
    Subcommand::new("INFO", -2),
    Subcommand::new("LIST", -2),
];
const CONFIG: [Subcommand; 1] = [Subcommand::new("GET", -2)];

/// Largest number of names in a `COMMAND INFO` or `COMMAND DOCS`: each name is compared with every command.
const NAMES_MAX: usize = 1024;

/// Longest pattern of names in bytes. The time of a match grows with the product of both lengths.
const PATTERN_BYTES_MAX: usize = 1 << 10;

/// First words of lines of HTTP. A page in a browser can send HTTP to any port of its machine, with commands in the
/// body of a POST.
const FOREIGN: [&str; 2] = ["POST", "HOST:"];

const fn common(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    while_queueing: WhileQueueing,
    summary: &'static str,
) -> CommonCommand {
    CommonCommand {
        info: CommandInfo::new(name, arity, flags, (0, 0, 0), summary).while_queueing(while_queueing),
    }
}

const fn with_subcommands(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    subcommands: &'static [Subcommand],
    summary: &'static str,
) -> CommonCommand {
    CommonCommand { info: CommandInfo::new(name, arity, flags, (0, 0, 0), summary).subcommands(subcommands) }
}

/// Replies that the number of arguments is wrong.
pub(crate) fn wrong_number(name: &str, reply: &mut ReplyEncoder<'_>) {
    let name = name.to_ascii_lowercase();
    reply.error("ERR", &format!("wrong number of arguments for '{name}' command"));
}

/// Finds the command of a request that is not of the service, and checks the number of arguments and the subcommand.
///
/// # Errors
/// The step after the written error: the request is no such command.
pub(crate) fn find<S: ServedProgram>(
    request: Request<'_>,
    reply: &mut ReplyEncoder<'_>,
) -> Result<&'static CommonCommand, Outcome> {
    let name = request.get(0).unwrap_or_default();
    if FOREIGN.iter().any(|foreign| is_called(name, foreign)) {
        reply.error("ERR", "this is no HTTP server: nothing after this line is carried out");
        return Err(Outcome::ReplyAndClose);
    }
    let Some(command) = COMMANDS.iter().find(|command| is_called(name, command.info.name)) else {
        unknown(request, reply);
        return Err(ANSWERED);
    };
    let name = command.info.name;
    let takes_more = !matches!(name, "PING" | "QUIT");
    if !command.info.takes(request.len()) || (!takes_more && request.len() > 2) {
        wrong_number(name, reply);
        // The client takes itself for one of another user, or of another database, which a server without users or
        // databases does not have.
        let ends = S::IS_WITHOUT_USERS && name == "AUTH" || S::DATABASES == 1 && name == "SELECT";
        return Err(if ends { Outcome::ReplyAndClose } else { ANSWERED });
    }
    if check_subcommand(&command.info, request, reply) { Ok(command) } else { Err(ANSWERED) }
}

/// True if the command has no subcommands, or the request is of one of them. Otherwise an error is the reply.
#[inline]
pub(crate) fn check_subcommand(
    info: &CommandInfo,
    request: Request<'_>,
    reply: &mut ReplyEncoder<'_>,
) -> bool {
    let (Some(word), false) = (request.get(1), info.subcommands.is_empty()) else { return true };
    match info.subcommands.iter().find(|subcommand| is_called(word, subcommand.name)) {
        Some(subcommand) if takes(subcommand.arity, request.len()) => return true,
        Some(subcommand) => wrong_number(&format!("{}|{}", info.name, subcommand.name), reply),
        None => unknown_subcommand(word, info, reply),
    }
    false
}

/// Carries out a request of a command of every server, other than `EXEC`. [`find`] has checked the request.
pub(crate) fn carry_out<S: ServedProgram>(
    call: CommonCall<'_, S>,
    command: &CommonCommand,
    reply: &mut NewReply<'_>,
) -> Outcome {
    reply.write(|reply| write_reply(call, command, reply))
}

fn write_reply<S: ServedProgram>(
    call: CommonCall<'_, S>,
    command: &CommonCommand,
    reply: &mut ReplyEncoder<'_>,
) -> Outcome {
    match command.info.name {
        "HELLO" => return handshake::hello(call, reply),
        "AUTH" => return handshake::auth(call, reply),
        _ => {}
    }
    let CommonCall { client, request, server, .. } = call;
    match command.info.name {
        "PING" => match request.get(1) {
            Some(text) => reply.bulk(text),
            None => reply.simple("PONG"),
        },
        "ECHO" => reply.bulk(request.get(1).unwrap_or_default()),
        "MULTI" if client.queue.is_some() => reply.error("ERR", "MULTI calls can not be nested"),
        "MULTI" => {
            client.queue = Some(CommandQueue::default());
            reply.simple("OK");
        }
        "DISCARD" => match client.queue.take() {
            Some(_) => {
                server.service.discard(client);
                reply.simple("OK");
            }
            None => reply.error("ERR", "DISCARD without MULTI"),
        },
        "WATCH" if client.queue.is_some() => reply.error("ERR", "WATCH inside MULTI is not allowed"),
        "WATCH" | "UNWATCH" => reply.error("ERR", NO_WATCH),
        "SELECT" => return handshake::select::<S>(client, request, reply),
        "CLIENT" if request.get(1).is_some_and(|word| is_called(word, "UNBLOCK")) => {
            unblock(server, request, reply);
        }
        "CLIENT" => handshake::client(client, request, reply),
        "COMMAND" => tell_commands::<S>(request, reply),
        "CONFIG" => tell_parameters(server, request, reply),
        "INFO" => {
            let mut text = InfoText::new(request.iter().skip(1));
            server.service.info(client, &server.figures(), &mut text);
            reply.verbatim(*b"txt", text.as_str().as_bytes());
        }
        "BGSAVE" if request.iter().skip(1).all(|word| is_called(word, "SCHEDULE")) => {
            server.service.checkpoint();
            reply.simple("Background saving started");
        }
        "BGSAVE" => reply.error("ERR", "syntax error"),
        "SHUTDOWN" => {
            let is_known =
                |word: &[u8]| ["SAVE", "NOSAVE", "NOW", "FORCE"].iter().any(|known| is_called(word, known));
            if request.iter().skip(1).all(is_known) {
                return Outcome::Stop;
            }
            reply.error("ERR", "SHUTDOWN takes no such argument; it makes all that is logged durable");
        }
        name => {
            debug_assert_eq!(name, "QUIT", "each other command has an arm of its own");
            reply.simple("OK");
            return Outcome::ReplyAndClose;
        }
    }
    ANSWERED
}

/// `CLIENT ID`, `GETNAME`, `SETNAME`, `SETINFO` and `UNBLOCK`, for a service with a `CLIENT` of its own.
pub fn client_command<S: ServedProgram>(call: ServiceCall<'_, S>, reply: &mut NewReply<'_>) -> Outcome {
    let ServiceCall { client, request, server, .. } = call;
    reply.write(|reply| match request.get(1) {
        Some(word) if is_called(word, "UNBLOCK") => unblock(server, request, reply),
        _ => handshake::client(client, request, reply),
    });
    ANSWERED
}

/// `CLIENT UNBLOCK id [TIMEOUT|ERROR]`
fn unblock<S: ServedProgram>(server: &ServingState<S>, request: Request<'_>, reply: &mut ReplyEncoder<'_>) {
    let with_error = match request.get(3) {
        _ if request.len() > 4 => {
            let text = "unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP.";
            return reply.error("ERR", text);
        }
        None => false,
        Some(word) if is_called(word, "TIMEOUT") => false,
        Some(word) if is_called(word, "ERROR") => true,
        Some(_) => return reply.error("ERR", "CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
    };
    let Some(number) = request.get(2).and_then(integer) else {
        return reply.error("ERR", "value is not an integer or out of range");
    };
    let was_waiting = u64::try_from(number).is_ok_and(|number| server.service.unblock(number, with_error));
    reply.integer(i64::from(was_waiting));
}

/// Replies as redis to an unknown command: the name, and as much of the arguments as fits.
fn unknown(request: Request<'_>, reply: &mut ReplyEncoder<'_>) {
    let name = shown_word(request.get(0).unwrap_or_default());
    let mut arguments = String::new();
    for argument in request.iter().skip(1) {
        if arguments.len() >= SHOWN_BYTES {
            break;
        }
        let most = SHOWN_BYTES - arguments.len();
        // A write to memory does not fail.
        let _ = write!(arguments, "'{}' ", shown_part(argument, most));
    }
    reply.error("ERR", &format!("unknown command '{name}', with args beginning with: {arguments}"));
}

/// Every command, the service's first. A command of the service replaces the common command of its name.
pub fn all_commands<S: ServedProgram>() -> impl Iterator<Item = &'static CommandInfo> {
    let own = S::commands().iter().map(AsRef::as_ref);
    let is_replaced = |info: &&CommandInfo| S::find_command(info.name.as_bytes()).is_some();
    own.chain(COMMANDS.iter().map(|command| &command.info).filter(move |info| !is_replaced(info)))
}

fn tell_commands<S: ServedProgram>(request: Request<'_>, reply: &mut ReplyEncoder<'_>) {
    if request.get(1).is_some_and(|word| is_called(word, "GETKEYS")) {
        return tell_keys::<S>(request, reply);
    }
    let named = || request.iter().skip(2);
    let count = all_commands::<S>().count();
    debug_assert!(count >= S::commands().len(), "each command of the service is told");
    if named().count() > NAMES_MAX {
        return reply
            .error("ERR", &format!("COMMAND takes {NAMES_MAX} names at most: ask in several requests"));
    }
    match request.get(1) {
        None => {
            reply.array(count);
            all_commands::<S>().for_each(|info| tell_command::<S>(info, reply));
        }
        Some(word) if is_called(word, "LIST") => {
            let matches = match (request.get(2), request.get(3), request.get(4)) {
                (None, ..) => None,
                (Some(filter), Some(by), Some(pattern))
                    if request.len() == 5
                        && is_called(filter, "FILTERBY")
                        && is_called(by, "PATTERN")
                        && pattern.len() <= PATTERN_BYTES_MAX =>
                {
                    Some(pattern.to_ascii_lowercase())
                }
                _ => {
                    return reply
                        .error("ERR", "COMMAND LIST takes FILTERBY PATTERN and a pattern, or nothing");
                }
            };
            let names: Vec<String> = all_commands::<S>()
                .map(|info| info.name.to_ascii_lowercase())
                .filter(|name| matches.as_ref().is_none_or(|pattern| glob::matches(pattern, name.as_bytes())))
                .collect();
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        Some(word) if is_called(word, "COUNT") => reply.integer(i64::try_from(count).unwrap_or(i64::MAX)),
        Some(word) if is_called(word, "INFO") => {
            reply.array(if request.len() == 2 { count } else { named().count() });
            if request.len() == 2 {
                all_commands::<S>().for_each(|info| tell_command::<S>(info, reply));
            }
            for name in named() {
                match all_commands::<S>().find(|info| is_called(name, info.name)) {
                    Some(info) => tell_command::<S>(info, reply),
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
        Some(_) => debug_assert!(false, "`find` has refused other subcommands"),
    }
}

/// `COMMAND GETKEYS command argument ..`: the keys of a request.
fn tell_keys<S: ServedProgram>(request: Request<'_>, reply: &mut ReplyEncoder<'_>) {
    let words: Vec<&[u8]> = request.iter().skip(2).collect();
    let mut encoded = Vec::new();
    encode_request(&mut encoded, &words);
    let mut decoder = RequestDecoder::new(REQUEST_LIMITS);
    let requests = decoder.decode(&encoded, 1);
    debug_assert_eq!(requests.len(), 1, "a part of a request is within the limits of requests");
    let Some(asked) = requests.get(0) else {
        return reply.error("ERR", "Invalid arguments specified for command");
    };
    let name = asked.get(0).unwrap_or_default();
    let Some(info) = all_commands::<S>().find(|info| is_called(name, info.name)) else {
        return reply.error("ERR", "Invalid command specified");
    };
    if !info.can_have_keys() {
        return reply.error("ERR", "The command has no key arguments");
    }
    if !info.takes(asked.len()) {
        return reply.error("ERR", "Invalid number of arguments specified for command");
    }
    let keys: Vec<&[u8]> = info.keys_of(asked).collect();
    if keys.is_empty() {
        return reply.error("ERR", "Invalid arguments specified for command");
    }
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
}

fn unknown_subcommand(word: &[u8], info: &CommandInfo, reply: &mut ReplyEncoder<'_>) {
    let (word, command) = (shown_word(word), info.name);
    let has_help = info.subcommands.iter().any(|subcommand| subcommand.name == "HELP");
    let text = match command {
        // Redis' words.
        _ if has_help => format!("unknown subcommand '{word}'. Try {command} HELP."),
        "CONFIG" => {
            format!("unknown subcommand '{word}' of CONFIG: no parameter is set while the server runs")
        }
        _ => format!("unknown subcommand '{word}' of {command}"),
    };
    reply.error("ERR", &text);
}

fn tell_command<S: ServedProgram>(info: &CommandInfo, reply: &mut ReplyEncoder<'_>) {
    let name = info.name.to_ascii_lowercase();
    tell_shape(&name, info.arity, info.flags, info.keys, reply);
    tell_words(&S::groups(info, None), reply);
    // Redis' tips.
    reply.set(0);
    tell_key_places(info, reply);
    reply.array(info.subcommands.len());
    for subcommand in info.subcommands {
        let name = format!("{name}|{}", subcommand.name.to_ascii_lowercase());
        tell_shape(&name, subcommand.arity, info.flags, (0, 0, 0), reply);
        tell_words(&S::groups(info, Some(subcommand)), reply);
        reply.set(0);
        reply.set(0);
        reply.array(0);
    }
}

/// Begins the description of a command, which has ten parts.
fn tell_shape(
    name: &str,
    arity: i64,
    flags: &[&'static str],
    keys: (i64, i64, i64),
    reply: &mut ReplyEncoder<'_>,
) {
    debug_assert!(arity != 0, "a request has the command's name");
    reply.array(10);
    reply.bulk(name.as_bytes());
    reply.integer(arity);
    tell_words(flags, reply);
    let (first, last, step) = keys;
    [first, last, step].into_iter().for_each(|at| reply.integer(at));
}

fn tell_words(words: &[&str], reply: &mut ReplyEncoder<'_>) {
    reply.set(words.len());
    words.iter().for_each(|word| reply.simple(word));
}

/// Tells the places of keys in redis' newer form. Places that the request itself tells are left out.
fn tell_key_places(info: &CommandInfo, reply: &mut ReplyEncoder<'_>) {
    let (first, last, step) = info.keys;
    if first == 0 {
        return reply.set(0);
    }
    debug_assert!(step > 0, "a command with keys has a step from key to key");
    debug_assert!(last < 0 || last >= first, "the last key is not before the first key");
    reply.set(1);
    reply.map(3);
    reply.bulk(b"flags");
    tell_words(&[if info.has_flag("write") { "RW" } else { "RO" }], reply);
    for (part, kind, numbers) in [
        ("begin_search", "index", &[("index", first)][..]),
        // The last key is counted from the first key, or from the request's end.
        (
            "find_keys",
            "range",
            &[("lastkey", if last < 0 { last } else { last - first }), ("keystep", step), ("limit", 0)],
        ),
    ] {
        reply.bulk(part.as_bytes());
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(kind.as_bytes());
        reply.bulk(b"spec");
        reply.map(numbers.len());
        for (name, number) in numbers {
            reply.bulk(name.as_bytes());
            reply.integer(*number);
        }
    }
}

/// Replies parameters by their names.
fn tell_parameters<S: ServedProgram>(
    server: &ServingState<S>,
    request: Request<'_>,
    reply: &mut ReplyEncoder<'_>,
) {
    let mut parameters = server.parameters();
    parameters.retain(|(name, _)| request.iter().skip(2).any(|asked| is_called(asked, name)));
    reply.map(parameters.len());
    for (name, value) in &parameters {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}
