//! The command line: what is wrong with it, and where the address and the token come from.

use super::*;

#[test]
fn a_wrong_command_line_ends_with_2_and_asks_nobody() {
    for (arguments, word) in [
        (&["show"][..], "UPSTREAM:KEY"),
        (&["show", "k"], "a key is written UPSTREAM:KEY"),
        (&["advance", "a:k", "--reason", "x"], "<TOKEN>"),
        (&["advance", "a:k", "1"], "--reason"),
        (&["advance", "a:k", "07", "--reason", "x"], "07"),
        (&["advance", "a:k", "-1", "--reason", "x"], "-1"),
        (&["advance", "a:k", "1", "--reason", " "], "--reason"),
        (&["reset", "a:k"], "--reason"),
        (&["release", "a:k", "--reason", "x"], CONFIRMED),
        (&["keys", "--limit", "0"], "--limit"),
        (&["keys", "--limit", "5", "--all"], "--all"),
        (&["status", "--admin", "https://127.0.0.1:1"], "http://HOST:PORT"),
        (&["status", "--admin", "http://127.0.0.1:1", "--config", "x"], "--config"),
        (&["completions", "tcsh"], "bash"),
    ] {
        ran(arguments).fails(2, &[word]);
    }
}

#[test]
fn a_wrong_address_is_said_to_be_one() {
    let backend = Backend::start();
    let palisade =
        Palisade::start(&Config::http(backend.addr()).without_drain().set("token", "off"));
    let proxy = format!("http://{}", palisade.addr());
    // Each of these would be a write to the store, were it sent there.
    for command in [
        &["reset", "store:k", "--reason", "x"][..],
        &["advance", "store:k", "1", "--reason", "x"],
        &["status"],
        &["show", "store:k"],
    ] {
        ran(&[command, &["--admin", &proxy]].concat())
            .fails(1, &[&proxy, "(--admin)", "admin listening on"]);
    }
    let arrivals = backend.log().arrivals();
    assert!(arrivals.iter().all(|arrival| !arrival.is_write()), "a change was sent to the store");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = format!("http://{}", listener.local_addr().unwrap());
    let silent = thread::spawn(move || drop(listener.accept()));
    ran(&["status", "--admin", &other]).fails(1, &[&other, "is no admin listener"]);
    silent.join().unwrap();
    ran(&["status", "--admin", &other])
        .fails(1, &[&other, ": connection refused\n", "palisade serve"]);
}

#[test]
fn the_listener_is_found_in_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let in_dir =
        |arguments: &[&str]| Ran::new(binary(dir.path()).args(arguments).output().unwrap());
    in_dir(&["status", "--config", "nope.toml"]).fails(1, &["nope.toml", "--admin"]);
    let text = Config::files().text(dir.path());
    fs::create_dir(dir.path().join("config")).unwrap();
    let default =
        text.replace("[admin]\nlisten = \"127.0.0.1:0\"", "[admin]\nlisten = \"127.0.0.1:1\"");
    fs::write(dir.path().join("config/palisade.toml"), default).unwrap();
    in_dir(&["status"]).fails(1, &["http://127.0.0.1:1 ([admin] listen, config/palisade.toml)"]);
    let file = dir.path().join("p.toml");
    fs::write(&file, &text).unwrap();
    in_dir(&["status", "--config", "p.toml"]).fails(1, &["p.toml", "its log says which"]);
    fs::write(&file, text.replace("[admin]\nlisten = \"127.0.0.1:0\"\n", "")).unwrap();
    in_dir(&["status", "--config", "p.toml"]).fails(1, &["p.toml has no [admin] section"]);
}

#[test]
fn a_token_is_given_by_file_by_variable_or_by_the_configuration() {
    const SECRET: &str = "0123456789abcdef-secret";
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("token", &format!("{SECRET}\n"));
    write("wrong", "another-secret-of-16\n");
    write("empty", "\n");
    // A port that was free a moment ago, for the commands to find in the file.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = Config::files().text(dir.path()).replace(
        "[admin]\nlisten = \"127.0.0.1:0\"\n",
        &format!("[admin]\nlisten = \"{free}\"\ntoken_file = \"token\"\n"),
    );
    write("p.toml", &text);
    let mut serve = Killed(
        binary(dir.path())
            .args(["serve", "--fresh", "--config", "p.toml"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut log = BufReader::new(serve.0.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.unwrap().contains("admin listening on")), "it starts");

    let admin = format!("http://{free}");
    let status = |arguments: &[&str], variable: Option<&str>| {
        let mut command = binary(dir.path());
        command.arg("status").args(arguments).env_remove("PALISADE_ADMIN_TOKEN");
        if let Some(token) = variable {
            command.env("PALISADE_ADMIN_TOKEN", token);
        }
        let ran = Ran::new(command.output().unwrap());
        assert!(!(ran.out + &ran.err).contains(SECRET));
        Ran::new(command.output().unwrap())
    };
    let at = ["--admin", &admin];
    status(&at, None).fails(1, &[&admin, "wants a token", "--token-file", "PALISADE_ADMIN_TOKEN"]);
    status(&[&at[..], &["--token-file", "wrong"]].concat(), None)
        .fails(1, &["does not take the token of --token-file wrong (unauthenticated)"]);
    status(&at, Some("x")).fails(1, &["does not take the token of PALISADE_ADMIN_TOKEN"]);
    status(&[&at[..], &["--token-file", "empty"]].concat(), None).fails(1, &["holds no token"]);
    status(&[&at[..], &["--token-file", "none"]].concat(), None).fails(1, &["--token-file none"]);
    for (arguments, variable) in [
        ([&at[..], &["--token-file", "token"]].concat(), Some("x")),
        (at.to_vec(), Some(SECRET)),
        (vec!["--config", "p.toml"], None),
        (vec!["--config", "p.toml", "--token-file", "token"], Some("x")),
    ] {
        assert_eq!(status(&arguments, variable).code, Some(0), "{arguments:?}");
    }
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = ran(&["completions", shell]);
        assert_eq!((script.code, script.err.as_str()), (Some(0), ""), "{shell}");
        for word in ["advance", "i-know-the-store-will-not-apply-it", "token-file"] {
            assert!(script.out.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn pages_of_the_manual_are_written_or_it_is_said_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    ran(&["man", "--directory", place]).prints("");
    let first = fs::read_to_string(dir.path().join("palisade.1")).unwrap();
    ran(&["man"]).prints(&first);
    assert!(dir.path().join("palisade-advance.1").exists());
    let nowhere = dir.path().join("nowhere");
    ran(&["man", "--directory", nowhere.to_str().unwrap()])
        .fails(1, &["nowhere", "no such file", "a directory that exists"]);
}
