//! The mistakes of a first hour, each made as a newcomer would make it: what palisade says must say
//! what happened, where, and what to do. The whole text is compared, so that nobody shortens it by
//! accident. A full disk has a file of its own; `commands` has the mistakes of operators.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
};

use tempfile::TempDir;

use crate::harness::{Config, Palisade, palisade::binary, put};

const CONFIG: &str = r#"[server]
listen = "127.0.0.1:0"
[store]
path = "fences"
[upstreams.files]
directory = "files"
[[routes]]
path = "/{*object}"
upstream = "files"
"#;

fn directory(config: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("p.toml"), config).unwrap();
    dir
}

/// The exit code and the words of a command that ends by itself.
fn ends(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn serve(dir: &Path, flags: &[&str]) -> (Option<i32>, String) {
    ends(binary(dir).args(["serve", "--config", "p.toml"]).args(flags))
}

#[track_caller]
fn refuses(dir: &Path, flags: &[&str], words: &str) {
    assert_eq!(serve(dir, flags), (Some(1), format!("{words}\n")));
}

#[test]
fn no_configuration() {
    let dir = tempfile::tempdir().unwrap();
    refuses(
        dir.path(),
        &[],
        "p.toml: it cannot be read: No such file or directory (os error 2); name a file that exists \
         and may be read with --config",
    );
}

#[test]
fn mistakes_in_the_file() {
    for (more, words) in [
        (
            "tokne = \"required\"",
            "p.toml:10: [[routes]] tokne: unknown key; the nearest known one is \"token\"",
        ),
        (
            "drain_timeout = \"10\"",
            "p.toml:10: [[routes]] drain_timeout: \"10\" is not a time; write a whole number and \
             ms, s, m or h, like \"30s\" or \"250ms\"",
        ),
        (
            "[[routes]]\npath = \"/{*all}\"\nupstream = \"files\"",
            "p.toml:11: [[routes]] path: \"/{*all}\" is like \"/{*object}\" on line 8: the same \
             paths, hosts and methods; remove one, or tell them apart by host or methods",
        ),
    ] {
        refuses(directory(&format!("{CONFIG}{more}\n")).path(), &["--fresh"], words);
    }
}

#[test]
fn a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _there = TcpListener::bind(taken).unwrap();
    let address = taken.to_string();
    let dir = directory(&CONFIG.replace("127.0.0.1:0", &address));
    refuses(
        dir.path(),
        &["--fresh"],
        &format!(
            "error: address {address} is already in use: another process, perhaps another \
             palisade, listens there; stop it, or choose another address in [server] listen"
        ),
    );
    let admin = format!("{CONFIG}[admin]\nlisten = \"{address}\"\n");
    let dir = directory(&admin);
    refuses(
        dir.path(),
        &["--fresh"],
        &format!(
            "error: the admin address {address} is in use; choose another in [admin] listen, or \
             end the program that has it"
        ),
    );
}

#[test]
fn no_permission() {
    let dir = directory(CONFIG);
    let store = dir.path().join("fences");
    for place in [dir.path(), &store, &dir.path().join("files")] {
        fs::create_dir_all(place).unwrap();
        fs::set_permissions(place, PermissionsExt::from_mode(0o777)).unwrap();
    }
    // Who is root may do everything: the program must be somebody else, who may reach it.
    let program = dir.path().join("palisade");
    fs::copy(env!("CARGO_BIN_EXE_palisade"), &program).unwrap();
    let somebody = || {
        let mut command = Command::new(&program);
        command.current_dir(dir.path()).args(["serve", "--config", "p.toml"]);
        if rustix::process::geteuid().is_root() {
            command.uid(65534);
        }
        command
    };
    fs::set_permissions(&store, PermissionsExt::from_mode(0o000)).unwrap();
    let (code, words) = ends(&mut somebody());
    fs::set_permissions(&store, PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(code, Some(1));
    let expected = "error: cannot look into fences: Permission denied (os error 13); the user that \
                    palisade runs as must be allowed to read and write it and what is in it\n";
    assert_eq!(words, expected);

    fs::set_permissions(dir.path().join("p.toml"), PermissionsExt::from_mode(0o000)).unwrap();
    let (code, words) = ends(&mut somebody());
    assert_eq!(code, Some(1));
    assert!(words.starts_with("p.toml: it cannot be read: Permission denied"), "{words}");
}

#[test]
fn a_store_that_is_missing_and_one_that_is_there() {
    let dir = directory(CONFIG);
    refuses(
        dir.path(),
        &[],
        "error: there is no store at fences: if a volume is missing, mount it; if this is the first \
         start, say `palisade serve --fresh` (nothing writes to the upstreams yet) or set create = \
         \"if-missing\" under [store]",
    );
    let palisade = Palisade::start(&Config::files());
    let place = palisade.files().with_file_name("fences");
    let dir = directory(&CONFIG.replace("\"fences\"", &format!("{:?}", place.to_str().unwrap())));
    let in_use = format!(
        "error: the store at {} is in use by another palisade, process {}: stop that process \
         first, or give this one a [store] path of its own",
        place.display(),
        palisade.pid()
    );
    refuses(dir.path(), &[], &in_use);
    put("/k", "1").send(palisade.addr()).assert_status(201);
}

#[test]
fn a_directory_that_another_palisade_serves() {
    let palisade = Palisade::start(&Config::files());
    let files = palisade.files();
    let dir = directory(&CONFIG.replace("\"files\"\n[[", &format!("{files:?}\n[[")));
    let words = format!(
        "error: {files} is in use by process {}, which has locked {files}/.palisade/lock; stop that \
         process, or name another directory",
        palisade.pid(),
        files = files.display(),
    );
    refuses(dir.path(), &["--fresh"], &words);
}

#[test]
fn a_store_of_a_newer_version() {
    let mut palisade = Palisade::start(&Config::files());
    assert!(palisade.sigterm_and_wait().success());
    let place = palisade.files().with_file_name("fences");
    let marker = fs::read_to_string(place.join("initialised")).unwrap();
    let newer = marker.replacen("palisade-store 1", "palisade-store 2", 1);
    assert_ne!(marker, newer);
    fs::write(place.join("initialised"), newer).unwrap();
    let dir = directory(&CONFIG.replace("\"fences\"", &format!("{:?}", place.to_str().unwrap())));
    let words = format!(
        "error: the store at {} has format 2 and this palisade knows only up to 1: run the newer \
         palisade that wrote it",
        place.display()
    );
    refuses(dir.path(), &[], &words);
}
