//! `ACL`: tells users, their rights, and the groups of commands. Clients change no user.
//!
//! Neighbours: the table of commands names the function; [`crate::access`] has the users.

use ensile_resp::ReplyEncoder;
use ensile_serving::command::{CommandInfo, Subcommand};
use ensile_serving::{ANSWERED, NewReply, Outcome, all_commands};

use crate::access::User;
use crate::access::groups::{CommandGroup, GROUPS};
use crate::commands::shown_text;
use crate::served_database::{ServedCall, ServedDatabase};

/// Subcommands of `ACL`. Those that change users are refused by name.
pub(crate) const SUBCOMMANDS: [Subcommand; 13] = [
    Subcommand::new("CAT", -2),
    Subcommand::new("DELUSER", -3).flags(ADMIN),
    Subcommand::new("DRYRUN", -4).flags(ADMIN),
    Subcommand::new("GENPASS", -2),
    Subcommand::new("GETUSER", 3).flags(ADMIN),
    Subcommand::new("HELP", 2),
    Subcommand::new("LIST", 2).flags(ADMIN),
    Subcommand::new("LOAD", 2).flags(ADMIN),
    Subcommand::new("LOG", -2).flags(ADMIN),
    Subcommand::new("SAVE", 2).flags(ADMIN),
    Subcommand::new("SETUSER", -3).flags(ADMIN),
    Subcommand::new("USERS", 2).flags(ADMIN),
    Subcommand::new("WHOAMI", 2),
];

const ADMIN: &[&str] = &["admin"];

const HELP: [&str; 13] = [
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "GETUSER <username>",
    "    Get the user's details.",
    "LIST",
    "    Show users details in config file format.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
];

/// `ACL CAT|GETUSER|HELP|LIST|USERS|WHOAMI`. The request has a known subcommand, with the right number of arguments.
pub(crate) fn acl(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let server = call.server.service();
    let users = server.users();
    let argument = |at: usize| call.request.get(at).unwrap_or_default();
    let own = users.get(call.client.own.user);
    let has_password = server.has_password();
    match argument(1).to_ascii_uppercase().as_slice() {
        b"WHOAMI" => reply.write(|reply| reply.bulk(own.name().as_bytes())),
        b"USERS" => reply.write(|reply| {
            let mut names: Vec<&str> = users.iter().map(User::name).collect();
            names.sort_unstable();
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }),
        b"LIST" => reply.write(|reply| {
            let mut lines: Vec<String> =
                users.iter().map(|user| line_of(user, has_password && user.is_default())).collect();
            lines.sort_unstable();
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.bulk(line.as_bytes()));
        }),
        b"GETUSER" => match users.iter().find(|user| user.name().as_bytes() == argument(2)) {
            Some(user) => reply.write(|reply| tell_user(user, has_password && user.is_default(), reply)),
            None => reply.write(|reply| reply.null()),
        },
        b"CAT" if call.request.len() == 2 => reply.write(|reply| {
            reply.array(GROUPS.len());
            GROUPS.iter().for_each(|group| reply.bulk(group.name.as_bytes()));
        }),
        b"CAT" if call.request.len() == 3 => tell_group(argument(2), reply),
        b"HELP" => reply.write(|reply| {
            reply.array(HELP.len() + 1);
            HELP.iter().for_each(|line| reply.simple(line));
            reply.simple("    Prints this help.");
        }),
        b"CAT" => {
            reply.fail("ERR", "unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.")
        }
        subcommand => {
            let name = shown_text(subcommand);
            let text = format!(
                "ACL {name} is not available in this version of ensile: users are in the configuration, and a start reads them"
            );
            reply.fail("ERR", &text);
        }
    }
    ANSWERED
}

/// A user as a line of the configuration. Hashes are not shown.
fn line_of(user: &User, has_requirepass: bool) -> String {
    let mut line = format!("user {}", user.name());
    let password = (user.password().is_some() || has_requirepass).then_some("#(hidden)");
    let keys = user.shown_keys();
    let words = user.shown_flags(has_requirepass).into_iter().chain(password).chain([keys.as_str()]);
    for word in words.filter(|word| !word.is_empty()) {
        line.push(' ');
        line.push_str(word);
    }
    line.push(' ');
    line.push_str(&user.shown_commands());
    line
}

fn tell_user(user: &User, has_requirepass: bool, reply: &mut ReplyEncoder<'_>) {
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.shown_flags(has_requirepass);
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let has_password = user.password().is_some() || has_requirepass;
    reply.array(usize::from(has_password));
    if has_password {
        reply.bulk(b"(hidden)");
    }
    let texts = [("commands", user.shown_commands()), ("keys", user.shown_keys())];
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    reply.bulk(b"channels");
    reply.bulk(user.shown_keys().replace('~', "&").as_bytes());
    reply.bulk(b"selectors");
    reply.array(0);
}

/// Replies the commands of a group, with their subcommands.
fn tell_group(name: &[u8], reply: &mut NewReply<'_>) {
    let group =
        std::str::from_utf8(name).ok().and_then(|name| CommandGroup::find(&name.to_ascii_lowercase()));
    let Some(group) = group else {
        return reply.fail("ERR", &format!("Unknown category '{}'", shown_text(name)));
    };
    let names: Vec<String> =
        all_commands::<ServedDatabase>().flat_map(|info| names_in(group, info)).collect();
    reply.write(|reply| {
        reply.array(names.len());
        names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    });
}

fn names_in(group: &CommandGroup, info: &'static CommandInfo) -> Vec<String> {
    let name = info.name.to_ascii_lowercase();
    if info.subcommands.is_empty() {
        return if group.has(info, None) { vec![name] } else { Vec::new() };
    }
    let within = info.subcommands.iter().filter(|subcommand| group.has(info, Some(subcommand)));
    within.map(|subcommand| format!("{name}|{}", subcommand.name.to_ascii_lowercase())).collect()
}
