//! What may not start does not start, and says what to do about it.

use crate::harness::{
    Backend, Config, Palisade,
    palisade::{binary, refuses_to_start},
    put,
};

#[test]
fn a_configuration_error_names_line_key_and_remedy_and_starts_nothing() {
    let backend = Backend::start();
    let config = || Config::http(backend.addr());
    let cases: [(&str, Config, &[&str]); 8] = [
        ("an unknown key", config().server("listne", "x"), &["listne", "listen"]),
        ("no unit", config().upstream("response_timeout", "30"), &["response_timeout", "30s"]),
        ("a wrong type", config().set("enforce", "no"), &["enforce", "true or false"]),
        ("an unknown word", config().set("takeover", "kill"), &["takeover", "abort"]),
        ("a negative number", config().set("max_waiters", -1), &["max_waiters"]),
        ("an unknown upstream", config().set("upstream", "nowhere"), &["upstream", "nowhere"]),
        ("a path in the url", config().upstream("url", "http://a/b"), &["url"]),
        (
            "one object under two keys",
            config().route("/k/{name}").set("fence", "{name}"),
            &["/k/{name}", "/{*object}"],
        ),
    ];
    for (what, config, words) in cases {
        let dir = tempfile::tempdir().unwrap();
        let (code, said) = refuses_to_start(dir.path(), &config, &["--fresh"]);
        assert_eq!(code, Some(1), "{what}: {said}");
        for word in words {
            assert!(said.contains(word), "{what}: {word} is not in: {said}");
        }
        let file = std::fs::read_to_string(dir.path().join("palisade.toml")).unwrap();
        let lines = 1..=file.lines().count();
        let names_line = |n: usize| said.contains(&format!("palisade.toml:{n}"));
        assert!(lines.into_iter().any(names_line), "{what}: no line is named: {said}");
        assert!(!dir.path().join("fences").exists(), "{what}: it made a store");
        assert!(!said.contains("listening on"), "{what}: {said}");
    }
}

#[test]
fn an_http_upstream_needs_its_lifetime() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::files().upstream("directory", "DIR/files");
    let text = config.text(dir.path()).replace("directory", "url");
    let file = dir.path().join("palisade.toml");
    std::fs::write(&file, text.replace(&format!("{}/files", dir.path().display()), "http://a:1"))
        .unwrap();
    let output = binary(dir.path()).args(["check", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("max_write_lifetime"), "{said}");
}

#[test]
fn check_prints_what_is_fenced_and_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("palisade.toml");
    std::fs::write(&file, Config::files().text(dir.path())).unwrap();
    std::fs::create_dir(dir.path().join("files")).unwrap();
    let output = binary(dir.path()).args(["check", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("/{*object}") && said.contains("required"), "{said}");
    assert!(!dir.path().join("fences").exists(), "it made a store");
}

#[test]
fn a_mistake_in_the_command_is_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["serf"][..], &["serve", "--frsh"], &[]] {
        let output = binary(dir.path()).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let backend = Backend::start();
    let palisade = Palisade::start(&Config::http(backend.addr()));
    let taken = palisade.addr().to_string();
    let dir = tempfile::tempdir().unwrap();
    let other = Config::http(backend.addr()).server("listen", taken.as_str());
    let (code, said) = refuses_to_start(dir.path(), &other, &["--fresh"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&taken), "{said}");
    put("/k", "1").send(palisade.addr()).assert_status(201);
}

/// `palisade serve 2>&1 | head`, or a log collector that died: nobody reads stderr any more.
#[test]
fn a_log_that_nobody_reads_takes_nothing_down() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("palisade.toml");
    std::fs::write(&file, Config::files().text(dir.path())).unwrap();
    let mut child = Ended(
        binary(dir.path())
            .args(["serve", "--fresh", "--config"])
            .arg(&file)
            .env("PALISADE_LOG", "debug")
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut log = std::io::BufReader::new(child.0.stderr.take().unwrap());
    let mut listening = None;
    let mut line = String::new();
    while !line.contains("admin listening") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut log, &mut line).unwrap() > 0, "it ended");
        let address = line
            .split_once("INFO")
            .and_then(|(_, words)| words.split_once(" listening on http://"));
        if let Some((_, address)) = address.filter(|_| !line.contains("admin")) {
            listening = Some(address.trim().parse().unwrap());
        }
    }
    drop(log);
    let to = listening.unwrap();
    put("/k", "5").send(to).assert_status(201);
    put("/k", "4").send(to).assert_refused(412, "stale-token");
    let pid = rustix::process::Pid::from_child(&child.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

/// A process that does not outlive its test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
