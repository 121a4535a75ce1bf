//! Arguments of a service.
//!
//! Neighbours: [`super::ServeArguments`]; the tests of `checkpoints` have the options of checkpoints.

use clap::Parser;

use super::ServeArguments;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    serve: ServeArguments,
}

fn parsed(words: &str) -> Result<ServeArguments, String> {
    let words = ["service", "pht", "--data", "data"].into_iter().chain(words.split_whitespace());
    Line::try_parse_from(words).map(|line| line.serve).map_err(|error| error.to_string())
}

#[test]
fn a_service_has_a_loop_at_least() {
    assert_eq!(parsed("--loops 2").expect("two").loops, 2);
    for loops in ["0", "1025"] {
        let refused = parsed(&format!("--loops {loops}")).expect_err("no such number of threads");
        assert!(refused.contains("1..=1024"), "{refused}");
    }
}

#[test]
fn an_address_is_a_number_or_a_name() {
    let listen = |text: &str| parsed(&format!("--listen {text}")).map(|serve| serve.listen);
    assert_eq!(listen("127.0.0.1:7000"), Ok("127.0.0.1:7000".parse().expect("an address")));
    let local = listen("localhost:7000").expect("every machine has the name");
    assert!(local.ip().is_loopback() && local.port() == 7000, "{local}");
    for wrong in ["127.0.0.1", "localhost", "127.0.0.1:70000"] {
        let refused = listen(wrong).expect_err("it has no port");
        assert!(refused.contains("give an address as"), "{refused}");
    }
}
