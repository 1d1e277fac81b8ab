//! Good files and what they mean.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use http::{Method, StatusCode};

use super::*;
use crate::{
    fence::Token,
    gate::{Mode, Takeover},
    proxy::{ForwardedFields, Route},
    upstream::{Kind, PartialBody},
};

fn names(methods: &[Method]) -> String {
    methods.iter().map(Method::as_str).collect::<Vec<_>>().join(" ")
}

fn route_of(text: &str, at: usize) -> Route {
    read(text).unwrap().routes.get(at).unwrap().clone()
}

#[test]
fn the_default_is_a_fenced_file_store() {
    let config = parse("default", BUILT_IN, &env).unwrap();
    assert_eq!(config.server.listen, ["127.0.0.1:8080".parse::<SocketAddr>().unwrap()]);
    let admin = config.admin.unwrap();
    assert_eq!((admin.listen, admin.token), ("127.0.0.1:9180".parse().unwrap(), None));
    assert_eq!(config.store.path, PathBuf::from("data/fences"));
    assert_eq!(config.store.create, store::Create::IfMissing);
    assert!(!config.store.fresh && config.store.rekey.is_empty());
    assert_eq!(config.upstreams.len(), 1);
    assert_eq!(config.upstreams[0].kind, Kind::Files { directory: PathBuf::from("data/files") });
    assert_eq!(config.warnings, []);
    let route = config.routes.get(0).unwrap();
    assert_eq!((route.path.as_str(), route.policy.mode), ("/{*object}", Mode::Required));
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let config = read(BASE).unwrap();
    let server = &config.server;
    assert_eq!(server.listen, ["127.0.0.1:8080".parse::<SocketAddr>().unwrap()]);
    assert_eq!(server.header_timeout, Duration::from_secs(10));
    assert_eq!((server.max_header_size, server.max_headers), (32_768, 100));
    assert_eq!(server.stop_timeout, Duration::from_secs(30));
    assert!(server.workers >= 1 && server.http2 && server.tls.is_none());
    assert!(config.admin.is_none());
    assert_eq!(config.store.create, store::Create::Never);
    assert_eq!(config.cache, 64 << 20);

    let http = &config.upstreams[1];
    assert_eq!(http.kind, Kind::Http { host: "store".to_owned(), port: 9000 });
    assert_eq!(http.connect_timeout, Duration::from_secs(2));
    assert_eq!(http.response_timeout, Duration::from_mins(1));
    assert_eq!(http.body_idle_timeout, Duration::from_secs(30));
    assert_eq!(http.max_write_lifetime, Duration::from_secs(90));
    assert_eq!(http.partial_body, PartialBody::Unknown);
    assert!(http.settled_statuses.is_empty() && !http.eof_is_end && !http.pass_redirects);
    assert!(!http.same_token_doubt_waits);
    assert_eq!(config.upstreams[0].max_write_lifetime, Duration::ZERO, "of the file store");

    let route = config.routes.get(0).unwrap();
    let policy = &route.policy;
    assert!(policy.enforce && !policy.generations && !policy.same_token_doubt_waits);
    assert_eq!((policy.mode, policy.takeover), (Mode::Required, Takeover::Abort));
    assert_eq!((policy.drain_timeout, policy.max_waiters), (Duration::from_secs(10), 1000));
    assert_eq!((policy.max_jump, policy.max_token), (None, None));
    assert_eq!(names(&route.reads), "GET HEAD OPTIONS");
    assert_eq!(names(&route.writes), "PUT POST PATCH DELETE");
    assert!(route.methods.is_empty() && route.hosts.is_empty() && !route.check_reads);
    assert_eq!(route.token_headers, ["fencing-token", "x-fencing-token"]);
    assert_eq!(route.stale_status, StatusCode::PRECONDITION_FAILED);
    assert!(route.reveal_highest && route.max_body.is_none() && !route.fold_case);
}

#[test]
fn every_server_and_store_key_is_read() {
    let text = r#"
[server]
listen = ["127.0.0.1:1", "[::1]:2"]
header_timeout = "1s"
max_header_size = "16KiB"
max_headers = 50
max_connections = 7
stop_timeout = "2s"
workers = 3
[admin]
listen = "127.0.0.1:3"
[store]
path = "d/fences"
create = "if-missing"
cache = "2MiB"
[upstreams.f]
directory = "d/files"
[[routes]]
path = "/{*o}"
upstream = "f"
"#;
    let config = read(text).unwrap();
    let server = &config.server;
    let listen = ["127.0.0.1:1", "[::1]:2"].map(|text| text.parse::<SocketAddr>().unwrap());
    assert_eq!(server.listen, listen);
    assert_eq!(server.header_timeout, Duration::from_secs(1));
    assert_eq!((server.max_header_size, server.max_headers), (16_384, 50));
    assert_eq!((server.max_connections, server.workers), (7, 3));
    assert_eq!(server.stop_timeout, Duration::from_secs(2));
    assert_eq!(config.admin.unwrap().listen, "127.0.0.1:3".parse().unwrap());
    assert_eq!(config.store.create, store::Create::IfMissing);
    assert_eq!(config.cache, 2 << 20);
}

#[test]
fn every_upstream_key_is_read() {
    let text = r#"
[store]
path = "d/fences"
[upstreams.s]
url = "http://${STORE}"
connect_timeout = "1s"
response_timeout = "2s"
body_idle_timeout = "3s"
max_write_lifetime = "4s"
partial_body = "discarded"
settled_statuses = [500, 501]
eof_is_end = true
pass_redirects = true
same_token_doubt = "wait"
store_honours = ["host", "query.v", "header.X-A"]
fold_case = true
pool_max_idle = 5
pool_idle_timeout = "6s"
[[routes]]
path = "/{*o}"
upstream = "s"
fence = "{host}/{o}{query.v}{header.x-a}"
"#;
    let config = read(text).unwrap();
    let upstream = &config.upstreams[0];
    assert_eq!(upstream.kind, Kind::Http { host: "store.internal".to_owned(), port: 9000 });
    assert_eq!(upstream.connect_timeout, Duration::from_secs(1));
    assert_eq!(upstream.response_timeout, Duration::from_secs(2));
    assert_eq!(upstream.body_idle_timeout, Duration::from_secs(3));
    assert_eq!(upstream.max_write_lifetime, Duration::from_secs(4));
    assert_eq!(upstream.partial_body, PartialBody::Discarded);
    assert_eq!(upstream.settled_statuses, [500, 501]);
    assert!(upstream.eof_is_end && upstream.pass_redirects && upstream.same_token_doubt_waits);
    assert_eq!(upstream.pool_max_idle, 5);
    assert_eq!(upstream.pool_idle_timeout, Duration::from_secs(6));
    let route = config.routes.get(0).unwrap();
    assert!(route.fold_case && route.policy.same_token_doubt_waits);
}

#[test]
fn every_route_key_is_read() {
    let keys = r#"host = ["A.example", "b.example."]
methods = ["GET", "PUT"]
reads = ["GET", "POST"]
writes = ["PUT", "MKCOL"]
takeover = "wait"
drain_timeout = "0s"
max_waiters = 2
token_headers = "X-Lock"
max_jump = 10
max_token = "3.18446744073709551615"
generations = true
max_body = "1GiB"
stale_status = 423
reveal_highest = false
enforce = false
token = "sticky""#;
    let route = route_of(&After(10, keys).text(), 0);
    assert_eq!(route.hosts, ["a.example", "b.example"]);
    assert_eq!(names(&route.methods), "GET PUT");
    assert_eq!(
        (names(&route.reads), names(&route.writes)),
        ("GET POST".into(), "PUT MKCOL".into())
    );
    assert_eq!(names(&route.allow().cloned().collect::<Vec<_>>()), "GET PUT");
    let policy = &route.policy;
    assert_eq!((policy.mode, policy.takeover), (Mode::Sticky, Takeover::Wait));
    assert_eq!((policy.drain_timeout, policy.max_waiters), (Duration::ZERO, 2));
    assert_eq!(policy.max_jump, Some(10));
    assert_eq!(policy.max_token, Some(Token { generation: 3, counter: u64::MAX }));
    assert!(policy.generations && !policy.enforce && !route.reveal_highest);
    assert_eq!(route.token_headers, ["x-lock"]);
    assert_eq!(route.max_body, Some(1 << 30));
    assert_eq!(route.stale_status, StatusCode::LOCKED);

    let route =
        route_of(&After(10, "reads = \"check\"\nmax_token = 18446744073709551615").text(), 0);
    assert!(route.check_reads);
    assert_eq!(names(&route.reads), "GET HEAD OPTIONS");
    assert_eq!(route.policy.max_token, Some(Token::new(u64::MAX)));
}

#[test]
fn what_upstreams_are_told_is_read() {
    let config = read(BASE).unwrap();
    assert_eq!(config.forwarding.fields, ForwardedFields::XForwarded);
    assert!(config.forwarding.trusted.is_empty(), "nobody is trusted unasked");
    let text =
        After(13, "[server]\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]\nforwarded = \"both\"");
    let config = read(&text.text()).unwrap();
    assert_eq!(config.forwarding.fields, ForwardedFields::Both);
    let trusts = |peer: &str| config.forwarding.trusts(Some(peer.parse().unwrap()));
    assert!(trusts("10.9.9.9") && trusts("::1") && !trusts("127.0.0.1"));
}

#[test]
fn a_routes_credentials_are_read_and_never_shown() {
    let keys = "remove_headers = [\"Cookie\"]\nset_headers = { X-Store-Key = \"k ${STORE}\" }";
    let route = route_of(&After(13, keys).text(), 1);
    let shown = format!("{route:?}");
    assert!(shown.contains("x-store-key") && shown.contains("cookie"), "{shown}");
    assert!(!shown.contains("store.internal"), "{shown}");
}

/// R11: what the key is made of must reach the store as it came.
#[test]
fn a_route_may_not_change_what_its_key_is_made_of() {
    let honours = BASE.replace("\"90s\"", "\"90s\"\nstore_honours = \"header.X-A\"");
    assert_eq!(
        mistakes(&(honours + "set_headers = { x-a = \"1\" }")),
        "p.toml:15: [[routes]] set_headers.x-a: \"x-a\" tells the store's objects apart \
         (store_honours); leave it as it is; no route may change it"
    );
}

#[test]
fn a_url_has_one_spelling() {
    for (url, host, port, address) in [
        ("http://Store.Example.:80", "store.example", 80, "http://store.example:80"),
        ("http://store", "store", 80, "http://store:80"),
        ("HTTP://store:09000", "store", 9000, "http://store:9000"),
        ("http://10.0.0.1:1", "10.0.0.1", 1, "http://10.0.0.1:1"),
        ("http://[FD00:0::1]:1", "fd00::1", 1, "http://[fd00::1]:1"),
        ("http://[::ffff:10.0.0.1]:1", "10.0.0.1", 1, "http://10.0.0.1:1"),
        ("http://a_b-c.1x:1", "a_b-c.1x", 1, "http://a_b-c.1x:1"),
    ] {
        let text = BASE.replace("http://store:9000", url);
        let config = read(&text).unwrap();
        assert_eq!(config.upstreams[1].kind, Kind::Http { host: host.to_owned(), port }, "{url}");
        assert_eq!(config.store.upstreams[1].address, address, "{url}");
    }
}

#[test]
fn the_store_is_told_how_keys_are_made() {
    let text = BASE.to_owned()
        + r#"methods = ["GET"]
[[routes]]
path = "/http/{*renamed}"
upstream = "http"
fence = "http/{renamed}"
[[routes]]
path = "/only/{x}"
upstream = "files"
token = "off"
"#;
    let config = read(&text).unwrap();
    let facts = &config.store.upstreams;
    let keying = |pattern: &str, template: &str| Keying {
        pattern: pattern.to_owned(),
        template: template.to_owned(),
    };
    assert_eq!((facts[0].name.as_str(), facts[0].lifetime), ("files", Duration::ZERO));
    assert!(facts[0].unfenced, "one of its routes is off");
    assert_eq!(facts[0].keying, [keying("/{*}", "{0..}"), keying("/only/{}", "{0..}")]);
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    assert_eq!(facts[0].address, format!("dir:{}", here.join("d/files").display()));
    assert_eq!((facts[1].name.as_str(), facts[1].lifetime), ("http", Duration::from_secs(90)));
    assert!(!facts[1].unfenced);
    assert_eq!(facts[1].keying, [keying("/http/{*}", "{0..}")], "each once");
}

#[test]
fn what_lets_writes_pass_makes_an_upstream_unfenced() {
    for (key, unfenced) in [
        ("token = \"required\"", false),
        ("token = \"sticky\"", true),
        ("token = \"off\"", true),
        ("enforce = false", true),
    ] {
        let config = read(&After(10, key).text()).unwrap();
        assert_eq!(config.store.upstreams[0].unfenced, unfenced, "{key}");
    }
}

#[test]
fn a_bearer_token_is_read_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admin.token");
    fs::write(&file, "0123456789abcdef\n").unwrap();
    let text =
        format!("{BASE}[admin]\nlisten = \"0.0.0.0:9180\"\ntoken_file = \"{}\"\n", file.display());
    let admin = read(&text).unwrap().admin.unwrap();
    assert_eq!(admin.token.as_deref(), Some("0123456789abcdef"));
    assert!(!format!("{admin:?}").contains("0123456789abcdef"), "logs do not show it");
    let served = text.replace("d/files", dir.path().to_str().unwrap());
    assert!(mistakes(&served).contains("lies in [upstreams.files] directory; keep it where"));
    fs::write(&file, "0123456789abcde\n").unwrap();
    assert_eq!(
        mistakes(&text),
        format!(
            "p.toml:16: [admin] token_file: \"{}\" holds no token; write one line of 16 to 1024 \
             visible ASCII characters into it",
            file.display()
        )
    );
}

#[test]
fn directories_are_followed_before_they_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real");
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, dir.path().join("link")).unwrap();
    let text = |store: &str, files: &str| {
        let at = |name: &str| dir.path().join(name).display().to_string();
        BASE.replace("d/fences", &at(store)).replace("d/files", &at(files))
    };
    assert_eq!(mistakes(&text("real/a", "link/b")), "");
    assert!(mistakes(&text("real/a", "link/a")).contains("overlaps [store] path"));
    assert!(mistakes(&text("real/a", "link")).contains("overlaps [store] path"));
    assert!(mistakes(&text("link/a", "real/a/b")).contains("overlaps [store] path"));
    assert!(mistakes(&text("real/aa", "real/a")).is_empty(), "a prefix of a name is no parent");
    assert!(mistakes(&text("real/a", "real/b/../a")).contains("\"..\" below a directory"));
}
