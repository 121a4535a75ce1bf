//! `SLOWLOG`: tells the log of slow requests.
//!
//! Neighbours: the table of commands names the function; [`crate::slow_log`] has the log.

use ensile_resp::{Request, integer};
use ensile_serving::command::Subcommand;
use ensile_serving::{ANSWERED, NewReply, Outcome};

use crate::served_database::ServedCall;
use crate::slow_log::SlowLog;

/// Subcommands of `SLOWLOG`.
pub(crate) const SUBCOMMANDS: [Subcommand; 4] = [
    Subcommand::new("GET", -2),
    Subcommand::new("HELP", 2),
    Subcommand::new("LEN", 2),
    Subcommand::new("RESET", 2),
];

const HELP: [&str; 12] = [
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
    "HELP",
    "    Prints this help.",
];

/// Number of entries that `SLOWLOG GET` replies without a number.
const SHOWN_ENTRIES: usize = 10;

/// `SLOWLOG GET [count]`, `LEN`, `RESET`, `HELP`. The request has a known subcommand, with the right number of
/// arguments.
pub(crate) fn slow_log(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let log = call.server.service().slow_log();
    let subcommand = call.request.get(1).unwrap_or_default().to_ascii_uppercase();
    match subcommand.as_slice() {
        b"LEN" => {
            let length = i64::try_from(log.len()).unwrap_or(i64::MAX);
            reply.write(|reply| reply.integer(length));
        }
        b"RESET" => {
            log.clear();
            reply.write(|reply| reply.simple("OK"));
        }
        b"GET" => match shown_count(call.request) {
            Ok(count) => tell(log, count, reply),
            Err(text) => reply.fail("ERR", text),
        },
        _ => reply.write(|reply| {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        }),
    }
    ANSWERED
}

/// Number of entries that a `SLOWLOG GET` asks for.
fn shown_count(request: Request<'_>) -> Result<usize, &'static str> {
    match (request.len(), request.get(2)) {
        (2, _) => Ok(SHOWN_ENTRIES),
        (3, Some(text)) => match integer(text) {
            Some(-1) => Ok(usize::MAX),
            Some(count) => usize::try_from(count).map_err(|_| "count should be greater than or equal to -1"),
            None => Err("count should be greater than or equal to -1"),
        },
        _ => Err("unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP."),
    }
}

fn tell(log: &SlowLog, count: usize, reply: &mut NewReply<'_>) {
    log.visit(count, |length, requests| {
        reply.write(|reply| {
            reply.array(length);
            for slow in requests {
                reply.array(6);
                reply.integer(slow.number);
                reply.integer(slow.seconds);
                reply.integer(slow.micros);
                reply.array(slow.arguments.len());
                slow.arguments.iter().for_each(|argument| reply.bulk(argument));
                // The address of the client is not known.
                reply.bulk(b"");
                reply.bulk(&slow.client_name);
            }
        });
    });
}
