//! Passwords: comparison, the default user, and users with hashes.

use std::task::Waker;

use ensile_serving::AuthProgress;

use super::{Authentication, Password, User, UserNumber, Users};

/// A hash of `sesame` whose check is quick.
const HASH: &str = "#$argon2id$v=19$m=8,t=1,p=1$ZW5zaWxlc2FsdA$/3GpeUAKwFEbEoUPwT2HfX6nae9enhn0dbcgrVsYnqU";

fn ask(users: &Users, password: Option<&Password>, user: Option<&str>, given: &str) -> Option<UserNumber> {
    let mut pending = None;
    loop {
        let check = Authentication {
            users,
            password,
            user: user.map(str::as_bytes),
            given: given.as_bytes(),
            waker: Waker::noop(),
        };
        match check.check(&mut pending) {
            Ok((AuthProgress::Authenticated, number)) => return Some(number),
            Ok((AuthProgress::Waits, _)) => users.verifier.step(),
            Err(_) => return None,
        }
    }
}

#[test]
fn a_password_is_compared_as_a_whole() {
    let (users, password) = (Users::new(Vec::new()).expect("no users"), Password::new(b"secret"));
    let is_right = |user: Option<&str>, given: &str| ask(&users, password.as_ref(), user, given).is_some();
    assert!(is_right(None, "secret") && is_right(Some("default"), "secret"));
    for given in ["", "secre", "secret\0", "Secret", "secrets"] {
        assert!(!is_right(None, given), "{given:?}");
    }
    assert!(!is_right(Some("other"), "secret"));
}

#[test]
fn without_a_password_only_the_default_user_by_name_is_let_in() {
    let users = Users::new(Vec::new()).expect("no users");
    assert_eq!(ask(&users, None, None, "x"), None);
    assert_eq!(ask(&users, None, Some("default"), "x"), Some(0));
    assert_eq!(ask(&users, None, Some("other"), "x"), None);
}

#[test]
fn a_user_gives_the_password_of_its_hash() {
    let user = |name: &str, rules: &[&str]| User::new(name, rules).expect("known rules");
    let list = vec![
        user("default", &["off"]),
        user("app", &["on", HASH, "~*", "+@all"]),
        user("gone", &["off", HASH]),
        user("open", &["on", "nopass"]),
    ];
    let users = Users::new(list).expect("names");
    for _ in 0..2 {
        assert_eq!(ask(&users, None, Some("app"), "sesame"), Some(1), "by the hash, then by the fingerprint");
        assert_eq!(ask(&users, None, Some("app"), "sesam"), None);
    }
    for refused in ["gone", "none", "default"] {
        assert_eq!(ask(&users, None, Some(refused), "sesame"), None, "{refused}");
    }
    assert_eq!(ask(&users, None, Some("open"), "anything"), Some(3));
    assert_eq!(ask(&users, Password::new(b"x").as_ref(), None, "x"), None, "the default user is off");
    assert!(Users::new(vec![user("a", &[]), user("a", &[])]).is_err());
}
