//! The URL service: its commands, its partitions, and what a crash leaves.

use std::sync::Arc;

use ensile_objects::{ObjectsBuilder, ObjectsResult};
use ensile_services::his::HostService;
use ensile_services::partition::Partition;
use ensile_services::pht::PersistentTable;
use ensile_services::server::LIMITS;
use ensile_services::ups::{UrlOperation, UrlProperties, UrlService};
use ensile_sim::SimDisk;

use crate::rig::Rig;

fn whole(objects: ObjectsBuilder) -> ObjectsResult<UrlService> {
    UrlService::open(objects, Partition::WHOLE)
}

fn second_of_three(objects: ObjectsBuilder) -> ObjectsResult<UrlService> {
    UrlService::open(objects, Partition::new(1, 3).expect("it is one of three"))
}

const A: &str = "http://a.example/";

#[test]
fn its_commands_change_and_show_a_url() {
    let mut rig = Rig::new(1, whole);
    let talk = [
        (format!("UPS.GET {A}"), "-"),
        (format!("UPS.CRAWLED {A} 100 LANGUAGE DE modified 50"), ":1"),
        (format!("UPS.CRAWLED {A} 90 LANGUAGE en"), ":2"),
        (format!("UPS.FAILED {A}"), ":1"),
        (format!("UPS.FAILED {A}"), ":2"),
        (format!("UPS.COUNT {A} inlinks 5"), ":5"),
        (format!("UPS.COUNT {A} CLICKS -7"), ":-7"),
        (format!("UPS.COUNT {A} none 5"), "!ERR a counter is one of inlinks, outlinks, clicks, duplicates"),
        (format!("UPS.COUNT {A} inlinks 9223372036854775807"), "!ERR increment or decrement would overflow"),
        (format!("UPS.CLASSIFY {A} 6 0"), ":6"),
        (format!("UPS.CLASSIFY {A} 1 2"), ":5"),
        (format!("UPS.CLASSIFY {A} -1 2"), "!ERR value is not an integer or out of range"),
        (format!("UPS.CRAWLED {A} 100 LANGUAGE"), "!ERR syntax error"),
        (format!("UPS.CRAWLED {A} 100 LANGUAGE x1"), "!ERR a language or country is two letters"),
        (
            format!("UPS.MGET {A} none"),
            "[[crawled :100 modified :50 language de crawls :2 failures :2 classes :5 inlinks :5 outlinks :0 \
             clicks :-7 duplicates :0] -]",
        ),
        (format!("UPS.CRAWLED {A} 200"), ":3"),
        (
            format!("UPS.GET {A}"),
            "[crawled :200 modified :50 language de crawls :3 failures :0 classes :5 inlinks :5 outlinks :0 \
             clicks :-7 duplicates :0]",
        ),
        ("UPS.PARTITION".to_owned(), "[:0 :1]"),
        (format!("UPS.FORGET {A}"), ":1"),
        (format!("UPS.FORGET {A}"), ":0"),
        (format!("UPS.GET {A}"), "-"),
    ];
    let lines: Vec<&str> = talk.iter().map(|(line, _)| line.as_str()).collect();
    for ((line, wanted), said) in talk.iter().zip(rig.told(&lines)) {
        assert_eq!(said, *wanted, "{line}");
    }
}

#[test]
fn a_process_refuses_urls_of_other_partitions() {
    let mut rig = Rig::new(2, second_of_three);
    let mut own = 0;
    for number in 0..30 {
        let url = format!("http://host{number}.example/");
        let of = Partition::number_for_key(url.as_bytes(), 3);
        let said = rig.told(&[&format!("UPS.FAILED {url}"), &format!("UPS.GET {url}")]);
        if of == 1 {
            own += 1;
            assert_eq!(said[0], ":1");
        } else {
            let refused =
                format!("!WRONGPARTITION it belongs to partition {of}, and this is partition 1 of 3");
            assert_eq!(said, [refused.as_str(), refused.as_str()]);
        }
    }
    assert!(own > 0, "some are its own");
    assert_eq!(rig.told(&["UPS.PARTITION"]), ["[:1 :3]"]);
}

/// What the folder is opened for, and what it is refused for.
#[test]
fn i5_a_folder_is_opened_by_its_service_and_partition_alone() {
    let open = |disk: &SimDisk| ObjectsBuilder::new("/").disk(Arc::new(disk.mounted())).without_threads();
    let partition = |this, all| Partition::new(this, all).expect("there is one");
    let urls = |disk: &SimDisk, this, all| UrlService::open(open(disk), partition(this, all)).map(drop);
    let disk = SimDisk::new();
    urls(&disk, 1, 3).expect("is new");
    for (refused, with) in [
        (urls(&disk, 0, 3), "for \"ensile-ups, partition 0 of 3\""),
        (urls(&disk, 1, 4), "for \"ensile-ups, partition 1 of 4\""),
        (HostService::open(open(&disk)).map(drop), "for \"ensile-his\""),
        (PersistentTable::open(open(&disk)).map(drop), "for \"ensile-pht\""),
    ] {
        let said = refused.expect_err("is another one's").to_string();
        let found = "is the folder of \"ensile-ups, partition 1 of 3\", and was opened ";
        assert!(said.contains(&format!("{found}{with}")), "{said}");
    }
    urls(&disk, 1, 3).expect("is its own");
    let disk = SimDisk::new();
    HostService::open(open(&disk)).map(drop).expect("is new");
    let said = urls(&disk, 0, 1).expect_err("is another one's").to_string();
    assert!(said.contains("is the folder of \"ensile-his\""), "{said}");
    let disk = SimDisk::new();
    PersistentTable::open(open(&disk)).map(drop).expect("is new");
    let said = HostService::open(open(&disk)).map(drop).expect_err("is another one's").to_string();
    assert!(said.contains("is the folder of \"ensile-pht\""), "{said}");
}

/// A folder of a version before names is in the place of another partition's.
#[test]
fn i5_a_nameless_folder_of_another_partition_gets_no_name() {
    let open = |disk: &SimDisk| ObjectsBuilder::new("/").disk(Arc::new(disk.mounted())).without_threads();
    let nameless = |disk: &SimDisk| open(disk).open::<Vec<u8>, UrlProperties>().expect("is for any");
    let urls = |disk: &SimDisk, this| {
        UrlService::open(open(disk), Partition::new(this, 3).expect("there is one")).map(drop)
    };
    let name = |disk: &SimDisk| {
        let text = String::from_utf8(disk.bytes("MANIFEST")).expect("text");
        text.lines().find_map(|line| line.strip_prefix("application ")).map(str::to_owned)
    };
    let of_second =
        |number: &u32| Partition::number_for_key(format!("http://host{number}.example/").as_bytes(), 3) == 1;
    let url = format!("http://host{}.example/", (0..).find(of_second).expect("one in three"));
    // In the log, and in a checkpoint alone.
    for has_checkpoint in [false, true] {
        let disk = SimDisk::new();
        let old = nameless(&disk);
        let _ = old.submit(url.clone().into_bytes(), &UrlOperation::Failed).expect("logs");
        if has_checkpoint {
            let checkpoint = old.checkpoint();
            while checkpoint.outcome().is_none() {
                old.heartbeat_step();
                let _ = old.logger_step(0);
                let _ = old.checkpoint_step(0);
            }
        }
        old.close().expect("closes");
        let before: Vec<_> = disk.files();
        for other in [0, 2] {
            let said = urls(&disk, other).expect_err("is another one's").to_string();
            assert!(
                said.contains(&format!("the folder has object {url}, which is none of this program's")),
                "{said}"
            );
            let why =
                format!("it belongs to partition 1, and this is partition {other} of 3; nothing was changed");
            assert!(said.contains(&why), "{said}");
        }
        // One of another service, whose codecs do not take what is there.
        let said = PersistentTable::open(open(&disk)).map(drop).expect_err("is another one's").to_string();
        let is_told = said.contains("not understood") || said.contains("a collection's objects");
        assert!(is_told, "{said}");
        assert_eq!((name(&disk), disk.files()), (None, before), "checkpoint: {has_checkpoint}");
        urls(&disk, 1).expect("is its own");
        assert_eq!(name(&disk).as_deref(), Some("ensile-ups, partition 1 of 3"));
    }
}

#[test]
fn a_power_cut_leaves_what_was_confirmed() {
    for seed in 0..10 {
        let disk = SimDisk::new();
        let mut rig = Rig::on(&disk, seed, whole, LIMITS);
        let said = rig.told(&[
            "UPS.CRAWLED a 5",
            "UPS.COUNT a clicks 2",
            "UPS.CRAWLED b 6",
            "BGSAVE",
            "UPS.FORGET b",
        ]);
        assert_eq!(said, [":1", ":2", ":1", "+Background saving started", ":1"]);
        rig.steps(seed * 5);
        assert_eq!(rig.told(&["UPS.COUNT a clicks 3"]), [":5"]);
        drop(rig);
        disk.crash(seed);
        let mut rig = Rig::on(&disk, seed, whole, LIMITS);
        let said = rig.told(&["UPS.GET a", "UPS.GET b"]);
        let a = "[crawled :5 modified :0 language  crawls :1 failures :0 classes :0 inlinks :0 outlinks :0 clicks :5 \
                 duplicates :0]";
        assert_eq!(said, [a, "-"]);
    }
}
