//! Commands on the connection and the server.
//!
//! Neighbours: `command_table` puts all commands together.

use super::entry::{ADMIN, ALL, CONNECTION, NO_KEYS, at_once, server, with_subcommands};
use crate::admin::{acl, clients, saves, slow_log};
use crate::command::Command;
use crate::command::CommandFunction::Server;
use crate::{admin, execution};
use ensile_serving::command::Subcommand;

pub(super) const COMMANDS: &[Command] = &[
    at_once("WATCH", -2, CONNECTION, ALL, Server(execution::watch), "Makes the next EXEC rest on keys"),
    server("UNWATCH", 1, CONNECTION, Server(execution::unwatch), "Forgets watched keys"),
    at_once("RESET", 1, CONNECTION, NO_KEYS, Server(admin::reset), "Makes the connection as new"),
    server("TIME", 1, &["fast"], Server(admin::time), "Tells the server's time"),
    server(
        "ROLE",
        1,
        &["fast"],
        Server(admin::role),
        "Tells the role in replication: master, without replicas",
    ),
    server("LASTSAVE", 1, &["fast"], Server(admin::last_save), "Tells the time of the last checkpoint"),
    server(
        "BGREWRITEAOF",
        1,
        ADMIN,
        Server(admin::begin_checkpoint),
        "Begins a checkpoint, which shortens the log",
    )
    .refused_while_queueing(),
    server("SAVE", 1, ADMIN, Server(saves::save), "Makes a checkpoint").refused_while_queueing(),
    server(
        "WAITAOF",
        4,
        &["noscript"],
        Server(saves::wait_for_log),
        "Waits until the client's changes are on disk: numlocal 1, numreplicas 0, timeout",
    )
    .refused_while_queueing(),
    with_subcommands(
        "SLOWLOG",
        ADMIN,
        &slow_log::SUBCOMMANDS,
        Server(slow_log::slow_log),
        "Tells slow requests: GET, LEN, RESET",
    ),
    with_subcommands(
        "ACL",
        &["noscript"],
        &acl::SUBCOMMANDS,
        Server(acl::acl),
        "Tells users and their rights: CAT, GETUSER, LIST, USERS, WHOAMI",
    ),
    with_subcommands(
        "CLIENT",
        &["noscript"],
        &clients::SUBCOMMANDS,
        Server(clients::client),
        "Tells, names and ends clients: ID, GETNAME, INFO, KILL, LIST, REPLY, SETNAME, SETINFO, UNBLOCK",
    ),
    with_subcommands("CONFIG", ADMIN, &CONFIG, Server(admin::config), "Tells and sets parameters: GET, SET"),
];

const CONFIG: [Subcommand; 5] = [
    Subcommand::new("GET", -3),
    Subcommand::new("SET", -4),
    Subcommand::new("RESETSTAT", 2),
    Subcommand::new("REWRITE", 2),
    Subcommand::new("HELP", 2),
];
