//! The commands that a client sends at the start of a connection: `HELLO`, `AUTH`, `SELECT`, `CLIENT`.
//!
//! Invariant: the refusal of a user or a database ends the connection. The later requests of the connection are for the
//! refused user or database, so no such request is carried out.
//!
//! Neighbours: [`super::common_commands`] calls; [`super::client_state::ClientState`] has the version and the name.

use ensile_resp::{ReplyEncoder, Request, RespVersion};

use super::client_state::ClientState;
use super::figures::VERSION;
use super::flow::{ANSWERED, Flow};
use crate::service::{Service, is_called};

/// Longest name of a client in bytes.
const NAME_BYTES_MAX: usize = 1024;

/// Sets version and name, and replies the server's identity.
pub(super) fn hello<S: Service>(
    client: &mut ClientState,
    request: Request<'_>,
    reply: &mut ReplyEncoder<'_>,
) -> Flow {
    let version = match request.get(1) {
        None => client.version,
        Some(b"2") => RespVersion::Resp2,
        Some(b"3") => RespVersion::Resp3,
        Some(_) => {
            reply.error("NOPROTO", "unsupported protocol version");
            return ANSWERED;
        }
    };
    let (mut at, mut name) = (2, None);
    while let Some(option) = request.get(at) {
        if is_called(option, "AUTH") {
            return auth(reply);
        }
        name = request.get(at + 1).filter(|_| is_called(option, "SETNAME"));
        if name.is_none() {
            let option = String::from_utf8_lossy(&option[..option.len().min(128)]);
            reply.error("ERR", &format!("Syntax error in HELLO option '{option}'"));
            return ANSWERED;
        }
        at += 2;
    }
    if let Some(Err(refusal)) = name.map(|name| set_name(client, name)) {
        reply.error("ERR", &refusal);
        return ANSWERED;
    }
    client.version = version;
    reply.set_version(version);
    tell_identity::<S>(client, reply);
    ANSWERED
}

fn tell_identity<S: Service>(client: &ClientState, reply: &mut ReplyEncoder<'_>) {
    reply.map(7);
    for (name, value) in
        [("server", S::NAME), ("version", VERSION), ("mode", "standalone"), ("role", "master")]
    {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    let proto = if client.version == RespVersion::Resp3 { 3 } else { 2 };
    for (name, value) in [("proto", proto), ("id", id(client))] {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    }
    reply.bulk(b"modules");
    reply.array(0);
}

fn id(client: &ClientState) -> i64 {
    i64::try_from(client.number).unwrap_or(i64::MAX)
}

/// Refuses a user: a client with a password would take a server without passwords for a safe server.
pub(super) fn auth(reply: &mut ReplyEncoder<'_>) -> Flow {
    reply.error("ERR", "AUTH is refused: this server has no users and no passwords; connect without them");
    Flow::ReplyAndClose
}

/// True if a `SELECT` names the database.
pub(super) fn is_the_database(request: Request<'_>) -> bool {
    request.get(1) == Some(b"0")
}

/// Takes database 0, and refuses other databases.
pub(super) fn select(request: Request<'_>, reply: &mut ReplyEncoder<'_>) -> Flow {
    if is_the_database(request) {
        reply.simple("OK");
        return ANSWERED;
    }
    reply.error("ERR", "DB index is out of range: this server has database 0 alone");
    Flow::ReplyAndClose
}

/// Reports and sets properties of a client. The request has a known subcommand, with the right number of arguments.
pub(super) fn client(client: &mut ClientState, request: Request<'_>, reply: &mut ReplyEncoder<'_>) {
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
fn set_name(client: &mut ClientState, name: &[u8]) -> Result<(), String> {
    if !is_printable(name) {
        return Err("Client names cannot contain spaces, newlines or special characters.".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("Client names have {NAME_BYTES_MAX} bytes at most"));
    }
    client.name = name.into();
    Ok(())
}

/// True if every byte is a printable character of ASCII other than a space.
fn is_printable(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}
