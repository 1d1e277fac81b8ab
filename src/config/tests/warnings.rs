//! What is allowed and should be known.

use super::*;

/// Of a file whose server is on this machine.
fn warned(text: &str) -> String {
    warned_as_it_is(&text.replace("//store:9000", "//127.0.0.1:9000"))
}

fn warned_as_it_is(text: &str) -> String {
    let warnings = read(text).unwrap().warnings;
    warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_unsafe_is_said() {
    for (change, warning) in [
        (After(10, ""), ""),
        (
            After(10, "token = \"off\""),
            "p.toml:9: the promise does not hold for keys of \"/{*object}\": token = \"off\" fences \
             nothing",
        ),
        (
            After(10, "enforce = false"),
            "p.toml:9: the promise does not hold for keys of \"/{*object}\": enforce = false refuses \
             nothing",
        ),
        (
            After(10, "token = \"sticky\""),
            "p.toml:9: the promise holds for keys of \"/{*object}\" from their first token on only: \
             token = \"sticky\"",
        ),
        (
            At(7, "max_write_lifetime = \"59s\""),
            "p.toml:6: upstream \"http\": max_write_lifetime (59s) is shorter than response_timeout \
             (1m); a store that may take so long to answer may take as long to apply a write that \
             was cut",
        ),
        (At(7, "max_write_lifetime = \"60s\""), ""),
        (
            After(7, "settled_statuses = [501, 503]"),
            "p.toml:6: upstream \"http\": settled_statuses has 503, which a gateway may send while \
             the store still holds the write; keep it only if nothing stands in between",
        ),
        (After(7, "settled_statuses = [507]"), ""),
        (At(13, "upstream = \"files\""), "p.toml:6: upstream \"http\": no route names it"),
        (
            After(
                13,
                "[[routes]]\npath = \"/http/{*o}\"\nupstream = \"http\"\nmethods = [\"GET\", \
                 \"HEAD\", \"OPTIONS\", \"PUT\", \"POST\", \"PATCH\", \"DELETE\"]",
            ),
            "p.toml:12: no request reaches \"/http/{*object}\": other routes of the same paths take \
             each of its methods; remove it",
        ),
    ] {
        assert_eq!(warned(&change.text()), warning);
    }
}

#[test]
fn plain_http_to_another_machine_is_said() {
    let text = |to: &str| {
        format!(
            "p.toml:6: upstream \"http\": plain HTTP to {to}: whoever is on the way can read and \
             change writes, and forge the answers that outcomes are told from; use https"
        )
    };
    for (url, warning) in [
        ("http://store:9000", text("store:9000")),
        ("http://10.0.0.1", text("10.0.0.1:80")),
        ("http://[2001:db8::1]", text("[2001:db8::1]:80")),
        ("http://127.0.0.1.example", text("127.0.0.1.example:80")),
        ("http://localhost:9000", String::new()),
        ("http://127.1.2.3:9000", String::new()),
        ("http://[::1]:9000", String::new()),
        ("http://[::ffff:127.0.0.1]:9000", String::new()),
        ("https://store:9000", String::new()),
        ("unix:/nonexistent/store.sock", String::new()),
    ] {
        assert_eq!(warned_as_it_is(&BASE.replace("http://store:9000", url)), warning, "{url}");
    }
}
