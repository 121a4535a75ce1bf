//! `cargo xtask install-c PREFIX`: builds the library for C and C++, and installs library, headers and a pkg-config
//! file in the places that compilers search.
//!
//! ```text
//! PREFIX/include/ensile/objects.h, objects.hpp
//! PREFIX/lib/libensile_c.a, libensile_c.so -> libensile_c.so.3 (the header's ABI version), pkgconfig/ensile-c.pc
//! ```
//! Invariant: the names of the built files and the package's version come from cargo, the ABI version from the header.
//!
//! Neighbours: `crates/ensile-c` has sources and headers, `docs/guide/c.md` names this command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use serde_json::Value;

const PACKAGE: &str = "ensile-c";
const STATIC: &str = "libensile_c.a";
const SHARED: &str = "libensile_c.so";
const HEADERS: [&str; 2] = ["objects.h", "objects.hpp"];

/// Builds and installs. Existing files are replaced.
pub(crate) fn install_c(root: &Path, prefix: &Path) -> io::Result<()> {
    let prefix = std::path::absolute(prefix)?;
    let include = root.join("crates/ensile-c/include/ensile");
    let abi = abi_version(&fs::read_to_string(include.join("objects.h"))?)?;
    let (version, files) = build(root)?;
    let built = |name: &str| {
        let file = files.iter().find(|file| file.ends_with(name));
        file.ok_or_else(|| io::Error::other(format!("cargo built no {name}: this is for Linux only")))
    };
    let (headers, libraries) = (prefix.join("include/ensile"), prefix.join("lib"));
    fs::create_dir_all(&headers)?;
    fs::create_dir_all(libraries.join("pkgconfig"))?;
    for header in HEADERS {
        fs::copy(include.join(header), headers.join(header))?;
    }
    replace(built(STATIC)?, &libraries.join(STATIC))?;
    let versioned = format!("{SHARED}.{abi}");
    replace(built(SHARED)?, &libraries.join(&versioned))?;
    let link = libraries.join(SHARED);
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link)?;
    }
    std::os::unix::fs::symlink(&versioned, &link)?;
    fs::write(libraries.join("pkgconfig/ensile-c.pc"), pkg_config(&prefix, &version))?;
    println!("installed {PACKAGE} {version} under {}", prefix.display());
    Ok(())
}

/// Puts a new file in the place of the old file: a program with the old file mapped goes on with the old file.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let next = to.with_file_name(format!("{name}.next"));
    fs::copy(from, &next)?;
    fs::rename(next, to)
}

/// Builds the library as it ships. Returns the version, and the files that cargo made.
fn build(root: &Path) -> io::Result<(String, Vec<PathBuf>)> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments =
        ["build", "--release", "--package", PACKAGE, "--lib", "--message-format", "json-render-diagnostics"];
    let output = Command::new(cargo).args(arguments).current_dir(root).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("`cargo {}` failed", arguments.join(" "))));
    }
    built_files(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| io::Error::other(format!("cargo does not say what it built of {PACKAGE}")))
}

/// Version and files of the library, from cargo's messages.
fn built_files(messages: &str) -> Option<(String, Vec<PathBuf>)> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let library = messages.into_iter().find(|message| {
        message["reason"] == "compiler-artifact"
            && message["target"]["name"] == "ensile_c"
            && message["target"]["kind"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|kind| kind == "cdylib"))
    })?;
    // `path+file:///..#ensile-c@0.1.0`, or `..#0.1.0` where the folder has the package's name.
    let (_, version) = library["package_id"].as_str()?.rsplit_once(['#', '@'])?;
    let files =
        library["filenames"].as_array()?.iter().filter_map(Value::as_str).map(PathBuf::from).collect();
    Some((version.to_owned(), files))
}

fn abi_version(header: &str) -> io::Result<u32> {
    let version = header.lines().find_map(|line| line.strip_prefix("#define ENSILE_ABI_VERSION "));
    version
        .and_then(|version| version.trim().parse().ok())
        .ok_or_else(|| io::Error::other("objects.h declares no ENSILE_ABI_VERSION"))
}

/// The pkg-config file. `static_libs` has the link arguments of a program that runs without the shared library.
fn pkg_config(prefix: &Path, version: &str) -> String {
    format!(
        "prefix={}\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n\
         static_libs=${{libdir}}/{STATIC} -lpthread -ldl -lm\n\n\
         Name: {PACKAGE}\nDescription: your own objects, made persistent\nVersion: {version}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -lensile_c\nLibs.private: -lpthread -ldl -lm\n",
        prefix.display()
    )
}

#[cfg(test)]
mod tests {
    use super::{abi_version, built_files};

    #[test]
    fn cargo_says_what_it_built() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","package_id":"path+file:///e/ensile-base#0.1.0","target":{"name":"ensile_base","kind":["lib"]},"filenames":["/t/libensile_base.rlib"]}"#,
            "\nnot a message\n",
            r#"{"reason":"compiler-artifact","package_id":"path+file:///e/ensile-c#0.2.0","target":{"name":"ensile_c","kind":["cdylib","lib"]},"filenames":["/t/libensile_c.so","/t/libensile_c.a"]}"#,
        );
        let (version, files) = built_files(messages).expect("is found");
        assert_eq!((version.as_str(), files.len()), ("0.2.0", 2));
        assert!(built_files("").is_none());
    }

    #[test]
    fn the_header_says_the_version() {
        assert_eq!(abi_version("#ifndef A\n#define ENSILE_ABI_VERSION 7\n").ok(), Some(7));
        assert!(abi_version("").is_err());
    }
}
