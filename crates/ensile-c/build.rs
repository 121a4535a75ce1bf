//! Gives the library the ABI version that its header declares, in its code and in its name for the linker.
//!
//! Invariant: the header is the one place where the version stands.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo::rerun-if-changed=include/ensile/objects.h");
    let header = include_str!("include/ensile/objects.h");
    let version = header.lines().find_map(|line| line.strip_prefix("#define ENSILE_ABI_VERSION "));
    let version = version.expect("the header declares a version");
    println!("cargo::rustc-env=ENSILE_ABI_VERSION={version}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libensile_c.so.{version}");
}
