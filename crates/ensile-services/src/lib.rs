//! Services over `ensile-objects` (SLACH §5), spoken to in RESP.
//!
//! - [`pht`]: a concurrent persistent hash table, for redis-cli, redis-benchmark and clients of redis.
//! - [`ups`]: properties of URLs, partitioned over processes.
//! - [`his`]: information on web hosts, with daily bursts.
//!
//! A service is a program's own objects in its own structures. The `persist` module of a service has the lines that
//! only serve persistence; a test counts these lines. [`server`] serves any service, [`client`] talks to the services.
//!
//! ```
//! use std::sync::Arc;
//! use ensile_objects::{ObjectDurability, ObjectsBuilder};
//! use ensile_services::client::TableClient;
//! use ensile_services::pht::PersistentTable;
//! use ensile_services::server::threads::{ServerConfig, TransportChoice, serve};
//!
//! # let folder = std::env::temp_dir().join(format!("ensile-services-doc-{}", std::process::id()));
//! let table = PersistentTable::open(ObjectsBuilder::new(&folder))?;
//! let config = ServerConfig {
//!     address: "127.0.0.1:0".parse()?,
//!     tls: None,
//!     unix: None,
//!     loops: 1,
//!     transport: TransportChoice::Auto,
//!     idle: None,
//!     keepalive: Some(std::time::Duration::from_secs(300)),
//!     client_memory: Some(ensile_services::server::CLIENT_MEMORY_BYTES),
//!     ended: None,
//!     ending: || (),
//!     tell: |notice| eprintln!("{notice}"),
//! };
//! let (told, address) = std::sync::mpsc::channel();
//! std::thread::scope(|scope| {
//!     let server = scope.spawn(move || {
//!         serve(Arc::new(table), ObjectDurability::Strict, config, |at| told.send(at.address).map_err(std::io::Error::other))
//!     });
//!     let mut client = TableClient::connect(address.recv()?)?;
//!     assert_eq!(client.increment(b"visits", 1)?, 1); // durable by now
//!     client.shut_down()?;
//!     server.join().expect("it does not panic")?;
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//!
//! Neighbours: `ensile-objects` keeps objects, `ensile-net` has the loop, `ensile-resp` the codec; the `ensile-service`
//! command and the bench run the services.
#![forbid(unsafe_code)]

// A module uses only modules above it.
pub mod hash;
pub mod service;

mod arguments;
mod number;
pub mod partition;

pub mod server;

pub mod his;
pub mod pht;
pub mod ups;

pub mod client;

#[cfg(feature = "exercise")]
pub mod workload_model;

pub mod command;
