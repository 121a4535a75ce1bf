//! Commands of operators, parameters, and the figures of `INFO`.
//!
//! Neighbours: `ensile-serving` asks for parameters and figures; [`crate::served_database`] has the settings.

pub(crate) mod acl;
pub(crate) mod clients;
mod info;
pub(crate) mod saves;
pub(crate) mod slow_log;

use ensile_resp::{Request, integer};
use ensile_serving::command::is_called;
use ensile_serving::{ANSWERED, NewReply, Outcome, glob};

pub(crate) use info::{REDIS_VERSION, write_commands, write_info};

use crate::access::PASSWORD_BYTES_MAX;
use crate::appendfsync::Appendfsync;
use crate::commands::{CommandError, PATTERN_BYTES_MAX, shown_text};
use crate::publish;
use crate::served_database::{ServedCall, ServedDatabase};
use crate::slow_log::SLOW_REQUESTS_MAX;

/// `TIME`: seconds since 1970, and microseconds.
pub(crate) fn time(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let millis = call.server.service().now_millis();
    reply.write(|reply| {
        reply.array(2);
        reply.bulk((millis / 1000).to_string().as_bytes());
        reply.bulk((millis % 1000 * 1000).to_string().as_bytes());
    });
    ANSWERED
}

/// `RESET`: the connection is as new, without a user, a queue, watched keys or a name.
pub(crate) fn reset(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    publish::forget_all(call.loop_state, call.client);
    call.client.reset();
    reply.write(|reply| reply.simple("RESET"));
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
    let seconds = i64::try_from(call.server.service().observed().saved_seconds()).unwrap_or(i64::MAX);
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
pub(crate) fn refuse_missing(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let name = shown_text(call.request.get(0).unwrap_or_default()).to_ascii_uppercase();
    reply.fail("ERR", &format!("{name} is not available in this version of ensile"));
    ANSWERED
}

/// Parameters in redis' words, beside the parameters of every server.
pub(crate) fn parameters(server: &ServedDatabase) -> Vec<(&'static str, String)> {
    let yes_or_no = |is: bool| if is { "yes" } else { "no" };
    let memory = server.db().stats().memory.bytes_max.unwrap_or(0).to_string();
    let slower_than = server.slow_log().slower_than().to_string();
    let slow_max = server.slow_log().entries_max().to_string();
    let times = server.script_times().now();
    let threshold = times.busy_millis.to_string();
    let script_limit = times.millis_max.to_string();
    [
        ("maxmemory", memory.as_str()),
        ("appendonly", yes_or_no(server.has_log())),
        ("appendfsync", server.appendfsync().name()),
        ("save", ""),
        ("busy-reply-threshold", threshold.as_str()),
        ("lua-time-limit", threshold.as_str()),
        ("script-time-limit", script_limit.as_str()),
        ("slowlog-log-slower-than", slower_than.as_str()),
        ("slowlog-max-len", slow_max.as_str()),
        ("multi-rollback", yes_or_no(server.rolls_back())),
        ("requirepass", if server.has_password() { "(hidden)" } else { "" }),
        ("maxmemory-policy", "noeviction"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}

/// `CONFIG GET pattern ..`, `CONFIG SET name value ..`. The request has a known subcommand, with the right number of
/// arguments.
pub(crate) fn config(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let request = call.request;
    let argument = |at: usize| request.get(at).unwrap_or_default();
    if is_called(argument(1), "GET") {
        if let Some(pattern) = request.iter().skip(2).find(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
            let error = CommandError::LongPattern { bytes: pattern.len() };
            reply.fail(error.code(), &error.text());
            return ANSWERED;
        }
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
    if is_called(argument(1), "SET") && request.len().is_multiple_of(2) {
        let server = call.server.service();
        let settings: Result<Vec<Setting<'_>>, String> = settings_of(request)
            .and_then(|settings| settings.into_iter().map(|setting| setting.check(server)).collect());
        match settings {
            Ok(settings) => {
                for setting in settings {
                    // The client knows the password, and goes on.
                    call.client.own.is_authenticated |=
                        matches!(setting, Setting::Password(password) if !password.is_empty());
                    setting.apply(server);
                }
                reply.write(|reply| reply.simple("OK"));
            }
            Err(text) => reply.fail("ERR", &text),
        }
        return ANSWERED;
    }
    let text = match argument(1).to_ascii_uppercase().as_slice() {
        b"HELP" => {
            let lines = ["CONFIG <subcommand> <arg>. Subcommands are:", "GET", "SET", "HELP"];
            reply.write(|reply| {
                reply.array(lines.len());
                lines.iter().for_each(|line| reply.simple(line));
            });
            return ANSWERED;
        }
        b"SET" => "syntax error".to_owned(),
        subcommand => {
            let name = shown_text(subcommand);
            format!("CONFIG {name} is not available in this version of ensile")
        }
    };
    reply.fail("ERR", &text);
    ANSWERED
}

/// The parameters of `CONFIG SET`, each with its value. A parameter comes once.
fn settings_of(request: Request<'_>) -> Result<Vec<Setting<'_>>, String> {
    let argument = |at: usize| request.get(at).unwrap_or_default();
    let names = (2..request.len()).step_by(2);
    // All names come before the first value, as in redis.
    for name in names.clone() {
        if !Setting::is_known(argument(name)) {
            return Err(format!(
                "Unknown option or number of arguments for CONFIG SET - '{}': {} can be set",
                shown_text(argument(name)),
                Setting::NAMES.join(", ")
            ));
        }
        if names
            .clone()
            .any(|earlier| earlier < name && argument(earlier).eq_ignore_ascii_case(argument(name)))
        {
            return Err(format!(
                "CONFIG SET failed (possibly related to argument '{}') - duplicate parameter",
                shown_text(argument(name))
            ));
        }
    }
    names.map(|name| Setting::new(argument(name), argument(name + 1))).collect()
}

/// A parameter that `CONFIG SET` changes.
enum Setting<'r> {
    Appendfsync(Appendfsync),
    MultiRollback(bool),
    /// Time of a script in milliseconds from which other clients get `BUSY`.
    BusyMillis(u64),
    /// Longest time of a script in milliseconds.
    ScriptMillis(u64),
    Password(&'r [u8]),
    /// Time in microseconds from which a request is slow; negative for no request.
    SlowerThan(i64),
    /// Number of slow requests that are kept.
    SlowMax(u64),
}

impl<'r> Setting<'r> {
    const NAMES: [&'static str; 8] = [
        "appendfsync",
        "busy-reply-threshold",
        "lua-time-limit",
        "multi-rollback",
        "requirepass",
        "script-time-limit",
        "slowlog-log-slower-than",
        "slowlog-max-len",
    ];

    /// True if a parameter of this name can be set.
    fn is_known(name: &[u8]) -> bool {
        Self::NAMES.iter().any(|known| is_called(name, known))
    }

    /// The setting of a known parameter.
    fn new(name: &[u8], value: &'r [u8]) -> Result<Self, String> {
        let refused = |values: &str| {
            let name = shown_text(name).to_ascii_lowercase();
            format!("CONFIG SET failed (possibly related to argument '{name}') - {values}")
        };
        if is_called(name, "appendfsync") {
            let value = std::str::from_utf8(value).ok().and_then(Appendfsync::from_name);
            return value
                .map(Self::Appendfsync)
                .ok_or_else(|| refused("argument(s) must be one of the following: everysec, always, no"));
        }
        let is_limit = is_called(name, "script-time-limit");
        if is_limit || is_called(name, "busy-reply-threshold") || is_called(name, "lua-time-limit") {
            let millis = ensile_resp::integer(value).and_then(|millis| u64::try_from(millis).ok());
            return millis
                .filter(|millis| *millis > 0)
                .map(if is_limit { Self::ScriptMillis } else { Self::BusyMillis })
                .ok_or_else(|| refused("argument must be a positive number of milliseconds"));
        }
        if is_called(name, "slowlog-log-slower-than") || is_called(name, "slowlog-max-len") {
            let number =
                integer(value).ok_or_else(|| refused("argument couldn't be parsed into an integer"))?;
            let (least, most, is_time) = match is_called(name, "slowlog-max-len") {
                true => (0, SLOW_REQUESTS_MAX as i64, false),
                false => (-1, i64::MAX, true),
            };
            if number < least || number > most {
                return Err(refused(&format!("argument must be between {least} and {most} inclusive")));
            }
            return Ok(if is_time { Self::SlowerThan(number) } else { Self::SlowMax(number.unsigned_abs()) });
        }
        if is_called(name, "multi-rollback") {
            return match value.to_ascii_lowercase().as_slice() {
                b"yes" => Ok(Self::MultiRollback(true)),
                b"no" => Ok(Self::MultiRollback(false)),
                _ => Err(refused("argument must be 'yes' or 'no'")),
            };
        }
        debug_assert!(is_called(name, "requirepass"), "each other known parameter has its branch");
        Ok(Self::Password(value))
    }

    /// Refuses a setting that this server does not allow.
    fn check(self, server: &ServedDatabase) -> Result<Self, String> {
        match self {
            Self::Password(b"") if server.keeps_password() => Err(
                "CONFIG SET failed (possibly related to argument 'requirepass') - other machines reach this server, so the \
                 password can be changed and not removed"
                    .to_owned(),
            ),
            Self::Password(password) if password.len() > PASSWORD_BYTES_MAX => Err(format!(
                "CONFIG SET failed (possibly related to argument 'requirepass') - the password has {PASSWORD_BYTES_MAX} bytes \
                 at most, as a client gives it in one argument"
            )),
            setting => Ok(setting),
        }
    }

    fn apply(self, server: &ServedDatabase) {
        match self {
            Self::Appendfsync(appendfsync) => server.set_appendfsync(appendfsync),
            Self::MultiRollback(rolls_back) => server.set_rolls_back(rolls_back),
            Self::BusyMillis(millis) => server.script_times().set_busy_millis(millis),
            Self::ScriptMillis(millis) => server.script_times().set_millis_max(millis),
            Self::SlowerThan(micros) => server.slow_log().set_slower_than(micros),
            Self::SlowMax(entries) => server.slow_log().set_entries_max(entries),
            Self::Password(password) => server.set_password(password),
        }
    }
}
