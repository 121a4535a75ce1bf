//! Access of clients: users with their passwords and rights.
//!
//! Invariants:
//! - A refusal does not tell whether the user or the password is wrong.
//! - [`check`] is the only place that decides over rights: for direct requests, for queued requests at the queueing and
//!   at `EXEC`, and for calls of scripts.
//! - Users are fixed at the start of the server.
//!
//! Neighbours: `ensile-serving` asks before each command; [`crate::admin`] sets the password of `requirepass`.

mod bounds;
pub(crate) mod groups;
mod password;
mod user;
mod verifier;

use std::task::Waker;

use argon2::{Algorithm, Argon2, Params, Version};
use ensile_base::random::Random;
use ensile_base::sync::Mutex;
use ensile_resp::Request;
use ensile_serving::command::CommandInfo;
use ensile_serving::{AuthProgress, AuthRefusal, RightsRefusal};

#[cfg(feature = "simulation")]
pub(crate) use bounds::is_harmless_command;
pub(crate) use password::Password;
pub use password::{PASSWORD_BYTES_MAX, hash_password};
pub use user::User;
pub(crate) use verifier::Verification;

use password::PasswordHash;
use user::DEFAULT_NAME;
use verifier::Verifier;

const WRONG_PASSWORD: AuthRefusal =
    AuthRefusal { code: "WRONGPASS", text: "invalid username-password pair or user is disabled." };

/// Checks a user's right to a request. The request has the command's number of arguments.
///
/// # Errors
/// [`RightsRefusal`] with the texts for replies, for `EXEC` and for scripts.
#[inline]
pub(crate) fn check(user: &User, command: &CommandInfo, request: Request<'_>) -> Result<(), RightsRefusal> {
    if user.is_unlimited() { Ok(()) } else { check_limited(user, command, request) }
}

#[cold]
fn check_limited(user: &User, command: &CommandInfo, request: Request<'_>) -> Result<(), RightsRefusal> {
    let subcommand = command.subcommand_of(request);
    if !user.may_send(command, subcommand) {
        return Err(RightsRefusal::Command);
    }
    if user.has_all_keys() { Ok(()) } else { bounds::check_bounds(user, command, subcommand, request) }
}

/// Number of a user in [`Users`].
pub(crate) type UserNumber = u32;

/// Fingerprint of a right password, under the key of this process.
type Fingerprint = [u8; 32];

/// The users of a server.
#[derive(Debug)]
pub(crate) struct Users {
    /// Users by number; the first is the user `default`.
    list: Vec<User>,
    /// Fingerprint of the right password of each user that has given the password, so that further connections of the
    /// user do not wait.
    remembered: Mutex<Vec<Option<Fingerprint>>>,
    /// Key of the fingerprints.
    key: [u8; 16],
    pub(crate) verifier: Verifier,
}

impl Users {
    /// Users of a server. The user `default` has all rights unless the list has another one.
    ///
    /// # Errors
    /// Two users have one name.
    pub(crate) fn new(given: Vec<User>) -> ensile::Result<Self> {
        let (mut list, mut has_default) = (vec![User::unlimited_default()], false);
        for user in given {
            if user.name() == DEFAULT_NAME && !has_default {
                (list[0], has_default) = (user, true);
            } else if list.iter().any(|other| other.name() == user.name()) {
                return Err(ensile::Error::Misuse(format!("there are two users '{}'", user.name())));
            } else {
                list.push(user);
            }
        }
        let remembered = Mutex::new(vec![None; list.len()]);
        Ok(Self { list, remembered, key: Random::unique_128().to_le_bytes(), verifier: Verifier::new() })
    }

    /// The user of this number.
    #[inline]
    pub(crate) fn get(&self, number: UserNumber) -> &User {
        &self.list[number as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &User> {
        self.list.iter()
    }

    /// Number of the user of this name.
    pub(crate) fn number_of(&self, name: &[u8]) -> Option<UserNumber> {
        self.find(name)
    }

    fn find(&self, name: &[u8]) -> Option<UserNumber> {
        let at = self.list.iter().position(|user| user.name().as_bytes() == name)?;
        UserNumber::try_from(at).ok()
    }

    /// True if some user has a hash, which a thread checks.
    pub(crate) fn have_hashes(&self) -> bool {
        self.list.iter().any(|user| user.password().is_some())
    }

    /// Fingerprint of a password. The call takes microseconds.
    fn fingerprint(&self, password: &[u8]) -> Option<Fingerprint> {
        let params = Params::new(Params::MIN_M_COST, 1, 1, None).ok()?;
        let hasher = Argon2::new_with_secret(&self.key, Algorithm::Argon2id, Version::V0x13, params).ok()?;
        let mut fingerprint = [0; 32];
        hasher.hash_password_into(password, b"remembered", &mut fingerprint).ok()?;
        Some(fingerprint)
    }

    /// Checks a user's password, by its hash.
    fn check_hash(
        &self,
        pending: &mut Option<Verification>,
        number: Option<UserNumber>,
        given: &[u8],
        waker: &Waker,
    ) -> Result<AuthProgress, AuthRefusal> {
        if let Some(verification) = pending.take() {
            return match (verification.verdict(), number) {
                (None, _) => {
                    *pending = Some(verification);
                    Ok(AuthProgress::Waits)
                }
                (Some(true), Some(number)) => {
                    self.remembered.lock()[number as usize] = self.fingerprint(given);
                    Ok(AuthProgress::Authenticated)
                }
                _ => Err(WRONG_PASSWORD),
            };
        }
        let known = number.and_then(|number| self.remembered.lock()[number as usize]);
        if known.is_some() && known == self.fingerprint(given) {
            return Ok(AuthProgress::Authenticated);
        }
        // The check of an unknown user takes as long, by the hash of another user.
        let own = number.and_then(|number| self.get(number).password());
        let hash: Option<&PasswordHash> = own.or_else(|| self.list.iter().find_map(User::password));
        let Some(hash) = hash else { return Err(WRONG_PASSWORD) };
        *pending = Some(self.verifier.begin(hash, given, waker));
        Ok(AuthProgress::Waits)
    }
}

/// A check of a user and a password.
pub(crate) struct Authentication<'a> {
    pub(crate) users: &'a Users,
    /// Password of `requirepass`.
    pub(crate) password: Option<&'a Password>,
    /// Name of the user; `None` for the default user.
    pub(crate) user: Option<&'a [u8]>,
    pub(crate) given: &'a [u8],
    /// Waker of the client's loop.
    pub(crate) waker: &'a Waker,
}

impl Authentication<'_> {
    /// Checks the password, and returns the number of the user. `pending` has the check that goes on elsewhere.
    ///
    /// # Errors
    /// [`AuthRefusal`] in redis' words.
    pub(crate) fn check(
        self,
        pending: &mut Option<Verification>,
    ) -> Result<(AuthProgress, UserNumber), AuthRefusal> {
        let Self { users, password, user, given, waker } = self;
        let number = users.find(user.unwrap_or(DEFAULT_NAME.as_bytes()));
        let found = number.map(|number| users.get(number)).filter(|user| user.is_on());
        let is_default = number == Some(0);
        if is_default && found.is_some_and(User::is_open) {
            match password {
                None if user.is_none() => {
                    return Err(AuthRefusal {
                        code: "ERR",
                        text: "AUTH <password> called without any password configured for the default user. Are you sure \
                               your configuration is correct?",
                    });
                }
                None => return Ok((AuthProgress::Authenticated, 0)),
                Some(_) => {}
            }
        }
        if let (Some(password), true, Some(_)) = (password, is_default, found)
            && password.is(given)
        {
            return Ok((AuthProgress::Authenticated, 0));
        }
        if !is_default && found.is_some_and(User::is_open) {
            return Ok((AuthProgress::Authenticated, number.unwrap_or_default()));
        }
        // A user that is off, or without a hash, is as an unknown user.
        let number = number.filter(|_| found.is_some_and(|user| user.password().is_some()));
        let progress = users.check_hash(pending, number, given, waker)?;
        Ok((progress, number.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests;
