//! The services as processes on the machine's sockets and disk, with their clients: ended in order and started again;
//! over io_uring, where the kernel allows it, and over epoll.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use ensile_disk::{Disk, RealDisk};
use ensile_durability::{AdoptOptions, adopt, adopt_with};
use ensile_net::{MachineTransport, TransportChoice};
use ensile_objects::ObjectsBuilder;
use ensile_resp::Reply;
use ensile_services::client::{ClientError, HostClient, RespClient, TableClient, UrlClient, in_words};
use ensile_services::his::{DailyFigures, HostInformation};
use ensile_services::ups::UrlProperties;

/// Each test once for each transport, by its name on the command line.
macro_rules! over_both_transports {
    ($($name:ident)*) => {
        mod epoll {
            $(#[test] fn $name() { super::$name("epoll"); })*
        }

        mod io_uring {
            $(#[test] fn $name() { super::with_io_uring(super::$name); })*
        }
    };
}

over_both_transports! {
    a_table_is_there_again_after_an_end_and_after_a_kill
    a_process_safe_server_that_is_killed_has_lost_nothing_that_it_replied
    b4_a_server_of_an_adopted_copy_says_at_its_start_what_it_has_not
    a_server_without_a_log_keeps_what_a_checkpoint_has
    a_signal_ends_a_server_in_order
    two_servers_of_several_loops_do_not_share_an_address
    urls_are_partitioned_over_processes
    a_days_burst_reaches_every_host
    a_server_tells_its_transport
    strict_replies_of_many_clients_come_before_the_end
    i5_a_start_that_is_refused_has_given_the_folder_no_name_and_one_that_gives_it_says_so
}

/// Runs a test over io_uring. Where the kernel refuses it, says so where nothing holds it back, and passes.
pub(crate) fn with_io_uring(test: fn(&'static str)) {
    match MachineTransport::new(TransportChoice::IoUring) {
        Ok(_) => test("io-uring"),
        Err(refused) => {
            let name = std::thread::current().name().unwrap_or("a test").to_owned();
            writeln!(std::io::stderr(), "{name} is passed over: {refused}").expect("it is open");
        }
    }
}

/// A folder for the processes of a test, and their transport; removed with this.
pub(crate) struct Folder(PathBuf, &'static str);

impl Folder {
    pub(crate) fn new(name: &str, transport: &'static str) -> Self {
        let name = format!("ensile-services-{name}-{transport}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("it can be made");
        Self(path, transport)
    }

    fn command(&self, line: &str) -> Command {
        self.command_at(line, "127.0.0.1:0")
    }

    fn command_at(&self, line: &str, listen: &str) -> Command {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let data = self.0.join(words.remove(1));
        let mut command = Command::new(env!("CARGO_BIN_EXE_ensile-service"));
        command.args(&words).args(["--listen", listen, "--transport", self.1, "--data"]).arg(data);
        command
    }

    pub(crate) fn start(&self, line: &str) -> Server {
        let mut process = self.command(line).stdout(Stdio::piped()).spawn().expect("it was built");
        let mut told = String::new();
        BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut told).expect("it tells");
        Server { process, address: told.trim().parse().expect("its address") }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process; killed with this.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    fn ends_well(&mut self) {
        assert!(self.process.wait().expect("it is a child").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn i5_a_start_that_is_refused_has_given_the_folder_no_name_and_one_that_gives_it_says_so(
    transport: &'static str,
) {
    let folder = Folder::new("name", transport);
    let data = folder.0.join("urls");
    // As a version before names has left it.
    ObjectsBuilder::new(&data).open::<Vec<u8>, UrlProperties>().expect("is new").close().expect("closes");
    let name = || {
        let text = std::fs::read_to_string(data.join("MANIFEST")).expect("is there");
        text.lines().find_map(|line| line.strip_prefix("application ")).map(str::to_owned)
    };
    let said = |mut command: Command| {
        let output = command.output().expect("it was built");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = taken.local_addr().expect("its address").to_string();
    for loops in [1, 2] {
        let why = said(folder.command_at(&format!("ups urls --loops {loops}"), &at));
        assert!(why.contains(&format!("{at}: ")) && why.contains("choose another address"), "{why}");
    }
    let why = said(folder.command("ups urls --partition 4 --partitions 4"));
    assert!(why.contains("there is no partition 4 of 4"), "{why}");
    let why = said(folder.command("pht urls --partition 1 --partitions 4"));
    assert!(why.contains("are for ups"), "{why}");
    assert_eq!(name(), None, "nothing was changed");
    let why = said(folder.command_at("ups new", &at));
    assert!(!folder.0.join("new").exists(), "{why}");

    let mut process = folder.command("ups urls --partition 1 --partitions 4");
    let mut process = process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
    let (out, err) = (process.stdout.take().expect("is piped"), process.stderr.take().expect("is piped"));
    let mut address = String::new();
    BufReader::new(out).read_line(&mut address).expect("it tells");
    let mut server = Server { process, address: address.trim().parse().expect("its address") };
    server.process.kill().expect("it runs");
    let mut told = String::new();
    BufReader::new(err).read_to_string(&mut told).expect("is read");
    let given = "urls had no name, and is the folder of \"ensile-ups, partition 1 of 4\" from now on";
    assert!(told.contains(given) && told.contains("`ensile objects name`"), "{told}");
    assert_eq!(name().as_deref(), Some("ensile-ups, partition 1 of 4"));
}

/// Whether these figures have this line.
fn told(figures: Reply<'_>, line: &str) -> Option<bool> {
    match figures {
        Reply::Bulk(text) | Reply::Verbatim(_, text) => {
            Some(String::from_utf8_lossy(text).lines().any(|told| told == line))
        }
        _ => None,
    }
}

fn integer(reply: Reply<'_>) -> Option<i64> {
    if let Reply::Integer(number) = reply { Some(number) } else { None }
}

fn a_table_is_there_again_after_an_end_and_after_a_kill(transport: &'static str) {
    let folder = Folder::new("pht", transport);
    let mut server = folder.start("pht table --loops 2");
    let mut client = TableClient::connect(server.address).expect("it listens");
    client.set(b"a", b"1").expect("it serves");
    assert!(client.compare_and_set(b"a", Some(b"1"), b"2").expect("it serves"));
    assert!(!client.compare_and_set(b"a", Some(b"1"), b"3").expect("it serves"));
    assert!(!client.compare_and_set(b"a", None, b"3").expect("it serves"));
    assert!(client.compare_and_set(b"b", None, b"10").expect("it serves"));
    client.shut_down().expect("it ends");
    server.ends_well();
    let server = folder.start("pht table");
    let mut client = TableClient::connect(server.address).expect("it listens");
    assert_eq!(client.increment(b"b", -3).expect("it serves"), 7);
    assert!(client.delete(b"a").expect("it serves"));
    drop(server);
    let refused = client.get(b"b").expect_err("it was killed");
    assert!(matches!(refused, ClientError::Connection(_)), "{refused}");
    let server = folder.start("pht table");
    let mut client = TableClient::connect(server.address).expect("it listens");
    let all = client.get_many(&[b"a", b"b"]).expect("it serves");
    assert_eq!(all, [None, Some(b"7".to_vec())]);
    assert_eq!(client.scan(0, 1 << 20).expect("it serves"), (0, vec![b"b".to_vec()]));
    let refused = client.increment(b"b", i64::MAX).expect_err("it is too much");
    assert_eq!(refused.to_string(), "the server replied: ERR increment or decrement would overflow");
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("it can be made");
    for entry in std::fs::read_dir(from).expect("it is there") {
        let path = entry.expect("it is there").path();
        let to = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy_folder(&path, &to);
        } else {
            std::fs::copy(&path, to).expect("is copied");
        }
    }
}

fn b4_a_server_of_an_adopted_copy_says_at_its_start_what_it_has_not(transport: &'static str) {
    let folder = Folder::new("copied", transport);
    // No epoch closes by itself before the kill.
    let server = folder.start("pht table --durability process --epoch-ms 60000");
    let mut client = TableClient::connect(server.address).expect("it listens");
    (0..10).for_each(|number: u32| client.set(&number.to_le_bytes(), b"1").expect("it serves"));
    drop(server);
    let copy = folder.0.join("copy");
    copy_folder(&folder.0.join("table"), &copy);
    let on: Arc<dyn Disk> = Arc::new(RealDisk::open_existing(&copy).expect("it is there"));
    let refused = adopt(&on).map(drop).expect_err("it would lose something").to_string();
    assert!(
        refused.contains("acknowledged at the level Process (log0/buffer-")
            && refused.contains("open the original in its place"),
        "{refused}"
    );
    adopt_with(&on, AdoptOptions { without_buffers: true }).expect("is agreed to");
    drop(on);
    let mut process = folder.command("pht copy");
    let mut process = process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
    let mut told = String::new();
    BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut told).expect("it tells");
    let mut said = process.stderr.take().expect("it is piped");
    let server = Server { process, address: told.trim().parse().expect("its address") };
    let mut client = TableClient::connect(server.address).expect("it listens");
    assert_eq!(client.connection().call(&["DBSIZE"], integer).expect("it serves"), 0);
    let told = figures(&mut client);
    assert!(told.contains("recovery_not_proven:results above epoch "), "{told}");
    drop(server);
    let mut errors = String::new();
    said.read_to_string(&mut errors).expect("it is text");
    assert!(
        errors.contains("ensile-service: results above epoch ") && errors.contains("the folder is a copy"),
        "{errors}"
    );
    // The original has it all.
    let server = folder.start("pht table");
    let mut client = TableClient::connect(server.address).expect("it listens");
    assert_eq!(client.connection().call(&["DBSIZE"], integer).expect("it serves"), 10);
}

fn a_signal_ends_a_server_in_order(transport: &'static str) {
    let folder = Folder::new("signal", transport);
    for (signal, count) in [("TERM", 1), ("INT", 2)] {
        // No epoch closes by itself before the end.
        let mut server = folder.start("pht table --durability relaxed --epoch-ms 60000 --loops 2");
        let mut client = TableClient::connect(server.address).expect("it listens");
        assert_eq!(client.increment(b"lives", 1).expect("it serves"), count);
        let pid = server.process.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().expect("it is there").success());
        server.ends_well();
    }
}

fn two_servers_of_several_loops_do_not_share_an_address(transport: &'static str) {
    let folder = Folder::new("address", transport);
    let server = folder.start("pht first --loops 2");
    let mut second = folder.command_at("pht second --loops 2", &server.address.to_string());
    let second = second.output().expect("it was built");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && said.contains("in use"), "{said}");
}

fn a_process_safe_server_that_is_killed_has_lost_nothing_that_it_replied(transport: &'static str) {
    let folder = Folder::new("process-safe", transport);
    // No epoch closes by itself before the kill, so a relaxed server would lose all of it.
    let line = "--durability process --epoch-ms 60000";
    let server = folder.start(&format!("pht table {line}"));
    let mut client = TableClient::connect(server.address).expect("it listens");
    assert!(
        client.connection().call(&["INFO"], |reply| told(reply, "durability:process")).expect("it serves")
    );
    (0..100).for_each(|number: u32| {
        client.set(&number.to_le_bytes(), b"1").expect("it serves");
        assert_eq!(client.increment(b"count", 1).expect("it serves"), i64::from(number) + 1);
    });
    assert!(client.delete(&7_u32.to_le_bytes()).expect("it serves"));
    drop(server);
    let server = folder.start(&format!("ups urls {line}"));
    let mut urls = UrlClient::connect(&[server.address]).expect("it listens");
    assert_eq!(urls.count(b"http://a.example/", 0, 3).expect("it serves"), 3);
    drop(server);
    let server = folder.start(&format!("his hosts {line}"));
    let mut hosts = HostClient::connect(server.address).expect("it listens");
    assert_eq!(hosts.add(b"a.example", 4).expect("it serves"), 4);
    drop(server);
    let server = folder.start("pht table");
    let mut client = TableClient::connect(server.address).expect("it listens");
    assert_eq!(client.get(b"count").expect("it serves"), Some(b"100".to_vec()));
    assert_eq!(client.connection().call(&["DBSIZE"], integer).expect("it serves"), 100);
    let server = folder.start("ups urls");
    let mut urls = UrlClient::connect(&[server.address]).expect("it listens");
    assert_eq!(urls.count(b"http://a.example/", 0, 1).expect("it serves"), 4);
    let server = folder.start("his hosts");
    let mut hosts = HostClient::connect(server.address).expect("it listens");
    assert_eq!(hosts.add(b"a.example", 1).expect("it serves"), 5);
}

fn a_server_without_a_log_keeps_what_a_checkpoint_has(transport: &'static str) {
    let folder = Folder::new("no-log", transport);
    let mut server = folder.start("pht table --no-log");
    let mut client = TableClient::connect(server.address).expect("it listens");
    client.set(b"kept", b"1").expect("it serves");
    client.connection().call(&["BGSAVE"], |_| Some(())).expect("it serves");
    while !client
        .connection()
        .call(&["INFO"], |reply| told(reply, "checkpoints_installed:1"))
        .expect("it serves")
    {}
    client.set(b"lost", b"1").expect("it serves");
    client.shut_down().expect("it ends");
    server.ends_well();
    let server = folder.start("pht table");
    let mut client = TableClient::connect(server.address).expect("it listens");
    let all = client.get_many(&[b"kept", b"lost"]).expect("it serves");
    assert_eq!(all, [Some(b"1".to_vec()), None]);
    drop(server);
}

#[test]
fn what_a_command_line_cannot_mean_is_said_before_anything_is_opened() {
    let folder = Folder::new("refused", "auto");
    let refused = |line: &str, names: &str| {
        let refused = folder.command(line).output().expect("it was built");
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && told.contains(names), "{line}: {told}");
    };
    refused("pht table --no-log --durability strict", "--durability");
    refused(
        "pht table --adaptive 1000 --adaptive-lower 9 --adaptive-upper 8",
        "lower bound is above its upper",
    );
    refused("ups table --partition 2 --partitions 2", "--partition is a number below --partitions");
    assert!(!folder.0.join("table").exists());
}

/// All lines of `INFO`.
fn figures(client: &mut TableClient) -> String {
    client.connection().call(&["INFO"], |reply| Some(in_words(reply))).expect("it serves")
}

#[test]
fn when_checkpoints_begin_and_why_not_is_told() {
    let folder = Folder::new("figures", "epoll");
    let server = folder.start("pht adaptive --adaptive 1000 --adaptive-window-ms 3600000");
    let mut client = TableClient::connect(server.address).expect("it listens");
    client.set(b"a", b"1").expect("it serves");
    let told = figures(&mut client);
    let lines = ["capacity:1000", "log_records_threshold:1000000", "load:0.0000", "checkpoints_installed:0"];
    for line in lines {
        assert!(told.lines().any(|told| told == line), "{line} in {told}");
    }
    assert!(!told.contains("recovery_unreachable"), "{told}");
    client.connection().call(&["BGSAVE"], |_| Some(())).expect("it serves");
    while !figures(&mut client).contains("checkpoint_last_reason:demand\r\n") {}
    let told = figures(&mut client);
    for line in ["checkpoint_last_load:0.0000", "checkpoint_last_threshold:1000000"] {
        assert!(told.lines().any(|told| told == line), "{line} in {told}");
    }
    drop(server);

    // No recovery takes so little, even of an empty folder.
    let mut command = folder.command("pht target --recovery-ms 1");
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut line).expect("it tells");
    let mut server = Server { process, address: line.trim().parse().expect("its address") };
    let mut client = TableClient::connect(server.address).expect("it listens");
    let why = "a recovery time of 1ms cannot be kept: loading the checkpoint alone takes";
    let told = figures(&mut client);
    assert!(told.contains(&format!("recovery_unreachable:{why}")), "{told}");
    assert!(told.contains("recovery_target_ms:1\r\n"), "{told}");
    client.shut_down().expect("it ends");
    let mut said = String::new();
    server.process.stderr.take().expect("it is piped").read_to_string(&mut said).expect("it tells");
    assert!(said.contains(why), "{said}");
    server.ends_well();
}

fn urls_are_partitioned_over_processes(transport: &'static str) {
    let folder = Folder::new("ups", transport);
    let start = |number| folder.start(&format!("ups urls-{number} --partition {number} --partitions 2"));
    let mut servers = [start(0), start(1)];
    let addresses = [servers[0].address, servers[1].address];
    let wrong = UrlClient::connect(&[addresses[1], addresses[0]]).expect_err("they are in another order");
    assert!(matches!(wrong, ClientError::Unexpected(_)), "{wrong}");
    let mut client = UrlClient::connect(&addresses).expect("they listen");
    let urls: Vec<String> = (0..40).map(|number| format!("http://host{number}.example/")).collect();
    for url in &urls {
        assert_eq!(client.record_crawl(url.as_bytes(), 100, 50, Some(*b"de")).expect("it serves"), 1);
        assert_eq!(client.count(url.as_bytes(), 2, 3).expect("it serves"), 3);
        assert_eq!(client.classify(url.as_bytes(), 5, 0).expect("it serves"), 5);
    }
    assert!(client.forget(urls[0].as_bytes()).expect("it serves"));
    assert_eq!(client.record_failure(urls[1].as_bytes()).expect("it serves"), 1);
    client.shut_down().expect("they end");
    servers.iter_mut().for_each(Server::ends_well);
    let servers = [start(0), start(1)];
    let mut client = UrlClient::connect(&[servers[0].address, servers[1].address]).expect("they listen");
    assert_eq!(client.get(urls[0].as_bytes()).expect("it serves"), None);
    let url = client.get(urls[1].as_bytes()).expect("it serves").expect("it is there");
    assert_eq!((url.crawled, url.modified, url.crawls, url.failures), (100, 50, 1, 1));
    assert_eq!((url.classes, url.counters, url.language), (5, [0, 0, 3, 0], *b"de"));
    let all: Vec<&[u8]> = urls.iter().map(String::as_bytes).chain([&b"none"[..]]).collect();
    let found = client.get_many(&all).expect("they serve");
    assert_eq!((found.len(), &found[0], &found[1], &found[40]), (41, &None, &Some(url), &None));
    assert!(found[2..40].iter().flatten().all(|url| url.crawls == 1 && url.failures == 0), "{found:?}");
    assert_eq!(found.iter().flatten().count(), 39);
    assert_eq!(client.get_many(&[]).expect("nothing is asked"), []);
}

fn a_days_burst_reaches_every_host(transport: &'static str) {
    let folder = Folder::new("his", transport);
    let mut server = folder.start("his hosts");
    let mut client = HostClient::connect(server.address).expect("it listens");
    let hosts: Vec<String> = (0..1000).map(|number| format!("host{number}.example")).collect();
    let figures = DailyFigures { day: 20_000, country: *b"de", urls: 5, delay_micros: 900 };
    let burst = || hosts.iter().map(|host| (host.as_bytes(), figures));
    assert_eq!(client.daily(burst()).expect("it serves"), 1000);
    let late = burst().map(|(host, figures)| (host, DailyFigures { day: 19_999, ..figures }));
    assert_eq!(client.daily(late).expect("it serves"), 0, "they come too late");
    assert_eq!(client.add(b"host7.example", 2).expect("it serves"), 7);
    assert_eq!(client.delay(b"host7.example", 1700).expect("it serves"), 1000);
    assert!(client.forget(b"host8.example").expect("it serves"));
    client.shut_down().expect("it ends");
    server.ends_well();
    let server = folder.start("his hosts");
    let mut client = HostClient::connect(server.address).expect("it listens");
    let wanted = HostInformation { day: 20_000, days: 1, country: *b"de", urls: 7, delay_micros: 1000 };
    assert_eq!(client.get(b"host7.example").expect("it serves"), Some(wanted.clone()));
    assert_eq!(client.get(b"host8.example").expect("it serves"), None);
    let several = client.get_many(&[b"host7.example", b"host8.example"]).expect("it serves");
    assert_eq!(several, [Some(wanted), None]);
    assert_eq!(client.get_many(&[]).expect("nothing is asked"), []);
    assert!(client.get(b"host999.example").expect("it serves").is_some());
}

fn a_server_tells_its_transport(transport: &'static str) {
    let folder = Folder::new("transport", transport);
    let mut command = folder.command("pht table --loops 2");
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut line).expect("it tells");
    let mut server = Server { process, address: line.trim().parse().expect("its address") };
    let mut client = TableClient::connect(server.address).expect("it listens");
    let in_use = transport.replace('-', "_");
    let figure = format!("transport:{in_use}");
    assert!(client.connection().call(&["INFO"], |reply| told(reply, &figure)).expect("it serves"));
    client.shut_down().expect("it ends");
    let mut start = String::new();
    let told = server.process.stderr.take().expect("it is piped");
    BufReader::new(told).read_line(&mut start).expect("it tells");
    assert_eq!(start, format!("ensile-service: sockets by {in_use}\n"));
    server.ends_well();
}

fn strict_replies_of_many_clients_come_before_the_end(transport: &'static str) {
    let folder = Folder::new("end", transport);
    let mut server = folder.start("pht table --epoch-ms 60000");
    let mut clients: Vec<_> =
        (0..8).map(|_| TableClient::connect(server.address).expect("it listens")).collect();
    let value = vec![b'v'; 40_000];
    // The first has more to come than one operation sends, and no more than the kernel takes.
    let connection = clients[0].connection();
    connection.request(&[b"SET".as_slice(), b"large", &value]);
    (0..2).for_each(|_| connection.request(&[b"GET".as_slice(), b"large"]));
    connection.send().expect("it is read");
    // The last request of each client makes an element of its own: the server has then read all requests.
    for (number, client) in clients.iter_mut().enumerate() {
        client.connection().request(&["INCR", &format!("count{number}")]);
        client.connection().send().expect("it is read");
    }
    let mut last = TableClient::connect(server.address).expect("it listens");
    // A figure waits for nothing.
    while !last.connection().call(&["INFO"], |reply| told(reply, "elements:9")).expect("it serves") {}
    last.shut_down().expect("it ends");
    server.ends_well();
    for _ in 0..4 {
        clients[0].connection().receive(|_| ()).expect("it was sent before the end");
    }
    for client in &mut clients[1..] {
        client.connection().receive(|_| ()).expect("it was sent before the end");
    }
}

#[test]
fn a_check_replays_a_recorded_folder_of_each_service_and_refuses_anothers() {
    let folder = Folder::new("check", "epoll");
    let options = "--durability relaxed --checkpoint-on-demand";
    let mut table = folder.start(&format!("pht table {options}"));
    let mut client = TableClient::connect(table.address).expect("it connects");
    client.set(b"name", b"value").expect("it sets");
    client.shut_down().expect("it ends");
    table.ends_well();
    for line in ["ups urls --partition 1 --partitions 2", "his hosts"] {
        let mut server = folder.start(&format!("{line} {options}"));
        RespClient::connect(server.address).expect("it connects").shut_down().expect("it ends");
        server.ends_well();
    }
    let check = |service: &str, name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ensile-service"));
        let output =
            command.args(["check", service]).arg(folder.0.join(name)).output().expect("it was built");
        let said =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        (output.status.code(), said)
    };
    let (code, said) = check("pht", "table");
    assert!(code == Some(0) && said.contains("whole; 1 objects, replayed twice"), "{code:?}: {said}");
    for (service, name) in [("ups", "urls"), ("his", "hosts")] {
        let (code, said) = check(service, name);
        assert!(code == Some(0) && said.contains("whole; 0 objects"), "{code:?}: {said}");
    }
    for (service, name) in [("ups", "hosts"), ("his", "urls"), ("pht", "hosts"), ("pht", "nowhere")] {
        let (code, said) = check(service, name);
        assert!(code == Some(2) && said.contains(name), "{service} {name}: {code:?}: {said}");
    }
}
