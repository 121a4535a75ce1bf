//! Services that panic: a command does, within an operation or outside of one; a loop does.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ensile_base::Epoch;
use ensile_objects::{
    CheckpointHandle, ObjectDurability, ObjectReceipt, Objects, ObjectsBuilder, ObjectsResult, ObjectsStats,
    Persistent, RecoveryReport, serde_codec,
};
use ensile_services::server::LIMITS;
use ensile_services::server::threads::{ServerConfig, TransportChoice, serve};
use ensile_services::service::{
    CallResult, CommandCall, CommandInfo, CommandRequest, KeptObjects, Service, ServiceCommand,
};
use ensile_sim::SimDisk;
use serde::{Deserialize, Serialize};

use crate::rig::Rig;

/// A number that one of its operations breaks.
#[derive(Serialize, Deserialize)]
struct FragileNumber(i64);

#[derive(Serialize, Deserialize)]
enum FragileOperation {
    Add(i64),
    Break,
}

impl Persistent for FragileNumber {
    type Operation = FragileOperation;
    type Output = i64;
    serde_codec! { object 1, operation 1 }

    fn apply(number: &mut Option<Self>, operation: &FragileOperation) -> i64 {
        let number = number.get_or_insert(Self(0));
        match operation {
            FragileOperation::Add(by) => number.0 += by,
            FragileOperation::Break => {
                number.0 += 1000;
                panic!("in the midst of an operation");
            }
        }
        number.0
    }
}

/// Numbers, whose load cannot be told at first if that is to fail.
struct FragileNumbers {
    numbers: Objects<Vec<u8>, FragileNumber>,
    fails: AtomicBool,
}

impl KeptObjects for FragileNumbers {
    fn receipt(&self, epoch: Epoch) -> ObjectReceipt<'_> {
        self.numbers.receipt(epoch)
    }

    fn checkpoint(&self) -> CheckpointHandle {
        self.numbers.checkpoint()
    }

    fn stats(&self) -> ObjectsStats {
        self.numbers.stats()
    }

    fn recovery(&self) -> &RecoveryReport {
        KeptObjects::recovery(&self.numbers)
    }

    fn newest_epoch(&self) -> Epoch {
        KeptObjects::newest_epoch(&self.numbers)
    }

    fn report_requests(&self, served: u64, lost: u64) {
        // Relaxed: one loop of all finds it.
        assert!(!self.fails.swap(false, Ordering::Relaxed), "the load cannot be told");
        self.numbers.report_requests(served, lost);
    }

    fn close(&self) -> ObjectsResult<()> {
        self.numbers.close()
    }

    fn step(&self) {
        KeptObjects::step(&self.numbers);
    }
}

struct FragileService {
    kept: FragileNumbers,
}

const fn command(
    name: &'static str,
    arity: i64,
    call: CommandCall<FragileService>,
) -> ServiceCommand<FragileService> {
    let keys = if arity > 1 { (1, 1, 1) } else { (0, 0, 0) };
    ServiceCommand { info: CommandInfo::new(name, arity, &[], keys, ""), call }
}

impl Service for FragileService {
    const NAME: &'static str = "fragile";

    const COMMANDS: &'static [ServiceCommand<Self>] = &[
        command("ADD", 3, |service, request, reply| {
            let by = std::str::from_utf8(request.get(2).expect("a number")).expect("text").parse();
            service.change(request, &FragileOperation::Add(by.expect("a number")), reply)
        }),
        command("BREAK", 2, |service, request, reply| {
            service.change(request, &FragileOperation::Break, reply)
        }),
        command("PANIC", 1, |_, _, reply| {
            reply.array(2);
            panic!("before\r\nanything");
        }),
    ];

    fn persistent_objects(&self) -> &dyn KeptObjects {
        &self.kept
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        assert!(!keys.contains(&b"hint".as_slice()), "a hint cannot be given");
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl FragileService {
    fn open(objects: ObjectsBuilder) -> ObjectsResult<Self> {
        Ok(Self { kept: FragileNumbers { numbers: objects.open()?, fails: AtomicBool::new(false) } })
    }

    fn change(
        &self,
        request: &CommandRequest<'_>,
        operation: &FragileOperation,
        reply: &mut ensile_resp::ReplyEncoder<'_>,
    ) -> CallResult {
        let (sum, receipt) = self.kept.numbers.submit(request.get(1).expect("a key").to_vec(), operation)?;
        request.rests.note(receipt.epoch());
        reply.integer(sum);
        Ok(())
    }
}

/// The beginning of what is said, as far as the words that are wanted go.
fn begins(said: &[String], wanted: &[&str]) {
    assert_eq!(said.len(), wanted.len(), "{said:?}");
    for (said, wanted) in said.iter().zip(wanted) {
        assert!(said.starts_with(wanted), "{said}, where {wanted} was to be");
    }
}

#[test]
fn o6_a_command_that_panics_is_told_and_what_it_broke_is_refused_and_all_else_served() {
    let disk = SimDisk::new();
    let mut rig = Rig::on(&disk, 1, FragileService::open, LIMITS);
    assert_eq!(rig.told(&["ADD hint 1", "ADD c 1"]), [":1", ":1"], "a hint that panics is none");
    let said = rig.told(&["ADD a 1", "BREAK a", "ADD a 1", "ADD b 2", "PANIC", "PING", "INFO"]);
    let broken = "!PANICKED the command panicked (in the midst of an operation): whether it was carried out is unknown";
    let wanted = [
        ":1",
        broken,
        "!POISONED object ",
        ":2",
        "!PANICKED the command panicked (before",
        "+PONG",
        "# Server",
    ];
    begins(&said, &wanted);
    for line in ["panicked_commands:2\r\n", "poisoned_objects:1\r\n"] {
        assert!(said[6].contains(line), "{line} in {}", said[6]);
    }
    // The same operation is made at recovery, and panics again.
    drop(rig);
    disk.crash(1);
    let mut rig = Rig::on(&disk, 1, FragileService::open, LIMITS);
    begins(&rig.told(&["ADD a 1", "ADD b 2"]), &["!POISONED object ", ":4"]);
}

#[test]
fn what_a_panic_tells_waits_until_what_it_may_tell_of_is_durable() {
    let mut rig = Rig::new(2, FragileService::open);
    rig.keeps = false;
    let client = rig.connect();
    rig.clients().send(client, b"BREAK a\r\n");
    rig.steps(50);
    assert_eq!(rig.clients().received_bytes(client), b"", "R1: it is not durable");
    rig.keeps = true;
    rig.run("it is told", |rig| rig.clients().received_bytes(client).starts_with(b"-PANICKED "));
}

#[test]
fn a_loop_that_panics_ends_the_server_which_says_why() {
    for loops in [1, 3] {
        let disk = SimDisk::new();
        let objects = ObjectsBuilder::new("/").disk(Arc::new(disk.mounted())).recovery_threads(1);
        let numbers = objects.open().expect("it opens");
        let service =
            Arc::new(FragileService { kept: FragileNumbers { numbers, fails: AtomicBool::new(true) } });
        let config = ServerConfig {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tls: None,
            unix: None,
            loops,
            transport: TransportChoice::Epoll,
            idle: None,
            keepalive: None,
            client_memory: Some(ensile_services::server::CLIENT_MEMORY_BYTES),
            ended: None,
            ending: || (),
            tell: |notice| panic!("{notice}"),
        };
        let ended: io::Result<()> = serve(Arc::clone(&service), ObjectDurability::Strict, config, |_| Ok(()));
        let told = ended.expect_err("a loop has panicked").to_string();
        assert!(told.starts_with("a loop panicked (the load cannot be told)"), "{told}");
        let refused = service.kept.numbers.submit(b"a".to_vec(), &FragileOperation::Add(1));
        assert!(refused.is_err(), "its objects are closed");
    }
}
