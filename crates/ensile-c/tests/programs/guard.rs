//! The guard that figure 4 leaves out: what is lost without it, and not with it (O7).

use std::path::Path;
use std::process::Command;

use crate::build::{compile, empty_folder, package, run};

/// The price of an item that comes back after a kill, of a service with this source. Its last change was to 2, and was
/// durable.
fn price_after_kill(name: &str, extension: &str, service: &str) -> String {
    let folder = empty_folder(name);
    let source = folder.join(format!("service.{extension}"));
    std::fs::write(&source, service).expect("saves the service");
    let program = folder.join("scene");
    let define = format!("-DSERVICE=\"{}\"", source.display());
    let options =
        ["-Wl,--wrap=ensile_objects_log", "-Wl,--wrap=pthread_mutex_lock", "-Wno-unused-function", &define];
    compile(&package().join(format!("tests/programs/scene.{extension}")), &program, options);
    let scene = || {
        let mut command = Command::new(&program);
        command.arg(folder.join("items"));
        command
    };
    let status = scene().status().expect("runs");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
    let price = run(scene().arg("show"));
    std::fs::remove_dir_all(&folder).expect("is removed");
    price
}

/// The example, its guards taken out between these words.
fn without_guards(example: &str, (from, to): (&str, &str), guards: &[&str]) -> String {
    let (before, rest) = example.split_once(from).expect("the example has it");
    let (inside, behind) = rest.split_once(to).expect("and ends it");
    let mut bare = inside.to_owned();
    for guard in guards {
        assert!(inside.contains(guard), "{guard}");
        bare = bare.replace(guard, "");
    }
    [before, from, &bare, to, behind].concat()
}

fn example(extension: &str) -> String {
    let path = package().join(format!("examples/my_service.{extension}"));
    std::fs::read_to_string(Path::new(&path)).expect("the example")
}

#[test]
fn o7_without_the_guard_over_log_and_change_or_over_ckpt_a_durable_change_is_lost_in_cpp() {
    let service = example("cpp");
    assert_eq!(price_after_kill("guard-cpp", "cpp", &service), "2");
    let guard = ["std::lock_guard<std::mutex> hold(guard_[id]);"];
    let bare = without_guards(&service, ("update_price(", "return receipt"), &guard);
    assert_eq!(price_after_kill("no-guard-cpp", "cpp", &bare), "1", "not held over log and change");
    let bare = without_guards(&service, ("checkpoint(", "ENSILE_NO_OBJECT"), &guard);
    assert_eq!(price_after_kill("no-ckpt-guard-cpp", "cpp", &bare), "1", "not held over ckpt");
}

#[test]
fn o7_without_the_guard_over_log_and_change_or_over_ckpt_a_durable_change_is_lost_in_c() {
    let service = example("c");
    assert_eq!(price_after_kill("guard-c", "c", &service), "2");
    let guards = ["pthread_mutex_lock(&service->guard[id]);", "pthread_mutex_unlock(&service->guard[id]);"];
    let bare = without_guards(&service, ("update_price(struct", "return receipt"), &guards);
    assert_eq!(price_after_kill("no-guard-c", "c", &bare), "1", "not held over log and change");
    let bare = without_guards(&service, ("save_one(void", "return 0"), &guards);
    assert_eq!(price_after_kill("no-ckpt-guard-c", "c", &bare), "1", "not held over ckpt");
}
