//! The table of commands: name, number of arguments, flags, keys and function.
//!
//! Neighbours: `ensile-serving` finds a request's command through [`find`], and tells the table (`COMMAND`).

mod absent;
#[cfg(test)]
mod conflicts;
mod entry;
mod hashes;
mod keys;
mod lists;
mod publish;
mod scripts;
mod server;
mod sets;
mod sorted_sets;
mod streams;
mod strings;

use crate::command::Command;

/// All commands of the server, beside the commands of every server: the frequent commands first.
pub(crate) static COMMANDS: [Command; COUNT] = all_commands();

/// Number of `EXEC`, which every server has, behind the commands of the table.
pub(crate) const EXEC: u16 = COUNT as u16;

/// Names of the counted commands, in the order of their numbers.
pub(crate) fn counted_names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.info.name).chain(["EXEC"])
}

/// Commands of each kind.
const KINDS: &[&[Command]] = &[
    strings::COMMANDS,
    keys::COMMANDS,
    hashes::COMMANDS,
    lists::COMMANDS,
    publish::COMMANDS,
    sets::COMMANDS,
    scripts::COMMANDS,
    sorted_sets::COMMANDS,
    streams::COMMANDS,
    server::COMMANDS,
    absent::COMMANDS,
    #[cfg(test)]
    crate::blocking::tests::COMMANDS,
];

/// Number of all commands.
const COUNT: usize = {
    let (mut count, mut kind) = (0, 0);
    while kind < KINDS.len() {
        count += KINDS[kind].len();
        kind += 1;
    }
    count
};

/// The commands of all kinds, one kind behind the other.
const fn all_commands() -> [Command; COUNT] {
    let mut all = [strings::COMMANDS[0]; COUNT];
    let (mut place, mut kind) = (0, 0);
    while kind < KINDS.len() {
        let mut at = 0;
        while at < KINDS[kind].len() {
            all[place] = KINDS[kind][at];
            all[place].number = place as u16;
            place += 1;
            at += 1;
        }
        kind += 1;
    }
    all
}

/// Longest name of a command in bytes.
const NAME_BYTES_MAX: usize = 20;

/// Numbers of the commands, in the order of the names.
const NUMBERS_BY_NAME: [u16; COMMANDS.len()] = numbers_by_name();

/// Sorts by insertion.
const fn numbers_by_name() -> [u16; COMMANDS.len()] {
    let mut numbers = [0; COMMANDS.len()];
    let mut sorted = 0;
    while sorted < COMMANDS.len() {
        let mut place = sorted;
        while place > 0 && comes_before(name_of(sorted), name_of(numbers[place - 1] as usize)) {
            numbers[place] = numbers[place - 1];
            place -= 1;
        }
        numbers[place] = sorted as u16;
        sorted += 1;
    }
    numbers
}

const fn name_of(number: usize) -> &'static [u8] {
    COMMANDS[number].info.name.as_bytes()
}

/// True if a name comes before another. Both names differ, as the table has each name once.
const fn comes_before(name: &[u8], other: &[u8]) -> bool {
    assert!(name.len() <= NAME_BYTES_MAX, "the search takes no longer names");
    let mut at = 0;
    while at < name.len() && at < other.len() {
        if name[at] != other[at] {
            return name[at] < other[at];
        }
        at += 1;
    }
    assert!(name.len() != other.len(), "a name stands for one command");
    name.len() < other.len()
}

/// The command of this name, in any case.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut capitals = [0; NAME_BYTES_MAX];
    let capitals = capitals.get_mut(..name.len())?;
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    let found = NUMBERS_BY_NAME.binary_search_by(|number| name_of(usize::from(*number)).cmp(capitals));
    found.ok().map(|place| &COMMANDS[usize::from(NUMBERS_BY_NAME[place])])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{COMMANDS, find};

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        let names: HashSet<_> = COMMANDS.iter().map(|command| command.info.name).collect();
        assert_eq!(names.len(), COMMANDS.len(), "a name is used once");
        for name in names {
            for spelled in [name.to_owned(), name.to_ascii_lowercase()] {
                assert_eq!(find(spelled.as_bytes()).expect(name).info.name, name);
            }
        }
        assert!(find(b"NONE").is_none() && find(b"a name that is longer than any").is_none());
    }
}
