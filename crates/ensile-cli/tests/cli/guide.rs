//! The table of commands in the guide for users of redis, compared with the server's own table.
//!
//! `ENSILE_REWRITE=1 cargo test -p ensile-cli --test cli guide` writes the table anew.
//!
//! Neighbours: `serve` has the server; `docs/guide/redis.md` has the table.

use std::fmt::Write as _;
use std::path::PathBuf;

use ensile_resp::Reply;

use crate::outside::Folder;
use crate::serve::connect;
use crate::server::Server;

const BEGIN: &str = "<!-- commands: a test compares this part with the server -->\n";
const END: &str = "<!-- end of commands -->\n";

/// Beginning of the summary of a command that the server refuses by its name.
const REFUSED: &str = "Is refused: this server does not have";
/// Widest line of the guide.
const COLUMNS: usize = 120;

/// A command with its summary.
struct CommandSummary {
    name: String,
    summary: String,
}

fn text(reply: Reply<'_>) -> String {
    match reply {
        Reply::Bulk(bytes) | Reply::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("no text: {other:?}"),
    }
}

/// The commands of a server, by name.
fn commands(server: &Server) -> Vec<CommandSummary> {
    let mut client = connect(server);
    client.request(&["COMMAND", "DOCS"]);
    let read = |reply: Reply<'_>| {
        let Reply::Array(mut parts) = reply else { panic!("no list: {reply:?}") };
        let mut commands = Vec::new();
        while let Some(name) = parts.next() {
            let Some(Reply::Array(mut facts)) = parts.next() else { panic!("facts of {name:?}") };
            assert_eq!(facts.next().map(text).as_deref(), Some("summary"));
            let summary = text(facts.next().expect("a summary"));
            commands.push(CommandSummary { name: text(name).to_uppercase(), summary });
        }
        commands
    };
    let mut commands = client.receive(read).expect("a reply");
    commands.sort_by(|one, other| one.name.cmp(&other.name));
    commands
}

/// The part of the guide between the marks.
fn part(commands: &[CommandSummary]) -> String {
    let (refused, served): (Vec<_>, Vec<_>) =
        commands.iter().partition(|command| command.summary.starts_with(REFUSED));
    let mut text = "| command | effect |\n|---|---|\n".to_owned();
    for CommandSummary { name, summary } in served {
        let _ = writeln!(text, "| `{name}` | {summary} |");
    }
    text.push_str("\nAbsent, with an error that names the command:\n");
    let mut line = String::new();
    for (at, CommandSummary { name, .. }) in refused.iter().enumerate() {
        let word = format!("`{name}`{}", if at + 1 == refused.len() { "." } else { "," });
        if line.len() + 1 + word.len() > COLUMNS {
            let _ = writeln!(text, "{line}");
            line.clear();
        }
        let space = if line.is_empty() { "" } else { " " };
        let _ = write!(line, "{space}{word}");
    }
    let _ = writeln!(text, "{line}");
    text
}

#[test]
fn the_guide_has_every_command_of_the_server() {
    let folder = Folder::new("guide");
    let server = Server::start(&folder, "--loops 1");
    let wanted = part(&commands(&server));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/redis.md");
    let guide = std::fs::read_to_string(&path).expect("the guide");
    let (before, rest) = guide.split_once(BEGIN).expect("the first mark");
    let (found, after) = rest.split_once(END).expect("the last mark");
    if std::env::var_os("ENSILE_REWRITE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}")).expect("the guide");
        return;
    }
    assert_eq!(
        found, wanted,
        "write the table anew: ENSILE_REWRITE=1 cargo test -p ensile-cli --test cli guide"
    );
}
