//! Requests of users with prefixes: every key, every channel and every pattern begins with a prefix.
//!
//! Invariant: a command without keys is refused unless this file permits the command, so a command that is added later
//! shows no key of other users by accident.
//!
//! Neighbours: [`super::check`] asks; the table of commands has the keys.

use ensile_resp::Request;
use ensile_serving::RightsRefusal;
use ensile_serving::command::{CommandInfo, MoreKeys, Subcommand, is_called};

use super::user::User;

/// Permission of a command without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyless {
    /// The command shows and changes no keys.
    Harmless,
    /// The argument of this number is a pattern of keys or channels.
    Pattern(usize),
    /// The option `MATCH` is a pattern of keys.
    Match,
    /// The arguments from this number on are channels, up to the last of this count.
    Channels(usize, usize),
    /// The arguments are patterns of channels.
    ChannelPatterns,
}

use Keyless::{ChannelPatterns, Channels, Harmless, Match, Pattern};

/// Commands without keys that a user with prefixes may send, with the subcommand behind a bar.
const KEYLESS: [(&str, Keyless); 49] = [
    ("ACL|CAT", Harmless),
    ("ACL|HELP", Harmless),
    ("ACL|WHOAMI", Harmless),
    ("CLIENT|GETNAME", Harmless),
    ("CLIENT|GETREDIR", Harmless),
    ("CLIENT|HELP", Harmless),
    ("CLIENT|ID", Harmless),
    ("CLIENT|INFO", Harmless),
    ("CLIENT|NO-TOUCH", Harmless),
    ("CLIENT|REPLY", Harmless),
    ("CLIENT|SETINFO", Harmless),
    ("CLIENT|SETNAME", Harmless),
    ("COMMAND", Harmless),
    ("COMMAND|COUNT", Harmless),
    ("COMMAND|DOCS", Harmless),
    ("COMMAND|GETKEYS", Harmless),
    ("COMMAND|HELP", Harmless),
    ("COMMAND|INFO", Harmless),
    ("COMMAND|LIST", Harmless),
    ("CONFIG|HELP", Harmless),
    ("DISCARD", Harmless),
    ("ECHO", Harmless),
    ("EXEC", Harmless),
    // The section with the numbers of keys is left out.
    ("INFO", Harmless),
    ("LASTSAVE", Harmless),
    ("MEMORY|HELP", Harmless),
    ("MULTI", Harmless),
    ("OBJECT|HELP", Harmless),
    ("PING", Harmless),
    ("PUBSUB|HELP", Harmless),
    ("PUNSUBSCRIBE", Harmless),
    ("ROLE", Harmless),
    ("SCRIPT|EXISTS", Harmless),
    ("SCRIPT|HELP", Harmless),
    ("SCRIPT|LOAD", Harmless),
    ("SELECT", Harmless),
    ("SUNSUBSCRIBE", Harmless),
    ("TIME", Harmless),
    ("UNSUBSCRIBE", Harmless),
    ("UNWATCH", Harmless),
    ("WAITAOF", Harmless),
    ("XINFO|HELP", Harmless),
    ("KEYS", Pattern(1)),
    ("SCAN", Match),
    ("PUBLISH", Channels(1, 1)),
    ("SPUBLISH", Channels(1, 1)),
    ("SSUBSCRIBE", Channels(1, usize::MAX)),
    ("SUBSCRIBE", Channels(1, usize::MAX)),
    ("PSUBSCRIBE", ChannelPatterns),
];

/// Permission of a command without keys; `None` refuses the command.
fn keyless(command: &CommandInfo, subcommand: Option<&Subcommand>) -> Option<Keyless> {
    let is_of = |name: &str| match (name.split_once('|'), subcommand) {
        (Some((own, sub)), Some(subcommand)) => own == command.name && sub == subcommand.name,
        (None, None) => name == command.name,
        _ => false,
    };
    KEYLESS.iter().find(|(name, _)| is_of(name)).map(|(_, permission)| *permission)
}

/// True if a user with prefixes may send a command, whatever the arguments are.
#[cfg(feature = "simulation")]
pub(crate) fn is_harmless_command(name: &str) -> bool {
    KEYLESS.contains(&(name, Harmless))
}

/// Checks the keys of a request, or the permission of a command without keys.
pub(crate) fn check_bounds(
    user: &User,
    command: &CommandInfo,
    subcommand: Option<&Subcommand>,
    request: Request<'_>,
) -> Result<(), RightsRefusal> {
    if command.keys_of(request).any(|key| !user.has_key(key)) {
        return Err(RightsRefusal::Key);
    }
    let has_keys = command.keys.0 != 0
        || command.more_keys != MoreKeys::None
        || subcommand.is_some_and(|subcommand| subcommand.keys.0 != 0);
    if has_keys {
        return Ok(());
    }
    let argument = |at: usize| request.get(at).unwrap_or_default();
    match keyless(command, subcommand) {
        None => Err(RightsRefusal::Command),
        Some(Harmless) => Ok(()),
        Some(Pattern(at)) if user.has_pattern(argument(at)) => Ok(()),
        Some(Match) => {
            let options = (2..request.len()).step_by(2).filter(|at| is_called(argument(*at), "MATCH"));
            let (mut count, mut are_own) = (0, true);
            for at in options {
                (count, are_own) = (count + 1, are_own && user.has_pattern(argument(at + 1)));
            }
            if count > 0 && are_own { Ok(()) } else { Err(RightsRefusal::Pattern) }
        }
        Some(Pattern(_)) => Err(RightsRefusal::Pattern),
        Some(Channels(from, count))
            if request.iter().skip(from).take(count).all(|name| user.has_key(name)) =>
        {
            Ok(())
        }
        Some(ChannelPatterns) if request.iter().skip(1).all(|pattern| user.has_pattern(pattern)) => Ok(()),
        Some(Channels(..) | ChannelPatterns) => Err(RightsRefusal::Channel),
    }
}
