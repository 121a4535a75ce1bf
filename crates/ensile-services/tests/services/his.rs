//! The host service: its commands, bursts, and what a crash leaves.

use ensile_services::his::HostService;
use ensile_services::server::LIMITS;
use ensile_sim::SimDisk;

use crate::rig::Rig;

#[test]
fn its_commands_change_and_show_a_host() {
    let mut rig = Rig::new(1, HostService::open);
    let talk = [
        ("HIS.GET a.example", "-"),
        ("HIS.ADD a.example 3", ":3"),
        ("HIS.DAILY a.example 20000 DE 100 8000", ":1"),
        ("HIS.DAILY a.example 20000 de 101 8000", ":1"),
        ("HIS.DAILY a.example 19999 fr 1 1", ":0"),
        ("HIS.GET a.example", "[day :20000 days :1 country de urls :101 delay :8000]"),
        ("HIS.ADD a.example -2", ":99"),
        ("HIS.DELAY a.example 16000", ":9000"),
        ("HIS.DELAY b.example 16000", ":16000"),
        ("HIS.DAILY a.example 20001 de 99 9000", ":1"),
        ("HIS.DAILY a.example 20001 d 99 9000", "!ERR a language or country is two letters"),
        ("HIS.DAILY a.example -1 de 99 9000", "!ERR value is not an integer or out of range"),
        ("HIS.ADD a.example 9223372036854775807", "!ERR increment or decrement would overflow"),
        (
            "HIS.MGET a.example b.example none",
            "[[day :20001 days :2 country de urls :99 delay :9000] [day :0 days :0 country  urls :0 delay :16000] -]",
        ),
        ("HIS.FORGET a.example", ":1"),
        ("HIS.FORGET a.example", ":0"),
        ("HIS.GET a.example", "-"),
    ];
    let lines: Vec<&str> = talk.iter().map(|(line, _)| *line).collect();
    for ((line, wanted), said) in talk.iter().zip(rig.told(&lines)) {
        assert_eq!(said, *wanted, "{line}");
    }
}

#[test]
fn a_power_cut_leaves_what_was_confirmed() {
    for seed in 0..10 {
        let disk = SimDisk::new();
        let mut rig = Rig::on(&disk, seed, HostService::open, LIMITS);
        let said =
            rig.told(&["HIS.DAILY a 5 de 10 20", "HIS.ADD a 1", "HIS.ADD b 1", "BGSAVE", "HIS.FORGET b"]);
        assert_eq!(said, [":1", ":11", ":1", "+Background saving started", ":1"]);
        rig.steps(seed * 5);
        assert_eq!(rig.told(&["HIS.ADD a 1"]), [":12"]);
        drop(rig);
        disk.crash(seed);
        let mut rig = Rig::on(&disk, seed, HostService::open, LIMITS);
        assert_eq!(
            rig.told(&["HIS.GET a", "HIS.GET b"]),
            ["[day :5 days :1 country de urls :12 delay :20]", "-"]
        );
    }
}
