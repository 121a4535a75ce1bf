//! Access of clients: the check of a user's password, and `RESET`.
//!
//! Invariant: a refusal does not tell whether the user or the password is wrong.
//!
//! Neighbours: `ensile-serving` asks before each command; [`crate::admin`] sets the password.

use ensile_serving::{ANSWERED, AuthRefusal};
use ensile_serving::{NewReply, Outcome};

use crate::password::Password;
use crate::served_database::ServedCall;

/// Name of the user that a password without a name is for.
const DEFAULT_USER: &[u8] = b"default";

/// Checks a user's password.
///
/// # Errors
/// [`AuthRefusal`] in redis' words.
pub(crate) fn authenticate(
    password: Option<&Password>,
    user: Option<&[u8]>,
    given: &[u8],
) -> Result<(), AuthRefusal> {
    let is_default = user.is_none_or(|user| user == DEFAULT_USER);
    match password {
        None if user.is_none() => Err(AuthRefusal {
            code: "ERR",
            text: "AUTH <password> called without any password configured for the default user. Are you sure your \
                   configuration is correct?",
        }),
        None if is_default => Ok(()),
        Some(password) if is_default && password.is(given) => Ok(()),
        _ => Err(AuthRefusal {
            code: "WRONGPASS",
            text: "invalid username-password pair or user is disabled.",
        }),
    }
}

/// `RESET`: the connection is as new, without a password, a queue, watched keys or a name.
pub(crate) fn reset(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    call.client.reset();
    reply.write(|reply| reply.simple("RESET"));
    ANSWERED
}

#[cfg(test)]
mod tests {
    use super::authenticate;
    use crate::password::Password;

    #[test]
    fn a_password_is_compared_as_a_whole() {
        let password = Password::new(b"secret");
        let is_right =
            |user: Option<&[u8]>, given: &[u8]| authenticate(password.as_ref(), user, given).is_ok();
        assert!(is_right(None, b"secret") && is_right(Some(b"default"), b"secret"));
        for given in [&b""[..], b"secre", b"secret\0", b"Secret", b"secrets"] {
            assert!(!is_right(None, given), "{given:?}");
        }
        assert!(!is_right(Some(b"other"), b"secret"));
    }

    #[test]
    fn without_a_password_only_the_default_user_by_name_is_let_in() {
        assert!(authenticate(None, None, b"x").is_err());
        assert!(authenticate(None, Some(b"default"), b"x").is_ok());
        assert!(authenticate(None, Some(b"other"), b"x").is_err());
    }
}
