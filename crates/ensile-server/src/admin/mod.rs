//! Commands of operators, parameters, and the figures of `INFO`.
//!
//! Neighbours: `ensile-serving` asks for parameters and figures; [`crate::served_database::ServedDatabase`] has the settings.

mod info;
mod save_time;

use ensile::Database;
use ensile::stats::Health;
use ensile_base::clock::unix_millis;
use ensile_serving::command::is_called;
use ensile_serving::{ANSWERED, LogState};
use ensile_serving::{NewReply, Outcome, glob};

pub(crate) use info::write_info;
pub(crate) use save_time::SaveTime;

use crate::served_database::{ServedCall, ServedDatabase};
use crate::server::Appendfsync;

/// State of the log of a database.
pub(crate) fn log_state(db: &Database) -> LogState {
    match db.health().log {
        None | Some(Health::Running) => LogState::Running,
        Some(Health::Full(why)) => LogState::Full(why),
        Some(Health::EpochsEnded(why)) => LogState::EpochsEnded(why),
        Some(Health::Poisoned(why)) => LogState::Poisoned(why),
        Some(Health::Removed(why)) => LogState::Removed(why),
        // The server has closed the database itself, or this process is a fork.
        Some(_) => LogState::Closed,
    }
}

/// `TIME`: seconds since 1970, and microseconds.
pub(crate) fn time(_: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let millis = unix_millis();
    reply.write(|reply| {
        reply.array(2);
        reply.bulk((millis / 1000).to_string().as_bytes());
        reply.bulk((millis % 1000 * 1000).to_string().as_bytes());
    });
    ANSWERED
}

/// `ROLE`
pub(crate) fn role(_: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    reply.write(|reply| {
        reply.array(3);
        reply.bulk(b"master");
        reply.integer(0);
        reply.array(0);
    });
    ANSWERED
}

/// `LASTSAVE`: time of the last checkpoint in seconds since 1970; of the start without a checkpoint since.
pub(crate) fn last_save(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let server = call.server.service();
    server.save_time().look(server.db());
    let seconds = i64::try_from(server.save_time().seconds()).unwrap_or(i64::MAX);
    reply.write(|reply| reply.integer(seconds));
    ANSWERED
}

/// `BGREWRITEAOF`: a checkpoint, behind which the log begins anew.
pub(crate) fn begin_checkpoint(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    match call.server.service().db().checkpoint() {
        Ok(_) => reply.write(|reply| reply.simple("Background append only file rewriting started")),
        Err(error) => reply.fail("ERR", &error.to_string()),
    }
    ANSWERED
}

/// A command of redis that this server does not have.
pub(crate) fn missing(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let name = String::from_utf8_lossy(call.request.get(0).unwrap_or_default()).to_ascii_uppercase();
    reply.fail("ERR", &format!("{name} is not available in this version of ensile"));
    ANSWERED
}

/// Parameters in redis' words, beside the parameters of every server.
pub(crate) fn parameters(server: &ServedDatabase) -> Vec<(&'static str, String)> {
    let yes_or_no = |is: bool| if is { "yes" } else { "no" };
    [
        ("appendonly", yes_or_no(server.has_log())),
        ("appendfsync", server.appendfsync().name()),
        ("save", ""),
        ("multi-rollback", yes_or_no(server.rolls_back())),
        ("requirepass", if server.has_password() { "(hidden)" } else { "" }),
        ("maxmemory-policy", "noeviction"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}

/// `CONFIG GET pattern ..`, `CONFIG SET name value ..`
pub(crate) fn config(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let request = call.request;
    let argument = |at: usize| request.get(at).unwrap_or_default();
    if is_called(argument(1), "GET") && request.len() > 2 {
        let parameters = call.server.parameters();
        let is_asked = |name: &str| {
            request
                .iter()
                .skip(2)
                .any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
        };
        let shown: Vec<_> = parameters.iter().filter(|(name, _)| is_asked(name)).collect();
        reply.write(|reply| {
            reply.map(shown.len());
            for (name, value) in &shown {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        });
        return ANSWERED;
    }
    if is_called(argument(1), "SET") && request.len() > 3 && request.len().is_multiple_of(2) {
        let server = call.server.service();
        let settings: Result<Vec<Setting<'_>>, String> = (2..request.len())
            .step_by(2)
            .map(|at| Setting::new(argument(at), argument(at + 1))?.check(server))
            .collect();
        match settings {
            Ok(settings) => {
                settings.into_iter().for_each(|setting| setting.apply(server));
                reply.write(|reply| reply.simple("OK"));
            }
            Err(text) => reply.fail("ERR", &text),
        }
        return ANSWERED;
    }
    let text = match argument(1).to_ascii_uppercase().as_slice() {
        b"GET" | b"SET" => format!(
            "wrong number of arguments for 'config|{}' command",
            String::from_utf8_lossy(argument(1)).to_ascii_lowercase()
        ),
        b"RESETSTAT" | b"REWRITE" => format!(
            "CONFIG {} is not available in this version of ensile",
            String::from_utf8_lossy(argument(1)).to_ascii_uppercase()
        ),
        _ => "unknown subcommand of CONFIG: GET and SET exist".to_owned(),
    };
    reply.fail("ERR", &text);
    ANSWERED
}

/// A parameter that `CONFIG SET` changes.
enum Setting<'r> {
    Appendfsync(Appendfsync),
    MultiRollback(bool),
    Password(&'r [u8]),
}

impl<'r> Setting<'r> {
    fn new(name: &[u8], value: &'r [u8]) -> Result<Self, String> {
        let shown = || String::from_utf8_lossy(name).into_owned();
        let refused = |values: &str| {
            format!(
                "CONFIG SET failed (possibly related to argument '{}') - argument must be {values}",
                shown()
            )
        };
        if is_called(name, "appendfsync") {
            let value = std::str::from_utf8(value).ok().and_then(Appendfsync::from_name);
            return value.map(Self::Appendfsync).ok_or_else(|| refused("always, everysec or no"));
        }
        if is_called(name, "multi-rollback") {
            return match value {
                b"yes" => Ok(Self::MultiRollback(true)),
                b"no" => Ok(Self::MultiRollback(false)),
                _ => Err(refused("yes or no")),
            };
        }
        if is_called(name, "requirepass") {
            return Ok(Self::Password(value));
        }
        Err(format!(
            "Unknown option or number of arguments for CONFIG SET - '{}': appendfsync, multi-rollback and requirepass can be set",
            shown()
        ))
    }

    /// Refuses a setting that this server does not allow.
    fn check(self, server: &ServedDatabase) -> Result<Self, String> {
        match self {
            Self::Password(b"") if server.keeps_password() => Err(
                "CONFIG SET failed (possibly related to argument 'requirepass') - other machines reach this server, so the \
                 password can be changed and not removed"
                    .to_owned(),
            ),
            setting => Ok(setting),
        }
    }

    fn apply(self, server: &ServedDatabase) {
        match self {
            Self::Appendfsync(appendfsync) => server.set_appendfsync(appendfsync),
            Self::MultiRollback(rolls_back) => server.set_rolls_back(rolls_back),
            Self::Password(password) => server.set_password(password),
        }
    }
}
