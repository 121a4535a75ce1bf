//! What the command line takes and what it refuses, and with which words.
//!
//! Neighbours: [`super`].

use clap::Parser;

use super::Bench;
use crate::Mix;
use crate::driver::Pace;
use crate::system::SystemKind;
use crate::tpcc::flags::ReadMode;

#[derive(Debug, Parser)]
struct Command {
    #[command(subcommand)]
    bench: Bench,
}

fn parse(line: &str) -> Result<Bench, String> {
    Command::try_parse_from(std::iter::once("bench").chain(line.split_whitespace()))
        .map(|command| command.bench)
        .map_err(|error| error.to_string())
}

#[test]
fn the_promised_lines_parse() {
    let line = "ycsb --systems memsilo,btreemap --records 10 --threads 2 --batch 16 --seconds 0.5 --rounds 5 --json \
                --data /tmp/d --workload a --distribution zipfian --value-bytes 8 --load-order random --pin";
    let Bench::Ycsb(ycsb) = parse(line).expect("it parses") else { panic!("not ycsb") };
    assert_eq!(ycsb.run.systems, [SystemKind::Memsilo, SystemKind::Btreemap]);
    assert_eq!((ycsb.records, ycsb.run.threads, ycsb.run.batch, ycsb.run.rounds), (10, 2, 16, 5));
    assert!(ycsb.run.json && ycsb.run.pin);

    let Bench::Tpcc(tpcc) =
        parse("tpcc --crash-after 3 --repeat 100 --mix 45/43/4/4/4 --stock-level serializable")
            .expect("it parses")
    else {
        panic!("not tpcc")
    };
    assert_eq!((tpcc.crash_after, tpcc.repeat), (Some(3.0), 100));
    assert_eq!(tpcc.business.mix, Mix([45, 43, 4, 4, 4]));
    assert_eq!(tpcc.business.flags().stock_level, ReadMode::Serializable);
    assert_eq!(tpcc.business.flags().order_status, ReadMode::Snapshot);
    for line in
        ["latency", "snapshots --records 10", "open-transaction --seconds 60", "tpcc --warehouses 2 --check"]
    {
        parse(line).expect(line);
    }
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    for (line, reason) in [
        ("ycsb --systems oracle", "possible values: memsilo, memsilo-processes, silo, key-value, btreemap"),
        ("ycsb --records 0", "0 is not in 1.."),
        ("ycsb --threads 0", "0 is not in 1.."),
        ("ycsb --seconds soon", "a number of seconds is due"),
        ("ycsb --seconds 0", "between 0.01"),
        ("ycsb --distribution latest", "possible values: uniform, zipfian"),
        ("tpcc --mix 1,2,3", "five shares are due"),
        ("tpcc --mix 0,0,0,0,0", "all 0"),
        ("tpcc --repeat 2", "--crash-after"),
        ("tpcc --warehouses 0", "0 is not in 1.."),
    ] {
        let error = parse(line).expect_err(line);
        assert!(error.contains(reason), "{line}: {error}");
    }
}

#[test]
fn what_is_said_to_a_process_of_its_own_parses_to_the_same() {
    let line =
        "tpcc --warehouses 4 --threads 2 --mix 1,2,3,4,5 --remote 7 --stock-level serializable --epoch-ms 20";
    let Bench::Tpcc(tpcc) = parse(line).expect("it parses") else { panic!("not tpcc") };
    let mut words = vec!["tpcc".to_owned()];
    words.extend(tpcc.run.for_process(3));
    words.extend(tpcc.business.words(2));
    let Bench::Tpcc(said) = parse(&words.join(" ")).expect("it parses") else { panic!("not tpcc") };
    assert_eq!(format!("{:?}", said.business.flags()), format!("{:?}", tpcc.business.flags()));
    assert_eq!((said.business.warehouses, said.run.threads, said.run.seed), (2, 1, tpcc.run.seed + 3));
    assert_eq!((said.run.epoch_ms, said.run.plan().pace), (20, Pace::Conducted));
}
