//! Programs in C and C++ on the library, as a user has them: built by the guide's commands alone, killed, recovered.
//!
//! A compiler for C and C++ and pkg-config must be there: a test that finds none says what to install.

mod build;
mod cpp;
mod guard;
mod guide;
mod header;
mod lives;
mod service;
