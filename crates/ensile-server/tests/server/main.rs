//! The server from outside: commands and their replies, transactions, databases, expiry, passwords, durable replies.

mod access;
mod admin;
mod clients;
mod collections;
mod databases;
mod durable_replies;
mod expiry;
mod hashes;
mod keys;
mod lists;
mod loading;
mod operation;
mod publish;
mod redis;
mod redis_publish;
mod rig;
mod rights;
mod scan;
mod script_threads;
mod scripts;
mod set_aside;
mod sets;
mod sorted_sets;
mod strings;
mod threads;
mod transactions;
