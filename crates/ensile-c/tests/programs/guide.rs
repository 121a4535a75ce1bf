//! The guide's commands, word for word, with the example's programs, and the guide's own program.

use std::path::Path;
use std::process::Command;

use ensile_base::random::Random;

use crate::build::{empty_folder, package, prefix, run};
use crate::service::{Killed, killed_lives};

fn text() -> String {
    std::fs::read_to_string(package().join("../../docs/guide/c.md")).expect("the guide")
}

/// The blocks of code in this language.
fn blocks(language: &str) -> Vec<String> {
    let text = text();
    let begins = format!("```{language}\n");
    let inside = text.split(&begins).skip(1);
    inside.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// What the guide has a user do: install; compile and run; compile in C.
pub(crate) fn commands() -> Vec<String> {
    let commands = blocks("sh");
    assert_eq!(commands.len(), 3, "the guide has three blocks of commands");
    commands
}

/// A shell that runs the script in the folder, and knows where the library is installed.
fn shell(folder: &Path, script: String) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-euc", &script]).env("PREFIX", prefix()).current_dir(folder);
    shell
}

/// The commands that compile the service, the line that says where libraries are, and the command that starts it.
fn build_and_start(commands: &str) -> (&str, &str, &str) {
    let (build, start) = commands.trim_end().rsplit_once('\n').expect("the last command runs the program");
    assert!(start.starts_with("./my_service "), "{start}");
    let exports =
        build.lines().find(|line| line.starts_with("export ")).expect("it says where libraries are");
    (build, exports, start)
}

#[test]
fn its_program_counts_each_run() {
    let folder = empty_folder("visits");
    let programs = blocks("cpp");
    assert_eq!(programs.len(), 1, "the guide has one program");
    std::fs::write(folder.join("visits.cpp"), &programs[0]).expect("writes the program");
    let commands = commands();
    let (build, exports, _) = build_and_start(&commands[1]);
    run(&mut shell(&folder, build.replace("my_service", "visits")));
    for visits in 1..=3 {
        let shown = run(&mut shell(&folder, format!("{exports}\nexec ./visits 7")));
        assert_eq!(shown, format!("page 7: {visits} visits\n"));
    }
    std::fs::remove_dir_all(&folder).expect("is removed");
}

#[test]
fn in_an_empty_folder_its_commands_alone_make_a_service_that_is_killed_and_recovers() {
    let folder = empty_folder("guide");
    let example = package().join("examples/my_service.cpp");
    std::fs::copy(example, folder.join("my_service.cpp")).expect("copies the program");
    let commands = commands();
    let (build, exports, start) = build_and_start(&commands[1]);
    run(&mut shell(&folder, build.to_owned()));
    // The shell becomes the program, so that a kill is the program's.
    let Killed { loaded, replayed, .. } =
        killed_lives(&mut Random::from_seed(1), 10, || shell(&folder, format!("{exports}\nexec {start}")));
    assert!(loaded > 0 && replayed > 0, "{loaded} loaded, {replayed} replayed");

    std::fs::copy(package().join("examples/my_service.c"), folder.join("my_service.c")).expect("copies");
    run(&mut shell(&folder, format!("{exports}\n{}", commands[2])));
    let mut in_c = shell(&folder, "exec ./my_service_c items_c.ensile 3".to_owned());
    assert!(run(&mut in_c).contains("durable 752 1"));
    std::fs::remove_dir_all(&folder).expect("is removed");
}
