use std::{sync::Arc, time::Duration};

use http::StatusCode;

use super::*;
use crate::{
    gate::{Mode, Policy, Takeover},
    proxy::{Pattern, Template},
};

pub(in crate::proxy) fn route(path: &str, hosts: &[&str], methods: &[&str]) -> Route {
    let methods_of = |names: &[&str]| -> Vec<Method> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    };
    Route {
        path: path.to_owned(),
        pattern: Pattern::parse(path).unwrap(),
        template: Template::whole_path(),
        fold_case: false,
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        methods: methods_of(methods),
        upstream: 0,
        policy: Arc::new(Policy {
            enforce: true,
            mode: Mode::Required,
            takeover: Takeover::Abort,
            drain_timeout: Duration::ZERO,
            max_waiters: 1,
            max_jump: None,
            max_token: None,
            generations: false,
            same_token_doubt_waits: false,
        }),
        reads: methods_of(&["GET", "HEAD"]),
        writes: methods_of(&["PUT", "DELETE"]),
        check_reads: false,
        token_headers: Vec::new(),
        stale_status: StatusCode::PRECONDITION_FAILED,
        reveal_highest: true,
        max_body: None,
        rewrite: Arc::default(),
    }
}

fn keyed(path: &str, template: &str) -> Route {
    let mut route = route(path, &[], &[]);
    route.template = Template::parse(template, &route.pattern).unwrap();
    route
}

fn found(table: &RouteTable, host: &str, method: &str, path: &str) -> Option<usize> {
    match table.find(host_name(host).as_bytes(), &method.parse().unwrap(), path.as_bytes()) {
        Found::Route(at, _) => Some(at),
        Found::MethodNotAllowed { .. } | Found::NoRoute => None,
    }
}

#[test]
fn the_most_specific_route_is_taken() {
    let table = RouteTable::new(vec![
        route("/{*o}", &[], &[]),
        route("/a/{*o}", &[], &[]),
        route("/a/{x}", &[], &[]),
        route("/a/{x}", &[], &["GET"]),
        route("/a/{x}", &["h.example"], &[]),
        route("/a/{x}", &["h.example", "i.example"], &["PUT"]),
        route("/a/b", &[], &["DELETE"]),
    ])
    .unwrap();
    for (host, method, path, at) in [
        ("any", "GET", "/z", 0),
        ("any", "GET", "/", 0),
        ("any", "PUT", "/a/b/c", 1),
        ("any", "GET", "/a/", 1),
        ("any", "PUT", "/a/b", 2),
        ("any", "GET", "/a/b", 3),
        ("any", "DELETE", "/a/b", 6),
        ("h.example", "GET", "/a/b", 4),
        ("h.example", "PUT", "/a/b", 5),
        ("H.EXAMPLE:8080", "PUT", "/a/b", 5),
        ("h.example.", "PUT", "/a/b", 5),
        ("i.example", "GET", "/a/b", 3),
        ("i.example", "PUT", "/a/b", 5),
        ("i.example", "DELETE", "/a/c", 2),
        ("h.example", "DELETE", "/a/b", 6),
    ] {
        assert_eq!(found(&table, host, method, path), Some(at), "{host} {method} {path}");
    }
    assert_eq!(table.order(), [6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn captures_are_of_the_route_that_is_taken() {
    let table = RouteTable::new(vec![route("/{*o}", &[], &[]), route("/a/{x}", &[], &[])]).unwrap();
    let Found::Route(1, captures) = table.find(b"h", &Method::GET, b"/a/b") else { panic!() };
    assert_eq!(captures.of(0, b"/a/b"), Some(&b"b"[..]));
}

#[test]
fn a_path_without_a_route_for_the_method_says_what_is_allowed() {
    let mut only = route("/b/{*o}", &[], &["PUT"]);
    only.reads.clear();
    let table = RouteTable::new(vec![
        route("/a/{x}", &[], &["GET", "PUT"]),
        route("/a/b", &[], &["PUT", "DELETE"]),
        route("/a/b", &["h"], &["HEAD"]),
        only,
    ])
    .unwrap();
    let allowed =
        |host: &str, path: &str| match table.find(host.as_bytes(), &Method::PATCH, path.as_bytes())
        {
            Found::MethodNotAllowed { allow } => {
                allow.iter().map(Method::as_str).collect::<Vec<_>>().join(" ")
            }
            Found::Route(..) | Found::NoRoute => String::new(),
        };
    assert_eq!(allowed("any", "/a/c"), "GET PUT");
    assert_eq!(allowed("any", "/a/b"), "PUT DELETE GET", "each once");
    assert_eq!(allowed("h", "/a/b"), "HEAD PUT DELETE GET");
    assert_eq!(allowed("any", "/b/c"), "PUT");
    assert_eq!(table.find(b"any", &Method::PUT, b"/c"), Found::NoRoute);
    assert_eq!(table.find(b"any", &Method::PUT, b"*"), Found::NoRoute);
}

#[test]
fn two_routes_alike_cannot_stand_beside_each_other() {
    let alike = |one: Route, two: Route| match RouteTable::new(vec![one, two]) {
        Ok(_) => false,
        Err(errors) => {
            assert_eq!(errors, [TableError::Alike(0, 1)]);
            true
        }
    };
    let plain = |path| route(path, &[], &[]);
    assert!(alike(plain("/a/{x}"), plain("/a/{y}")));
    assert!(!alike(plain("/a/{x}"), plain("/a/{*y}")));
    assert!(!alike(plain("/a"), route("/a", &["h"], &[])), "the narrowed one goes first");
    assert!(!alike(plain("/a"), route("/a", &[], &["GET"])));
    assert!(alike(route("/a", &["h", "i"], &[]), route("/a", &["i"], &[])));
    assert!(!alike(route("/a", &["h"], &[]), route("/a", &["i"], &[])));
    assert!(alike(route("/a", &[], &["GET", "PUT"]), route("/a", &[], &["PUT"])));
    assert!(!alike(route("/a", &[], &["GET"]), route("/a", &[], &["PUT"])));
}

#[test]
fn narrowing_does_not_excuse_a_second_key() {
    let mut narrowed = keyed("/b/{*o}", "{o}");
    narrowed.methods = vec![Method::PUT];
    narrowed.hosts = vec!["h".to_owned()];
    let errors = RouteTable::new(vec![keyed("/{*o}", "{o}"), narrowed.clone()]).unwrap_err();
    assert_eq!(errors, [TableError::KeysDiffer(0, 1)]);
    narrowed.upstream = 1;
    assert!(RouteTable::new(vec![keyed("/{*o}", "{o}"), narrowed]).is_ok(), "another store");
}

#[test]
fn a_route_that_no_request_reaches_is_shadowed() {
    let table = RouteTable::new(vec![
        route("/a", &[], &[]),
        route("/a", &[], &["GET", "HEAD"]),
        route("/a", &[], &["PUT", "DELETE"]),
        route("/b", &[], &[]),
        route("/b", &[], &["GET", "HEAD", "PUT"]),
        route("/c", &[], &[]),
        route("/c", &["h"], &["GET", "HEAD", "PUT", "DELETE"]),
        route("/d", &["h"], &[]),
        route("/d", &["h", "i"], &["GET", "HEAD", "PUT", "DELETE"]),
    ])
    .unwrap();
    assert_eq!(table.shadowed(), [0, 7]);
}

#[test]
fn a_host_is_named_without_its_port() {
    for (host, name) in [
        ("h", "h"),
        ("h:80", "h"),
        ("h.", "h"),
        ("h.:80", "h"),
        ("[::1]", "[::1]"),
        ("[::1]:80", "[::1]"),
        ("", ""),
        (":", ""),
    ] {
        assert_eq!(host_name(host), name, "{host}");
    }
}
