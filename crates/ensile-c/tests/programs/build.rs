//! Builds: the library once for all tests, by the guide's command, and programs on it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::guide;

/// The folder of this package.
pub(crate) fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Where tests may write.
fn scratch() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("ensile-c")
}

/// An empty folder, whose path no other test has.
pub(crate) fn empty_folder(name: &str) -> PathBuf {
    let folder = scratch().join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for a test");
    folder
}

/// Where the library is installed, by the guide's first command. It is built for tests: quickly, with its assertions.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        need_tools();
        let prefix = scratch().join("prefix");
        let root = package().join("../..");
        let mut shell = Command::new("bash");
        shell.args(["-euc", &guide::commands()[0]]).current_dir(root).env("PREFIX", &prefix);
        shell.env("CARGO_TARGET_DIR", scratch().join("target"));
        // A sanitizer of these tests is not one of the library that users have.
        shell.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        for (setting, value) in [
            ("LTO", "off"),
            ("CODEGEN_UNITS", "16"),
            ("OPT_LEVEL", "0"),
            ("DEBUG_ASSERTIONS", "true"),
            ("DEBUG", "0"),
        ] {
            shell.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
        }
        run(&mut shell);
        prefix
    })
}

/// Says what to install where it is missing.
pub(crate) fn need_tools() {
    let tools = ["cc", "c++", "pkg-config", "bash"];
    let is_missing = |tool: &&&str| Command::new(tool).arg("--version").output().is_err();
    let missing: Vec<_> = tools.iter().filter(is_missing).collect();
    assert!(
        missing.is_empty(),
        "{missing:?} not found: these tests compile programs in C and C++; on Debian, `apt-get install g++ pkg-config`"
    );
}

/// Runs a command that must succeed; what it wrote to its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{errors}", output.status);
    out.into_owned()
}

/// Compiles a source into a program that has the library in itself. A source in C++ ends in `.cpp`.
pub(crate) fn compile<O: AsRef<OsStr>>(source: &Path, program: &Path, options: impl IntoIterator<Item = O>) {
    let is_cpp = source.extension() == Some(OsStr::new("cpp"));
    let mut compiler = Command::new(if is_cpp { "c++" } else { "cc" });
    compiler.arg(if is_cpp { "-std=c++17" } else { "-std=c11" });
    compiler.args(["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-pthread"]);
    compiler.arg("-I").arg(prefix().join("include")).arg("-I").arg(package().join("examples"));
    compiler.arg("-I").arg(package().join("tests/programs"));
    compiler.args(options).arg(source).arg(prefix().join("lib/libensile_c.a"));
    run(compiler.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(program));
}
