//! The services as processes on the machine's sockets and disk, with their clients: ended in order and started again.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use ensile_services::client::{ClientError, HostClient, TableClient, UrlClient};
use ensile_services::his::{DailyFigures, HostInformation};

/// A folder for the processes of a test; removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ensile-services-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("it can be made");
        Self(path)
    }

    fn start(&self, line: &str) -> Server {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let data = self.0.join(words.remove(1));
        let mut process = Command::new(env!("CARGO_BIN_EXE_ensile-service"))
            .args(&words)
            .args(["--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built");
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
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
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

#[test]
fn a_table_is_there_again_after_an_end_and_after_a_kill() {
    let folder = Folder::new("pht");
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

#[test]
fn urls_are_partitioned_over_processes() {
    let folder = Folder::new("ups");
    let start = |number| folder.start(&format!("ups urls-{number} --partition {number} --partitions 2"));
    let mut servers = [start(0), start(1)];
    let addresses = [servers[0].address, servers[1].address];
    let wrong = UrlClient::connect(&[addresses[1], addresses[0]]).expect_err("they are in another order");
    assert!(matches!(wrong, ClientError::Unexpected(_)), "{wrong}");
    let mut client = UrlClient::connect(&addresses).expect("they listen");
    let urls: Vec<String> = (0..40).map(|number| format!("http://host{number}.example/")).collect();
    for url in &urls {
        assert_eq!(client.crawled(url.as_bytes(), 100, 50).expect("it serves"), 1);
        assert_eq!(client.count(url.as_bytes(), 2, 3).expect("it serves"), 3);
        assert_eq!(client.classify(url.as_bytes(), 5, 0).expect("it serves"), 5);
    }
    assert!(client.forget(urls[0].as_bytes()).expect("it serves"));
    assert_eq!(client.failed(urls[1].as_bytes()).expect("it serves"), 1);
    client.shut_down().expect("they end");
    servers.iter_mut().for_each(Server::ends_well);
    let servers = [start(0), start(1)];
    let mut client = UrlClient::connect(&[servers[0].address, servers[1].address]).expect("they listen");
    assert_eq!(client.get(urls[0].as_bytes()).expect("it serves"), None);
    let url = client.get(urls[1].as_bytes()).expect("it serves").expect("it is there");
    assert_eq!((url.crawled, url.modified, url.crawls, url.failures), (100, 50, 1, 1));
    assert_eq!((url.classes, url.counters, url.language), (5, [0, 0, 3, 0], [0, 0]));
}

#[test]
fn a_days_burst_reaches_every_host() {
    let folder = Folder::new("his");
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
    assert_eq!(client.get(b"host7.example").expect("it serves"), Some(wanted));
    assert_eq!(client.get(b"host8.example").expect("it serves"), None);
    assert!(client.get(b"host999.example").expect("it serves").is_some());
}
