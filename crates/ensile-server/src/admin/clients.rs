//! `CLIENT`: the list of clients over all loops, and ends of connections.
//!
//! ```text
//! CLIENT LIST -> a letter to each loop -> each loop adds its clients -> the last one has the request called again
//! ```
//! Invariant: no loop waits for another loop. The request is set aside until all loops have answered (W18).
//!
//! Neighbours: the table of commands names the function; `served_program` hands letters over; `ensile-serving` has the
//! names of clients and `CLIENT UNBLOCK`.

use std::fmt::Write as _;
use std::sync::Arc;

use ensile_base::sync::Mutex;
use ensile_net::ConnectionEnds;
use ensile_resp::{Request, RespVersion, integer};
use ensile_serving::command::{Subcommand, is_called};
use ensile_serving::{
    ANSWERED, Client, LoopClients, NewReply, Outcome, ReplySilence, ServedClient, client_command,
};

use crate::channels::{Asker, ClientFilter, ClientSurvey, ClientType, Letter, SurveyAnswers};
use crate::commands::shown_text;
use crate::served_database::{ClientData, ServedCall, ServedDatabase};

/// Subcommands of `CLIENT`. Those that this server does not have are refused by name.
pub(crate) const SUBCOMMANDS: [Subcommand; 18] = [
    Subcommand::new("CACHING", 3),
    Subcommand::new("GETNAME", 2),
    Subcommand::new("GETREDIR", 2),
    Subcommand::new("HELP", 2),
    Subcommand::new("ID", 2),
    Subcommand::new("INFO", 2),
    Subcommand::new("KILL", -3).flags(ADMIN),
    Subcommand::new("LIST", -2).flags(ADMIN),
    Subcommand::new("NO-EVICT", 3).flags(ADMIN),
    Subcommand::new("NO-TOUCH", 3),
    Subcommand::new("PAUSE", -3).flags(ADMIN),
    Subcommand::new("REPLY", 3),
    Subcommand::new("SETINFO", 4),
    Subcommand::new("SETNAME", 3),
    Subcommand::new("TRACKING", -3),
    Subcommand::new("TRACKINGINFO", 2),
    Subcommand::new("UNBLOCK", -3).flags(ADMIN),
    Subcommand::new("UNPAUSE", 2).flags(ADMIN),
];

const ADMIN: &[&str] = &["admin"];

const HELP: [&str; 19] = [
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "ID",
    "INFO",
    "KILL <ip:port>",
    "KILL <option> <value> [<option> <value> [...]]",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "    * ID <client-id>",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "    * SKIPME (YES|NO)",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "    * USER <username>",
    "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <client-id> ...]",
    "REPLY (ON|OFF|SKIP)",
    "SETINFO <option> <value>",
    "SETNAME <name>",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "HELP",
    "    Prints this help.",
];

fn is_wanted(wanted: &ClientFilter, client: &Client<ClientData>) -> bool {
    wanted.numbers.as_ref().is_none_or(|numbers| numbers.contains(&client.number))
        && wanted.kind.is_none_or(|kind| kind == ClientType::of_client(client))
        && wanted.user.is_none_or(|user| user == client.own.user)
        && wanted.skipped != Some(client.number)
}

/// Both addresses of a client, as redis writes addresses.
struct ClientAddresses {
    peer: String,
    local: String,
}

/// Asks the system for the addresses of a client. A peer that has gone has redis' sign for an unknown address.
fn addresses_of(served: &ServedClient<'_, ClientData>) -> ClientAddresses {
    let (peer, local) = match (served.ends)() {
        Some(ConnectionEnds::Tcp { peer, local }) => (peer.to_string(), local.to_string()),
        Some(ConnectionEnds::Unix(path)) => {
            let shown = format!("{}:0", path.display());
            (shown.clone(), shown)
        }
        None => ("?:0".to_owned(), "?:0".to_owned()),
    };
    ClientAddresses { peer, local }
}

fn has_wanted_address(wanted: &ClientFilter, addresses: &ClientAddresses) -> bool {
    let is_wanted =
        |wanted: &Option<Vec<u8>>, has: &str| wanted.as_ref().is_none_or(|wanted| wanted == has.as_bytes());
    is_wanted(&wanted.address, &addresses.peer) && is_wanted(&wanted.local_address, &addresses.local)
}

/// Answers with the clients of a loop. The last loop has the request called again.
pub(crate) fn answer_survey(
    server: &ServedDatabase,
    survey: &ClientSurvey,
    clients: &mut dyn LoopClients<ClientData>,
) {
    let (mut lines, mut ended) = (Vec::new(), Vec::new());
    clients.visit(&mut |served| {
        if is_wanted(&survey.wanted, served.client) {
            let addresses = addresses_of(served);
            if !has_wanted_address(&survey.wanted, &addresses) {
                return;
            }
            lines.push((served.client.number, line_of(server, served, &addresses)));
            if survey.ends && served.client.number != survey.asker.number {
                ended.push(served.client.connection);
            }
        }
    });
    ended.into_iter().for_each(|connection| clients.close(connection));
    let mut answers = survey.answers.lock();
    debug_assert!(answers.left > 0, "each loop answers once");
    answers.lines.append(&mut lines);
    answers.left -= 1;
    if answers.left == 0 {
        survey.asker.mail.post(Letter::Resume(survey.asker.connection), 0);
    }
}

/// A client as `CLIENT LIST` shows the client, with the figures that this server has.
fn line_of(
    server: &ServedDatabase,
    served: &ServedClient<'_, ClientData>,
    addresses: &ClientAddresses,
) -> String {
    let client = served.client;
    let queued = served.queued.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX));
    let flags = match () {
        () if client.own.wait.is_some() => "b",
        () if client.is_listener => "P",
        () if queued >= 0 => "x",
        () => "N",
    };
    let [channels, patterns, shard_channels] = client.own.subscriptions.counts();
    let version = if client.version == RespVersion::Resp3 { 3 } else { 2 };
    let ClientAddresses { peer, local } = addresses;
    let mut line = format!("id={} addr={peer} laddr={local}", client.number);
    // A write to memory does not fail.
    let _ = write!(line, " name={}", String::from_utf8_lossy(&client.name));
    let _ = write!(line, " age={} flags={flags} db={}", served.age.as_secs(), client.database);
    let _ = write!(line, " sub={channels} psub={patterns} ssub={shard_channels} multi={queued}");
    let _ = write!(line, " omem={} tot-mem={}", served.unsent_bytes, served.memory_bytes);
    let _ = write!(line, " user={} resp={version}", server.users().get(client.own.user).name());
    line
}

/// `CLIENT subcommand ..`. The request has a known subcommand, with the right number of arguments.
pub(crate) fn client(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let argument = |at: usize| call.request.get(at).unwrap_or_default();
    let subcommand = argument(1).to_ascii_uppercase();
    let refused = match subcommand.as_slice() {
        b"GETNAME" | b"ID" | b"SETINFO" | b"SETNAME" | b"UNBLOCK" => return client_command(call, reply),
        b"HELP" => {
            reply.write(|reply| {
                reply.array(HELP.len());
                HELP.iter().for_each(|line| reply.simple(line));
            });
            return ANSWERED;
        }
        // No client tracks keys.
        b"GETREDIR" => {
            reply.write(|reply| reply.integer(-1));
            return ANSWERED;
        }
        // No command changes the time of a key's last access.
        b"NO-TOUCH" => {
            switch(argument(2)).map(|_| reply.write(|reply| reply.simple("OK"))).map(|()| ANSWERED)
        }
        b"LIST" | b"INFO" | b"KILL" | b"REPLY" if call.client.is_in_exec => {
            Err(format!("CLIENT {} is not available within MULTI", shown_text(&subcommand)))
        }
        b"REPLY" => set_silence(call.client, argument(2), reply),
        b"LIST" | b"INFO" | b"KILL" => return ask_loops(call, &subcommand, reply),
        _ => Err(format!("CLIENT {} is not available in this version of ensile", shown_text(&subcommand))),
    };
    refused.unwrap_or_else(|text| {
        reply.fail("ERR", &text);
        ANSWERED
    })
}

fn switch(word: &[u8]) -> Result<bool, String> {
    match () {
        () if is_called(word, "ON") => Ok(true),
        () if is_called(word, "OFF") => Ok(false),
        () => Err("syntax error".to_owned()),
    }
}

/// `CLIENT REPLY ON|OFF|SKIP`
fn set_silence(
    client: &mut Client<ClientData>,
    word: &[u8],
    reply: &mut NewReply<'_>,
) -> Result<Outcome, String> {
    client.silence = match word.to_ascii_uppercase().as_slice() {
        b"ON" => ReplySilence::None,
        b"OFF" => ReplySilence::All,
        b"SKIP" if client.silence == ReplySilence::All => ReplySilence::All,
        b"SKIP" => ReplySilence::ThisAndNext,
        _ => return Err("syntax error".to_owned()),
    };
    reply.write(|reply| reply.simple("OK"));
    Ok(ANSWERED)
}

/// Asks all loops for clients, and replies once all have answered.
fn ask_loops(call: ServedCall<'_>, subcommand: &[u8], reply: &mut NewReply<'_>) -> Outcome {
    let is_old_kill = call.request.len() == 3 && subcommand == b"KILL";
    let survey = match call.client.own.survey.take() {
        Some(survey) => survey,
        None => {
            let wanted = match wanted_by(&call, subcommand) {
                Ok(wanted) => wanted,
                Err(text) => {
                    reply.fail("ERR", &text);
                    return ANSWERED;
                }
            };
            let asker = Asker {
                number: call.client.number,
                connection: call.client.connection,
                mail: Arc::clone(&call.loop_state.mail),
            };
            let channels = call.server.service().channels();
            channels.post_all(|loops| {
                let answers = Mutex::new(SurveyAnswers { left: loops, lines: Vec::new() });
                Arc::new(ClientSurvey { wanted, ends: subcommand == b"KILL", asker, answers })
            })
        }
    };
    let mut answers = survey.answers.lock();
    if answers.left > 0 {
        drop(answers);
        call.client.own.survey = Some(survey);
        return Outcome::Wait { until_nanos: u64::MAX };
    }
    answers.lines.sort_unstable();
    if subcommand == b"KILL" {
        let count = answers.lines.len();
        match count {
            0 if is_old_kill => reply.fail("ERR", "No such client"),
            _ if is_old_kill => reply.write(|reply| reply.simple("OK")),
            _ => reply.write(|reply| reply.integer(i64::try_from(count).unwrap_or(i64::MAX))),
        }
        let is_own = answers.lines.iter().any(|(number, _)| *number == call.client.number);
        return if is_own { Outcome::ReplyAndClose } else { ANSWERED };
    }
    let text: String = answers.lines.iter().map(|(_, line)| format!("{line}\n")).collect();
    reply.write(|reply| reply.verbatim(*b"txt", text.as_bytes()));
    ANSWERED
}

/// The clients that a request means.
///
/// # Errors
/// The text of the refusal, in redis' words where redis has the error.
fn wanted_by(call: &ServedCall<'_>, subcommand: &[u8]) -> Result<ClientFilter, String> {
    let (own, request) = (call.client.number, call.request);
    match subcommand {
        b"INFO" => Ok(ClientFilter { numbers: Some(vec![own]), ..ClientFilter::default() }),
        b"LIST" => wanted_by_list(request),
        _ => wanted_by_kill(call.server.service(), own, request),
    }
}

fn kind_of(name: &[u8]) -> Result<ClientType, String> {
    ClientType::of_name(name).ok_or_else(|| format!("Unknown client type '{}'", shown_text(name)))
}

/// `CLIENT LIST [TYPE type | ID number ..]`
fn wanted_by_list(request: Request<'_>) -> Result<ClientFilter, String> {
    let argument = |at: usize| request.get(at).unwrap_or_default();
    match request.len() {
        2 => Ok(ClientFilter::default()),
        4 if is_called(argument(2), "TYPE") => {
            Ok(ClientFilter { kind: Some(kind_of(argument(3))?), ..ClientFilter::default() })
        }
        4.. if is_called(argument(2), "ID") => {
            let number = |text: &[u8]| integer(text).and_then(|number| u64::try_from(number).ok());
            let numbers =
                request.iter().skip(3).map(|text| number(text).ok_or("Invalid client ID".to_owned()));
            Ok(ClientFilter { numbers: Some(numbers.collect::<Result<_, _>>()?), ..ClientFilter::default() })
        }
        _ => Err("syntax error".to_owned()),
    }
}

/// `CLIENT KILL address` and `CLIENT KILL option value ..`
fn wanted_by_kill(server: &ServedDatabase, own: u64, request: Request<'_>) -> Result<ClientFilter, String> {
    let argument = |at: usize| request.get(at).unwrap_or_default();
    if request.len() == 3 {
        // The old form also ends the asking client.
        return Ok(ClientFilter { address: Some(argument(2).to_vec()), ..ClientFilter::default() });
    }
    if !request.len().is_multiple_of(2) {
        return Err("syntax error".to_owned());
    }
    let mut wanted = ClientFilter { skipped: Some(own), ..ClientFilter::default() };
    for at in (2..request.len()).step_by(2) {
        let value = argument(at + 1);
        match argument(at).to_ascii_uppercase().as_slice() {
            b"ID" => {
                let number = integer(value).and_then(|number| u64::try_from(number).ok());
                let number = number.filter(|number| *number > 0);
                wanted.numbers = Some(vec![number.ok_or("client-id should be greater than 0")?]);
            }
            b"TYPE" => wanted.kind = Some(kind_of(value)?),
            b"USER" => {
                let user = server.users().number_of(value);
                wanted.user = Some(user.ok_or_else(|| format!("No such user '{}'", shown_text(value)))?);
            }
            b"SKIPME" if is_called(value, "YES") => wanted.skipped = Some(own),
            b"SKIPME" if is_called(value, "NO") => wanted.skipped = None,
            b"ADDR" => wanted.address = Some(value.to_vec()),
            b"LADDR" => wanted.local_address = Some(value.to_vec()),
            _ => return Err("syntax error".to_owned()),
        }
    }
    Ok(wanted)
}
