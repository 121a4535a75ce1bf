//! The command line of `ensile`: its help, and the commands of README and guide.
//!
//! Neighbours: [`super::Arguments`]; the tests of `serve::settings` have the options of the server.

use clap::CommandFactory as _;

use super::Arguments;

#[test]
fn the_command_line_is_sound_and_its_help_names_every_command() {
    let mut command = Arguments::command();
    command.clone().debug_assert();
    let help = command.render_long_help().to_string();
    let names = [
        #[cfg(feature = "serve")]
        "serve",
        "verify",
        "inspect",
        "backup",
        "restore",
        "restore-archive",
        "take-over",
        "adopt",
        "lease",
        "objects",
    ];
    for name in names {
        assert!(help.contains(name), "{name} in {help}");
    }
}

/// Documents with lines of commands.
#[cfg(feature = "serve")]
const DOCUMENTS: [&str; 3] = [
    include_str!("../../../README.md"),
    include_str!("../../../docs/guide/operations.md"),
    include_str!("../../../docs/guide/redis.md"),
];

#[cfg(feature = "serve")]
#[test]
fn every_command_of_readme_and_guide_is_understood() {
    let mut understood = 0;
    for line in DOCUMENTS.into_iter().flat_map(str::lines) {
        let line = line.split(" #").next().unwrap_or_default();
        let installed = line.trim_start_matches(|c: char| c.is_ascii_uppercase() || c == '_');
        let words = line
            .strip_prefix("cargo run --release -p ensile-cli -- ")
            .or_else(|| line.strip_prefix("ensile ").filter(|words| !words.starts_with('=')))
            .or_else(|| installed.strip_prefix('=')?.split_once(" ensile ").map(|(_, words)| words));
        let Some(words) = words else { continue };
        let arguments = std::iter::once("ensile").chain(words.split_whitespace());
        if let Err(error) = Arguments::command().try_get_matches_from(arguments) {
            panic!("{line}: {error}");
        }
        understood += 1;
    }
    assert!(understood > 20, "the commands are found: {understood}");
}
