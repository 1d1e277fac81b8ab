//! Every mistake and its exact words.

use super::*;

#[test]
fn the_base_has_no_mistake() {
    assert_eq!(mistakes(BASE), "");
}

/// `mistakes.txt`: a change of the base a block, and what is then reported.
#[test]
fn each_mistake_has_its_words() {
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    let script = include_str!("mistakes.txt");
    let mut failures = Vec::new();
    let mut count = 0;
    for block in script.split("\n\n") {
        let lines = || block.lines().filter(|line| !line.starts_with('#'));
        let Some(head) = lines().next() else { continue };
        let marked = |mark| lines().filter_map(move |line| line.strip_prefix(mark));
        let text = marked("| ").collect::<Vec<_>>().join("\n");
        let change = match head.split_once(' ').unwrap() {
            ("line", line) => At(line.parse().unwrap(), &text),
            ("after", line) => After(line.parse().unwrap(), &text),
            other => panic!("{other:?}"),
        };
        let expected: Vec<String> = marked("> ").map(|line| format!("p.toml:{line}")).collect();
        let found = mistakes(&change.text()).replace(here.to_str().unwrap(), "CWD");
        if found != expected.join("\n") {
            failures.push(format!("{block}\n-- but found\n{found}"));
        }
        count += 1;
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
    assert!(count > 100, "only {count} mistakes were tried");
}

#[test]
fn a_url_that_two_readers_could_read_differently_is_refused() {
    for bad in [
        "http://",
        "http://:80",
        "http://a b",
        "http://store:",
        "http://store:0",
        "http://store:65536",
        "http://store:+80",
        "http://store:8x",
        "http://[::1",
        "http://::1:80",
        "http://127.1:80",
        "http://1.2.3.4.5",
        "http://0x7f.0x1",
        "http://2130706433",
        "http://a..b",
        "http://st%6fre",
        "http://\u{e9}",
    ] {
        let text = BASE.replace("http://store:9000", bad);
        let wrong = "has no valid host and port; write \"http://host:port\"";
        assert_eq!(mistakes(&text), format!("p.toml:6: [upstreams.http] url: \"{bad}\" {wrong}"));
    }
}

/// R11: where the store does not tell case apart, neither do routes.
#[test]
fn folded_paths_have_one_key() {
    let folded = BASE.replace("90s\"\n", "90s\"\nfold_case = true\n")
        + "[[routes]]\npath = \"/HTTP/{x}\"\nupstream = \"http\"\nfence = \"{x}\"\n";
    assert!(mistakes(&folded).starts_with("p.toml:18: [[routes]] fence: \"/HTTP/{x}\""));
    assert_eq!(mistakes(&folded.replace("fold_case = true", "")), "");
}

#[test]
fn of_the_whole_file() {
    assert_eq!(
        mistakes(""),
        "p.toml:1: [store] path: it is missing; write path = \"data/fences\"\n\
         p.toml:1: [upstreams]: there is none; write [upstreams.files] with directory = \
         \"data/files\", or with a url\n\
         p.toml:1: [routes]: there is none, and nothing is forwarded that no route names; write \
         [[routes]] with path = \"/{*object}\" and the name of an upstream"
    );
    assert_eq!(
        mistakes("upstreams = 3\n[store]\npath = \"a\"\n[routes]\n"),
        "p.toml:1: [upstreams]: it is an integer; write a table\n\
         p.toml:4: [[routes]]: it is a table; write [[routes]]"
    );
    for text in ["[store\n", "a = \n", "[store]\npath = 1\npath = 2\n", "\u{0}", "a = \"\n"] {
        let found = mistakes(text);
        assert!(
            found.starts_with("p.toml:") && found.contains("; the file must be TOML, where a text"),
            "{found}"
        );
    }
    let long = format!("#{}", "x".repeat(4 << 20));
    assert_eq!(
        mistakes(&long),
        "p.toml:1: the file is larger than 4 MiB; split what does not belong to it"
    );
}

#[test]
fn all_mistakes_are_reported_together_in_the_files_order() {
    let text = BASE
        .replace("d/fences\"", "d/fences\"\ncreat = \"never\"")
        .replace("http://store:9000", "ftp://store")
        .replace("upstream = \"files\"", "upstream = \"files\"\ntoken = \"on\"");
    let found = mistakes(&text);
    let keys: Vec<&str> = found.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(keys, ["[store] creat", "[upstreams.http] url", "[[routes]] token"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = load(Some(Path::new("/nonexistent/p.toml"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/nonexistent/p.toml: it cannot be read: No such file or directory (os error 2); name a \
         file that exists and may be read with --config"
    );
}
