//! Users: password, commands and keys, in the words of redis' `user` lines.
//!
//! ```text
//! user  ::= name rule*
//! rule  ::= 'on' | 'off' | 'nopass' | '#' hash | '~' prefix '*' | 'allkeys' | 'resetkeys' | 'readonly' | 'readwrite'
//!         | ('+' | '-') ('@' group | command | command '|' subcommand) | 'allcommands' | 'nocommands'
//! ```
//! Invariants:
//! - A new user is off, without a password, without commands and without keys.
//! - Of two rules over one command the later rule counts.
//!
//! Neighbours: `served_program` knows the commands of rules; [`super::check`] asks for rights; `acl` tells the users.

use std::fmt;

use ensile_serving::command::{CommandInfo, Subcommand, is_called};

use super::groups::CommandGroup;
use super::password::PasswordHash;

/// Longest name of a user in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Name of the user that a connection begins as.
pub(crate) const DEFAULT_NAME: &str = "default";

/// Finds a command of the server by its name, in any case.
pub(crate) type FindCommand = fn(&str) -> Option<&'static CommandInfo>;

/// A user of a server: a name, a password, and rights over commands and keys.
#[derive(Clone, Debug)]
pub struct User {
    name: String,
    is_on: bool,
    needs_no_password: bool,
    password: Option<PasswordHash>,
    /// Rules over commands, the later rules count.
    rules: Vec<CommandRule>,
    keys: UserKeys,
    /// True if the user may send every request.
    is_unlimited: bool,
}

/// Keys of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UserKeys {
    All,
    /// Keys that begin with one of these texts.
    Prefixes(Vec<Vec<u8>>),
}

/// A rule over commands.
#[derive(Clone, Copy, Debug)]
struct CommandRule {
    allows: bool,
    what: CommandSet,
}

/// Commands of a rule.
#[derive(Clone, Copy, Debug)]
enum CommandSet {
    All,
    Group(&'static CommandGroup),
    Command(&'static CommandInfo),
    Subcommand(&'static CommandInfo, &'static Subcommand),
}

impl CommandSet {
    /// The commands of this name: `all`, `@group`, `command`, `command|subcommand`.
    fn find(name: &str, commands: FindCommand) -> Result<Self, String> {
        if let Some(group) = name.strip_prefix('@') {
            if group == "all" {
                return Ok(Self::All);
            }
            let known = CommandGroup::find(group).map(Self::Group);
            return known.ok_or_else(|| {
                let names = super::groups::GROUPS.iter().map(|group| format!("@{}", group.name));
                format!(
                    "unknown group '{name}'; the groups are @all, {}",
                    names.collect::<Vec<_>>().join(", ")
                )
            });
        }
        let (command, subcommand) = match name.split_once('|') {
            Some((command, subcommand)) => (command, Some(subcommand)),
            None => (name, None),
        };
        let info = commands(command).ok_or_else(|| {
            format!("unknown command '{command}'; COMMAND and docs/guide/redis.md have the names")
        })?;
        let Some(word) = subcommand else { return Ok(Self::Command(info)) };
        let known = info.subcommands.iter().find(|one| is_called(word.as_bytes(), one.name));
        known
            .map(|subcommand| Self::Subcommand(info, subcommand))
            .ok_or_else(|| format!("'{command}' has no subcommand '{word}'"))
    }

    fn has(self, command: &CommandInfo, subcommand: Option<&Subcommand>) -> bool {
        match self {
            Self::All => true,
            Self::Group(group) => group.has(command, subcommand),
            Self::Command(one) => one.name == command.name,
            Self::Subcommand(one, sub) => {
                one.name == command.name && subcommand.is_some_and(|given| given.name == sub.name)
            }
        }
    }
}

impl fmt::Display for CommandSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("@all"),
            Self::Group(group) => write!(f, "@{}", group.name),
            Self::Command(info) => f.write_str(&info.name.to_ascii_lowercase()),
            Self::Subcommand(info, subcommand) => {
                write!(f, "{}|{}", info.name.to_ascii_lowercase(), subcommand.name.to_ascii_lowercase())
            }
        }
    }
}

impl User {
    /// A user with all rights, without a password.
    pub(crate) fn unlimited_default() -> Self {
        Self {
            name: DEFAULT_NAME.to_owned(),
            is_on: true,
            needs_no_password: true,
            password: None,
            rules: vec![CommandRule { allows: true, what: CommandSet::All }],
            keys: UserKeys::All,
            is_unlimited: true,
        }
    }

    /// A user from a name and rules. `commands` finds a command by its name.
    ///
    /// # Errors
    /// The text names the wrong word and the remedy. A hash of a password is not shown.
    pub(crate) fn from_rules<'r>(
        name: &str,
        rules: impl IntoIterator<Item = &'r str>,
        commands: FindCommand,
    ) -> Result<Self, String> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(format!(
                "a user's name has 1 to {NAME_BYTES_MAX} printable characters without spaces"
            ));
        }
        let mut user = Self {
            name: name.to_owned(),
            is_on: false,
            needs_no_password: false,
            password: None,
            rules: Vec::new(),
            keys: UserKeys::Prefixes(Vec::new()),
            is_unlimited: false,
        };
        for rule in rules {
            user.add(rule, commands)?;
        }
        let is_all = |rule: &CommandRule| rule.allows && matches!(rule.what, CommandSet::All);
        user.is_unlimited = user.keys == UserKeys::All && user.rules.len() == 1 && is_all(&user.rules[0]);
        if user.is_on && !user.needs_no_password && user.password.is_none() && name != DEFAULT_NAME {
            return Err(format!(
                "user '{name}' has no password: give #HASH, with a hash of `ensile hash-password`, or nopass, or off"
            ));
        }
        Ok(user)
    }

    fn add(&mut self, rule: &str, commands: FindCommand) -> Result<(), String> {
        let group = |name: &str| CommandGroup::find(name).map_or(CommandSet::All, CommandSet::Group);
        match rule {
            "on" => self.is_on = true,
            "off" => self.is_on = false,
            "nopass" => (self.needs_no_password, self.password) = (true, None),
            "resetpass" => (self.needs_no_password, self.password) = (false, None),
            "allkeys" | "~*" => self.keys = UserKeys::All,
            "resetkeys" => self.keys = UserKeys::Prefixes(Vec::new()),
            "allcommands" | "+@all" => self.rules = vec![CommandRule { allows: true, what: CommandSet::All }],
            "nocommands" | "-@all" => self.rules.clear(),
            "readonly" | "readwrite" => {
                self.rules = vec![CommandRule { allows: true, what: CommandSet::All }];
                let denied = ["admin", "dangerous", "write"];
                let denied = if rule == "readonly" { &denied[..] } else { &denied[..2] };
                let rules = denied.iter().map(|name| CommandRule { allows: false, what: group(name) });
                self.rules.extend(rules);
            }
            _ => match rule.split_at_checked(1).unwrap_or_default() {
                ("#", hash) => {
                    (self.needs_no_password, self.password) = (false, Some(PasswordHash::new(hash)?));
                }
                ("~", pattern) => self.add_prefix(pattern)?,
                (sign @ ("+" | "-"), name) => {
                    let rule = CommandRule { allows: sign == "+", what: CommandSet::find(name, commands)? };
                    self.rules.push(rule);
                }
                (">" | "<" | "!", _) => {
                    return Err(
                        "a password stands here as #HASH, with a hash of `ensile hash-password`".to_owned()
                    );
                }
                ("&" | "%" | "(", _) | ("a" | "r" | "c" | "s", _) => {
                    return Err(format!(
                        "the rule '{rule}' is not available in this version of ensile: the prefixes of keys hold for \
                         channels, too"
                    ));
                }
                _ => {
                    return Err(format!(
                        "unknown rule '{rule}': give on, off, nopass, #HASH, ~PREFIX*, allkeys, readonly, readwrite, \
                         +COMMAND, -COMMAND, +@GROUP or -@GROUP"
                    ));
                }
            },
        }
        Ok(())
    }

    fn add_prefix(&mut self, pattern: &str) -> Result<(), String> {
        let prefix = pattern.strip_suffix('*').filter(|prefix| !prefix.contains(['*', '?', '[', '\\']));
        let prefix = prefix.ok_or_else(|| {
            format!("'~{pattern}' is no prefix: give ~PREFIX* with one star, at the end, as ~app:*")
        })?;
        if let UserKeys::Prefixes(prefixes) = &mut self.keys {
            prefixes.push(prefix.into());
        }
        Ok(())
    }

    /// Name of the user.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_default(&self) -> bool {
        self.name == DEFAULT_NAME
    }

    /// True if clients can become this user without a password. The password of the user `default` by
    /// [`password`](crate::ServerBuilder::password) is not looked at.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_on && self.password.is_none()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(crate) fn password(&self) -> Option<&PasswordHash> {
        self.password.as_ref()
    }

    /// True if the user may send every request.
    #[inline]
    pub(crate) fn is_unlimited(&self) -> bool {
        self.is_unlimited
    }

    /// True if the user may send a command, with this subcommand.
    pub(crate) fn may_send(&self, command: &CommandInfo, subcommand: Option<&Subcommand>) -> bool {
        let rule = self.rules.iter().rev().find(|rule| rule.what.has(command, subcommand));
        rule.is_some_and(|rule| rule.allows)
    }

    /// True if all keys are the user's.
    pub(crate) fn has_all_keys(&self) -> bool {
        self.keys == UserKeys::All
    }

    /// True if a key is the user's.
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        match &self.keys {
            UserKeys::All => true,
            UserKeys::Prefixes(prefixes) => prefixes.iter().any(|prefix| key.starts_with(prefix)),
        }
    }

    /// True if all texts that a pattern matches are the user's: the pattern begins with a prefix, without a wildcard.
    pub(crate) fn has_pattern(&self, pattern: &[u8]) -> bool {
        let is_wild = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        let literal = pattern.iter().position(is_wild).unwrap_or(pattern.len());
        self.has_key(&pattern[..literal])
    }

    /// The prefixes, as `~app:*`.
    pub(crate) fn shown_keys(&self) -> String {
        match &self.keys {
            UserKeys::All => "~*".to_owned(),
            UserKeys::Prefixes(prefixes) => {
                let shown = prefixes.iter().map(|prefix| format!("~{}*", String::from_utf8_lossy(prefix)));
                shown.collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// The rules over commands, as `-@all +@read`.
    pub(crate) fn shown_commands(&self) -> String {
        let is_all = |rule: &CommandRule| matches!(rule.what, CommandSet::All);
        let mut shown = String::new();
        if !self.rules.first().is_some_and(is_all) {
            shown.push_str("-@all");
        }
        for CommandRule { allows, what } in &self.rules {
            let space = if shown.is_empty() { "" } else { " " };
            shown.push_str(&format!("{space}{}{what}", if *allows { '+' } else { '-' }));
        }
        shown
    }

    /// Flags, by redis' names. The password of `requirepass` makes the default user's `nopass` void.
    pub(crate) fn shown_flags(&self, has_requirepass: bool) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.password.is_none() && self.needs_no_password && !has_requirepass {
            flags.push("nopass");
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::User;

    #[test]
    fn a_wrong_rule_is_named_with_a_remedy() {
        for (rule, wanted) in [
            (">secret", "hash-password"),
            ("#5e884898", "argon2"),
            ("~a*b", "one star"),
            ("~*a*", "one star"),
            ("%R~a*", "not available"),
            ("&chan*", "not available"),
            ("+nosuch", "unknown command"),
            ("+client|nosuch", "no subcommand"),
            ("+@hash", "unknown group"),
            ("On", "unknown rule"),
            ("", "unknown rule"),
        ] {
            let refused = User::new("u", &[rule]).expect_err(rule);
            assert!(refused.contains(wanted) && !refused.contains("secret"), "{rule}: {refused}");
        }
        assert!(User::new("a b", &["off"]).is_err() && User::new("", &["off"]).is_err());
        assert!(User::new("u", &["on"]).expect_err("no password").contains("nopass"));
    }

    #[test]
    fn the_later_rule_counts() {
        let user = User::new("u", &["off", "+@read", "-get", "~a:*", "~b*"]).expect("known rules");
        assert_eq!(user.shown_commands(), "-@all +@read -get");
        assert_eq!(user.shown_keys(), "~a:* ~b*");
        let find = |name: &[u8]| &crate::command_table::find(name).expect("a command").info;
        assert!(user.may_send(find(b"MGET"), None) && !user.may_send(find(b"GET"), None));
        assert!(!user.may_send(find(b"SET"), None));
        assert!(user.has_key(b"a:1") && user.has_key(b"b") && !user.has_key(b"a") && !user.has_key(b""));
        assert!(user.has_pattern(b"a:*") && !user.has_pattern(b"a*") && !user.has_pattern(b"[a]:1"));
    }
}
