//! The commands that a client sends at the start of a connection: `HELLO`, `AUTH`, `SELECT`, `CLIENT`.
//!
//! Invariant: the refusal of a user or a database ends the connection of a server without users or databases. The later
//! requests of the connection are for the refused user or database, so no such request is carried out.
//!
//! Neighbours: [`crate::common_commands`] calls; [`Client`] has the version and the name.

use std::task::Waker;

use ensile_resp::{ReplyEncoder, Request, RespVersion, integer};

use crate::client_state::Client;
use crate::command::is_called;
use crate::outcome::{ANSWERED, AuthProgress, Outcome};
use crate::reply::shown_word;
use crate::served_program::{CommonCall, ServedProgram};
use crate::state::ServingState;

/// Longest name of a client in bytes.
const NAME_BYTES_MAX: usize = 1024;

/// Sets version and name, checks a user, and replies the server's identity.
pub(crate) fn hello<S: ServedProgram>(call: CommonCall<'_, S>, reply: &mut ReplyEncoder<'_>) -> Outcome {
    let CommonCall { client, request, server, waker } = call;
    let version = match request.get(1) {
        None => client.version,
        Some(b"2") => RespVersion::Resp2,
        Some(b"3") => RespVersion::Resp3,
        Some(word) if integer(word).is_none() => {
            reply.error("ERR", "Protocol version is not an integer or out of range");
            return ANSWERED;
        }
        Some(_) => {
            reply.error("NOPROTO", "unsupported protocol version");
            return ANSWERED;
        }
    };
    let (mut at, mut name, mut credentials) = (2, None, None);
    while let Some(option) = request.get(at) {
        if S::IS_WITHOUT_USERS && is_called(option, "AUTH") {
            return refuse_users(reply);
        }
        let arguments = (request.get(at + 1), request.get(at + 2));
        at += match arguments {
            (Some(user), Some(password)) if is_called(option, "AUTH") => {
                credentials = Some(Credentials { user: Some(user), password });
                3
            }
            (Some(given), _) if is_called(option, "SETNAME") => {
                name = Some(given);
                2
            }
            _ => {
                reply.error("ERR", &format!("Syntax error in HELLO option '{}'", shown_word(option)));
                return ANSWERED;
            }
        };
    }
    if let Some(credentials) = credentials
        && let Err(outcome) = authenticate(server, client, credentials, waker, reply)
    {
        return outcome;
    }
    if !server.service.is_authorized(client) {
        reply.error(
            "NOAUTH",
            "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option \
             can be used to authenticate the client and select the RESP protocol version at the same time",
        );
        return ANSWERED;
    }
    if let Some(Err(refusal)) = name.map(|name| set_name(client, name)) {
        reply.error("ERR", &refusal);
        return ANSWERED;
    }
    debug_assert!(server.service.is_authorized(client), "a stranger learns no identity");
    client.version = version;
    reply.set_version(version);
    tell_identity::<S>(client, reply);
    ANSWERED
}

fn tell_identity<S: ServedProgram>(client: &Client<S::ClientState>, reply: &mut ReplyEncoder<'_>) {
    reply.map(7);
    let text = |name: &str, value: &str, reply: &mut ReplyEncoder<'_>| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    text("server", S::NAME, reply);
    text("version", S::VERSION, reply);
    let proto = if client.version == RespVersion::Resp3 { 3 } else { 2 };
    for (name, value) in [("proto", proto), ("id", id(client))] {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    }
    text("mode", "standalone", reply);
    text("role", "master", reply);
    reply.bulk(b"modules");
    reply.array(0);
}

fn id<C>(client: &Client<C>) -> i64 {
    i64::try_from(client.number).unwrap_or(i64::MAX)
}

/// Refuses a user: a client with a password would take a server without passwords for a safe server.
pub(crate) fn refuse_users(reply: &mut ReplyEncoder<'_>) -> Outcome {
    reply.error("ERR", "AUTH is refused: this server has no users and no passwords; connect without them");
    Outcome::ReplyAndClose
}

/// Checks a password, or a user and a password.
pub(crate) fn auth<S: ServedProgram>(call: CommonCall<'_, S>, reply: &mut ReplyEncoder<'_>) -> Outcome {
    let CommonCall { client, request, server, waker } = call;
    if S::IS_WITHOUT_USERS {
        return refuse_users(reply);
    }
    let credentials = match (request.get(1), request.get(2), request.len()) {
        (Some(password), None, _) => Credentials { user: None, password },
        (Some(user), Some(password), 3) => Credentials { user: Some(user), password },
        _ => {
            reply.error("ERR", "syntax error");
            return ANSWERED;
        }
    };
    match authenticate(server, client, credentials, waker, reply) {
        Ok(()) => {
            reply.simple("OK");
            ANSWERED
        }
        Err(outcome) => outcome,
    }
}

/// Checks a user and a password.
///
/// # Errors
/// The step after the written error; [`Outcome::Busy`], with nothing written, while the check goes on elsewhere.
fn authenticate<S: ServedProgram>(
    server: &ServingState<S>,
    client: &mut Client<S::ClientState>,
    credentials: Credentials<'_>,
    waker: &Waker,
    reply: &mut ReplyEncoder<'_>,
) -> Result<(), Outcome> {
    let Credentials { user, password } = credentials;
    match server.service.authenticate(client, user, password, waker) {
        Ok(AuthProgress::Authenticated) => Ok(()),
        Ok(AuthProgress::Waits) => Err(Outcome::Busy),
        Err(refusal) => {
            reply.error(refusal.code, refusal.text);
            Err(ANSWERED)
        }
    }
}

/// User and password of a client.
#[derive(Clone, Copy)]
struct Credentials<'r> {
    /// Name of the user; `None` for the default user.
    user: Option<&'r [u8]>,
    password: &'r [u8],
}

/// Number of the database that a `SELECT` names, if the database exists.
pub(crate) fn database_of<S: ServedProgram>(request: Request<'_>) -> Option<u32> {
    let number = integer(request.get(1)?)?;
    u32::try_from(number).ok().filter(|number| *number < S::DATABASES)
}

/// Selects a database, and refuses databases that do not exist.
pub(crate) fn select<S: ServedProgram>(
    client: &mut Client<S::ClientState>,
    request: Request<'_>,
    reply: &mut ReplyEncoder<'_>,
) -> Outcome {
    if let Some(database) = database_of::<S>(request) {
        debug_assert!(database < S::DATABASES, "a selected database exists");
        client.database = database;
        reply.simple("OK");
        return ANSWERED;
    }
    if S::DATABASES == 1 {
        reply.error("ERR", "DB index is out of range: this server has database 0 alone");
        return Outcome::ReplyAndClose;
    }
    // The texts are redis' own: clients look for them.
    let text = match request.get(1).and_then(integer) {
        None => "value is not an integer or out of range".to_owned(),
        Some(number) if i32::try_from(number).is_err() => {
            format!("value is out of range, value must between {} and {}", i32::MIN, i32::MAX)
        }
        Some(_) => format!("DB index is out of range: the last database is {}", S::DATABASES - 1),
    };
    reply.error("ERR", &text);
    ANSWERED
}

/// Reports and sets properties of a client. The request has a known subcommand, with the right number of arguments.
pub(crate) fn client<C>(client: &mut Client<C>, request: Request<'_>, reply: &mut ReplyEncoder<'_>) {
    let argument = |at: usize| request.get(at).unwrap_or_default();
    let outcome = match argument(1).to_ascii_uppercase().as_slice() {
        b"ID" => return reply.integer(id(client)),
        b"GETNAME" if client.name.is_empty() => return reply.null(),
        b"GETNAME" => return reply.bulk(&client.name),
        b"SETNAME" => set_name(client, argument(2)),
        // Library and version are for lists of clients, which this server lacks.
        _ if ["LIB-NAME", "LIB-VER"].iter().any(|option| is_called(argument(2), option)) => {
            if is_printable(argument(3)) {
                Ok(())
            } else {
                Err("a library's name and version cannot contain spaces, newlines or special characters"
                    .into())
            }
        }
        subcommand => {
            debug_assert_eq!(subcommand, b"SETINFO", "each other subcommand has an arm of its own");
            Err("CLIENT SETINFO takes LIB-NAME or LIB-VER".to_owned())
        }
    };
    match outcome {
        Ok(()) => reply.simple("OK"),
        Err(refusal) => reply.error("ERR", &refusal),
    }
}

/// Sets a client's name; an empty name is none.
///
/// # Errors
/// The text of a refusal.
fn set_name<C>(client: &mut Client<C>, name: &[u8]) -> Result<(), String> {
    if !is_printable(name) {
        return Err("Client names cannot contain spaces, newlines or special characters.".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("Client names have {NAME_BYTES_MAX} bytes at most"));
    }
    client.name = name.into();
    debug_assert!(client.name.len() <= NAME_BYTES_MAX, "W2: a name is bounded");
    Ok(())
}

/// True if every byte is a printable character of ASCII other than a space.
fn is_printable(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}
