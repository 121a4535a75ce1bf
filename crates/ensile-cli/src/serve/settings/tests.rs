//! Settings of `ensile serve`: the order of their sources, the names, and refused values.
//!
//! Neighbours: the tests of `config_file` have the lines; `tests/cli/serve` starts the server.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::{Args as _, Command, FromArgMatches as _};
use ensile_server::{Appendfsync, PASSWORD_BYTES_MAX};

use super::{GivenSettings, PARAMETERS, ServeSettings, nearest_name, users_of};

fn file(text: &str) -> Result<GivenSettings, String> {
    GivenSettings::of_file(Path::new("ensile.conf"), text)
}

fn environment(variables: &[(&str, &str)]) -> Result<GivenSettings, String> {
    GivenSettings::of_environment(|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
    })
}

fn options(line: &str) -> GivenSettings {
    let command = GivenSettings::augment_args(Command::new("serve"));
    let matches = command.get_matches_from(std::iter::once("serve").chain(line.split_whitespace()));
    GivenSettings::from_arg_matches(&matches).expect("options of this command")
}

#[test]
fn without_sources_the_server_is_for_this_machine_and_durable() {
    let settings = ServeSettings::new(GivenSettings::default()).expect("the defaults are possible");
    assert_eq!(settings.address.to_string(), "127.0.0.1:6379");
    assert_eq!(settings.data, Path::new("data"));
    assert!(settings.appendonly && !settings.multi_rollback && settings.password.is_none());
    assert_eq!(settings.appendfsync, Appendfsync::Always);
    assert_eq!((settings.idle, settings.keepalive), (None, Some(Duration::from_secs(300))));
    assert_eq!(settings.client_memory, Some(1 << 30));
}

#[test]
fn an_option_counts_before_a_variable_and_a_variable_before_the_file() {
    let file = file("port 1\ntimeout 1\nappendfsync no\ndir in-file\n").expect("known names");
    let environment = environment(&[("ENSILE_PORT", "2"), ("ENSILE_TIMEOUT", "2")]).expect("known values");
    let settings = ServeSettings::new(options("--port 3").or(environment).or(file)).expect("it is possible");
    assert_eq!(settings.address.port(), 3);
    assert_eq!(settings.idle, Some(Duration::from_secs(2)));
    assert_eq!(settings.appendfsync, Appendfsync::No);
    assert_eq!(settings.data, Path::new("in-file"));
}

#[test]
fn every_option_is_a_name_of_the_file_and_a_variable() {
    let command = GivenSettings::augment_args(Command::new("serve"));
    let options: Vec<String> =
        command.get_arguments().filter_map(|one| one.get_long().map(str::to_owned)).collect();
    for option in &options {
        let parameter = PARAMETERS.iter().find(|parameter| parameter.name == option).expect(option);
        let variable = format!("ENSILE_{}", option.replace('-', "_").to_uppercase());
        assert_eq!(parameter.variable, variable, "{option}");
    }
    let others = PARAMETERS.iter().filter(|parameter| !options.iter().any(|option| option == parameter.name));
    let others: Vec<_> = others.map(|parameter| parameter.name).collect();
    let wanted = ["dir", "requirepass", "admin-password", "lua-time-limit"];
    assert_eq!(others, wanted, "a password and a second name are no options");
}

#[test]
fn a_wrong_line_is_named_with_a_remedy() {
    for (text, wanted) in [
        (
            "port 1\nappendfsink always\n",
            "ensile.conf:2: unknown name 'appendfsink'; the nearest name is 'appendfsync'",
        ),
        ("port seven", "ensile.conf:1: 'port': give a port"),
        ("\n\nport 1 # mine", "ensile.conf:3: 'port' takes one value"),
        ("bind 127.0.0.1 ::1", "ensile.conf:1: 'bind' takes one value"),
        ("requirepass \"open", "ensile.conf:1: a quotation has no end"),
    ] {
        let refused = file(text).expect_err(text);
        assert!(refused.starts_with(wanted), "{refused}");
    }
    let secret = file("requirepass open sesame").expect_err("two values");
    assert!(!secret.contains("sesame"), "{secret}");
}

#[test]
fn an_empty_variable_is_refused() {
    let refused = environment(&[("ENSILE_PASSWORD", "")]).expect_err("a password by accident");
    assert!(refused.starts_with("ENSILE_PASSWORD is empty"), "{refused}");
    let refused = environment(&[("ENSILE_LOOPS", "0")]).expect_err("no loop");
    assert!(refused.starts_with("ENSILE_LOOPS: give a number from 1"), "{refused}");
}

#[test]
fn a_password_that_no_client_can_give_is_refused() {
    let longest = "p".repeat(PASSWORD_BYTES_MAX);
    assert!(environment(&[("ENSILE_PASSWORD", &longest)]).is_ok());
    let refused = environment(&[("ENSILE_PASSWORD", &format!("{longest}p"))]).expect_err("too long");
    assert!(refused.contains("16384 bytes") && !refused.contains("ppp"), "{refused}");
}

#[test]
fn an_address_for_other_machines_needs_a_password() {
    let open = |text: &str| ServeSettings::new(file(text).expect("known names"));
    let refused = open("bind 0.0.0.0").expect_err("everybody could connect");
    assert!(refused.contains("0.0.0.0:6379") && refused.contains("--requirepass-file"), "{refused}");
    assert!(open("bind *\nrequirepass \"\"").is_err(), "an empty password is none");
    let settings = open("bind *\nrequirepass sesame").expect("a password");
    assert!(!settings.address.ip().is_loopback());
    assert!(open("bind ::1").is_ok_and(|settings| settings.address.to_string() == "[::1]:6379"));
}

#[test]
fn users_stand_in_the_file_and_in_a_file_of_their_own() {
    let given = file("user app on nopass ~app:* +@read\nuser default off\n").expect("known rules");
    let settings = ServeSettings::new(given).expect("loopback");
    let names: Vec<&str> = settings.users.iter().map(|user| user.name()).collect();
    assert_eq!(names, ["app", "default"]);
    let refused = file("port 1\nuser app +nosuch").expect_err("no such command");
    assert!(refused.starts_with("ensile.conf:2: unknown command 'nosuch'"), "{refused}");
    let refused = users_of(Path::new("users"), "user a off\nport 1\n").expect_err("no user");
    assert!(refused.starts_with("users:2: a file of users has lines"), "{refused}");
    let open = |text: &str| ServeSettings::new(file(text).expect("known names"));
    assert!(open("bind *\nuser default off").is_ok(), "nobody connects without a password");
    let refused = open("bind *\nuser default off\nuser app on nopass").expect_err("an open user");
    assert!(refused.contains("'app' has no password"), "{refused}");
}

#[test]
fn the_example_has_every_option() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/ensile.conf");
    let text = std::fs::read_to_string(&path).expect("the example");
    let command = GivenSettings::augment_args(Command::new("serve"));
    for option in command.get_arguments().filter_map(|one| one.get_long()) {
        let has = |line: &str| line.trim_start_matches("# ").split(' ').next() == Some(option);
        assert!(text.lines().any(has), "{option} is missing in dist/ensile.conf");
    }
}

#[test]
fn the_example_of_a_configuration_is_accepted_with_all_its_comments() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/ensile.conf");
    let text = std::fs::read_to_string(&path).expect("the example");
    let settings = ServeSettings::new(file(&text).expect("known names")).expect("a possible start");
    assert_eq!(settings.data, Path::new("/var/lib/ensile"));
    assert_eq!((settings.address.port(), settings.appendonly), (6379, true));
    // Each commented setting is a known one, too.
    for line in text.lines().filter_map(|line| line.strip_prefix("# ")) {
        let name = line.split(' ').next().unwrap_or_default();
        if PARAMETERS.iter().any(|parameter| parameter.name == name) && !line.ends_with('.') {
            file(line).expect(line);
        }
    }
}

#[test]
fn the_nearest_name_has_the_fewest_changes() {
    assert_eq!(nearest_name("prot"), "port");
    assert_eq!(nearest_name("tcp-keep-alive"), "tcp-keepalive");
    assert_eq!(nearest_name("requirepas"), "requirepass");
}

/// The settings of a line, with the certificate and the key of the tests behind it.
fn with_certificate(line: &str) -> ServeSettings {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ensile-net/tests/certificates");
    let [pem, key] = ["server.pem", "server.key"].map(|name| folder.join(name).display().to_string());
    let options = options(&format!("{line} --tls-cert-file {pem} --tls-key-file {key}"));
    ServeSettings::new(options).expect("it is possible")
}

#[test]
fn port_zero_beside_a_port_for_tls_is_no_port_as_in_redis() {
    let beside = |settings: ServeSettings| settings.tls.map(|tls| tls.beside.map(|address| address.port()));
    let settings = with_certificate("--port 0 --tls-port 7000");
    assert_eq!(settings.address.port(), 7000, "all clients have TLS");
    assert_eq!(beside(settings), Some(None));
    let settings = with_certificate("--port 7001 --tls-port 7000");
    assert_eq!(settings.address.port(), 7001);
    assert_eq!(beside(settings), Some(Some(7000)));
    let settings = with_certificate("--port 0 --tls-port 0");
    assert_eq!(settings.address.port(), 0, "any free port");
    assert_eq!(beside(settings), None, "a port of zero for TLS is no port");
}
