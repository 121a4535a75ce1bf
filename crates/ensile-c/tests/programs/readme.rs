//! The README's commands, word for word, with the example's program, from which the README has excerpts.

use std::process::Command;

use ensile_base::random::Random;

use crate::build::{empty_folder, package, prefix, run};
use crate::service::{Killed, killed_lives};

fn text() -> String {
    std::fs::read_to_string(package().join("README.md")).expect("the README")
}

/// The blocks of code in this language.
fn blocks(language: &str) -> Vec<String> {
    let text = text();
    let begins = format!("```{language}\n");
    let inside = text.split(&begins).skip(1);
    inside.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// What the README has a user do: install; compile and run; compile in C.
pub(crate) fn commands() -> Vec<String> {
    let commands = blocks("sh");
    assert_eq!(commands.len(), 3, "the README has three blocks of commands");
    commands
}

#[test]
fn its_excerpts_stand_in_the_example() {
    let example = std::fs::read_to_string(package().join("examples/my_service.cpp")).expect("the example");
    let excerpts = blocks("cpp");
    assert_eq!(excerpts.len(), 2, "a change, and a checkpoint");
    for excerpt in excerpts {
        assert!(example.contains(&excerpt), "the example lacks\n{excerpt}");
    }
}

#[test]
fn in_an_empty_folder_its_commands_alone_make_a_service_that_is_killed_and_recovers() {
    let folder = empty_folder("readme");
    let example = package().join("examples/my_service.cpp");
    std::fs::copy(example, folder.join("my_service.cpp")).expect("copies the program");
    let commands = commands();
    let (build, start) = commands[1].trim_end().rsplit_once('\n').expect("the last command runs the program");
    assert!(start.starts_with("./my_service "), "{start}");
    let shell = |script: String| {
        let mut shell = Command::new("bash");
        shell.args(["-euc", &script]).env("PREFIX", prefix()).current_dir(&folder);
        shell
    };
    run(&mut shell(build.to_owned()));
    // The shell becomes the program, so that a kill is the program's.
    let exports =
        build.lines().find(|line| line.starts_with("export ")).expect("it says where libraries are");
    let Killed { loaded, replayed, .. } =
        killed_lives(&mut Random::from_seed(1), 10, || shell(format!("{exports}\nexec {start}")));
    assert!(loaded > 0 && replayed > 0, "{loaded} loaded, {replayed} replayed");

    std::fs::copy(package().join("examples/my_service.c"), folder.join("my_service.c")).expect("copies");
    run(&mut shell(format!("{exports}\n{}", commands[2])));
    let mut in_c = shell("exec ./my_service_c items_c.ensile 3".to_owned());
    assert!(run(&mut in_c).contains("durable 752 1"));
    std::fs::remove_dir_all(&folder).expect("is removed");
}
