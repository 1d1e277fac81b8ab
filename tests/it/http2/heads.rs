//! HTTP/2 heads that nobody should send: nothing of them reaches the store, nothing stays counted.

use crate::{
    harness::{
        Backend, Config, Palisade,
        frames::{Answer, End, Raw},
        put,
    },
    http2::assert_at_rest,
};

/// What must come of a head.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    /// A refusal of this code.
    Code(&'static str),
    /// The stream, or the whole connection, ends without an answer: HTTP/2 calls it malformed.
    Malformed,
    /// Either, or an answer of the HTTP library's own.
    Refused,
}

use Verdict::{Code, Malformed, Refused};

type Fields = Vec<(&'static str, &'static str)>;

/// A good PUT.
const GOOD: [(&str, &str); 5] = [
    (":method", "PUT"),
    (":scheme", "http"),
    (":authority", "a"),
    (":path", "/k"),
    ("fencing-token", "9"),
];

/// A good PUT with another value of a field, or without the field.
fn with(name: &'static str, value: Option<&'static str>) -> Fields {
    let fields = GOOD.into_iter().filter(|(n, _)| *n != name || value.is_some());
    fields.map(|(n, v)| (n, if n == name { value.unwrap_or(v) } else { v })).collect()
}

/// A good PUT, and these fields.
fn and(more: &[(&'static str, &'static str)]) -> Fields {
    [&GOOD, more].concat()
}

fn targets() -> Vec<(Fields, Verdict)> {
    let of = |verdict: Verdict, values: &[&'static str]| {
        let cases = values.iter().map(|value| (with(":path", Some(value)), verdict));
        cases.collect::<Vec<_>>()
    };
    let ambiguous =
        ["//k", "/b/../k", "/b/%2e%2e/k", "/b%2fk", "/b\\k", "/k%00", "/k;v=1", "/b%252fk", "/k/"];
    let mut cases = of(Code("target-ambiguous"), &ambiguous);
    cases.extend(of(
        Refused,
        &["*", "", "k", "http://other/k", "http://a/k", "a:80", "/k HTTP/1.1\r\nHost: b", "/k\0"],
    ));
    cases
}

fn pseudo() -> Vec<(Fields, Verdict)> {
    let connect = vec![(":method", "CONNECT"), (":authority", "a:80")];
    let extended = [&[(":protocol", "websocket")], &with(":method", Some("CONNECT"))[..]].concat();
    let late = [&GOOD[1..], &GOOD[..1]].concat();
    vec![
        (connect, Code("method-not-allowed")),
        (extended, Malformed),
        (with(":authority", None), Code("bad-request")),
        (with(":authority", Some("")), Refused),
        (with(":authority", Some("u@a")), Refused),
        (with(":authority", Some("a/b")), Refused),
        (with(":authority", Some("a b")), Refused),
        (with(":authority", Some("a, b")), Refused),
        (with(":authority", Some("a:123456")), Refused),
        (with(":scheme", Some("https")), Code("bad-request")),
        (with(":scheme", Some("ftp")), Code("bad-request")),
        (with(":scheme", Some("")), Refused),
        (with(":scheme", None), Malformed),
        (with(":path", None), Malformed),
        (with(":method", None), Malformed),
        (with(":method", Some("")), Malformed),
        (with(":method", Some("PUT /x")), Malformed),
        (with(":method", Some("put")), Code("method-not-allowed")),
        (with(":method", Some("MKCOL")), Code("method-not-allowed")),
        (late, Malformed),
        (and(&[(":path", "/x")]), Malformed),
        (and(&[(":unknown", "x")]), Malformed),
        ([&[(":method", "PUT")], &GOOD[..]].concat(), Malformed),
        ([&[(":path", "/x")], &GOOD[..]].concat(), Malformed),
        ([&[(":authority", "b")], &GOOD[..]].concat(), Malformed),
        ([&[(":status", "200")], &GOOD[..]].concat(), Malformed),
        (and(&[("host", "b")]), Code("bad-request")),
        (and(&[("host", "a:80")]), Code("bad-request")),
        (and(&[("host", "a"), ("host", "a")]), Code("bad-request")),
        (
            [&with(":authority", None)[..], &[("host", "a"), ("host", "b")]].concat(),
            Code("bad-request"),
        ),
    ]
}

fn fields() -> Vec<(Fields, Verdict)> {
    let of = |name: &'static str, value: &'static str, verdict| (and(&[(name, value)]), verdict);
    vec![
        of("connection", "close", Malformed),
        of("connection", "fencing-token", Malformed),
        of("keep-alive", "timeout=5", Malformed),
        of("proxy-connection", "keep-alive", Malformed),
        of("transfer-encoding", "chunked", Malformed),
        of("upgrade", "h2c", Malformed),
        of("te", "gzip", Malformed),
        of("X-Upper", "1", Malformed),
        of("Fencing-Token", "10", Malformed),
        of("", "1", Malformed),
        of("x y", "1", Malformed),
        of("x:y", "1", Malformed),
        of("x\r\ny", "1", Malformed),
        of("x", "1\r\nfencing-token: 10", Malformed),
        of("x", "1\n2", Malformed),
        of("x", "1\0", Malformed),
        of("fencing-token", "10", Code("token-malformed")),
        of("x-fencing-token", "10", Code("token-malformed")),
        (with("fencing-token", Some("9, 10")), Code("token-malformed")),
        (with("fencing-token", Some("+9")), Code("token-malformed")),
        (with("fencing-token", None), Code("token-missing")),
        of("content-length", "7", Refused),
        of("content-length", "+7", Refused),
        of("content-length", "0x7", Refused),
        of("content-length", "18446744073709551616", Refused),
        (and(&[("content-length", "0"), ("content-length", "0")]), Refused),
        of("expect", "something", Refused),
        of("destination", "http://a/x", Code("not-fenceable")),
        of("x-http-method-override", "DELETE", Code("not-fenceable")),
        of("x-amz-copy-source", "/b/x", Code("not-fenceable")),
        of("early-data", "1", Refused),
        of("fencing-claim", "true", Refused),
    ]
}

fn check_all(cases: Vec<(Fields, Verdict)>) {
    let backend = Backend::start();
    let palisade = Palisade::start(&Config::http(backend.addr()));
    for (fields, verdict) in &cases {
        let mut client = Raw::connect(palisade.addr());
        client.headers(1, fields, true);
        let answer = client.answer(1);
        assert!(fits(&answer, *verdict), "{fields:?}: {verdict:?}, but {answer:?}");
        palisade.until_quiet();
        let arrived = backend.log().arrivals();
        assert!(arrived.is_empty(), "{fields:?} reached the store: {arrived:#?}");
    }
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
    assert_eq!(backend.connections(), 0, "not even a connection was made");
    put("/k", "9").send(palisade.addr()).assert_status(201);
    assert_at_rest(&palisade);
}

fn fits(answer: &Answer, verdict: Verdict) -> bool {
    let document: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let refused = (400..500).contains(&answer.status) && answer.end == End::Whole;
    let ended = answer.status == 0 && answer.end != End::Connection(None);
    match verdict {
        Code(code) => refused && document["code"] == code,
        Malformed => ended,
        Refused => refused || ended,
    }
}

#[test]
fn targets_that_two_servers_could_read_differently() {
    check_all(targets());
}

#[test]
fn pseudo_fields_that_are_none() {
    check_all(pseudo());
}

#[test]
fn fields_of_a_connection_and_other_fields_that_are_none() {
    check_all(fields());
}

/// The same heads, put right, are served.
#[test]
fn heads_that_are_odd_and_good() {
    let backend = Backend::start();
    let palisade = Palisade::start(&Config::http(backend.addr()));
    let without_authority = [&with(":authority", None)[..], &[("host", "a")]].concat();
    for fields in [
        GOOD.to_vec(),
        without_authority,
        and(&[("host", "a")]),
        and(&[("te", "trailers")]),
        and(&[("content-length", "0")]),
        and(&[("expect", "100-continue")]),
        // A fragment never was of the target: nobody sees it.
        with(":path", Some("/k#f")),
    ] {
        let mut client = Raw::connect(palisade.addr());
        client.headers(1, &fields, true);
        let answer = client.answer(1);
        assert_eq!((answer.status, answer.end), (201, End::Whole), "{fields:?}");
        let arrival = backend.until_settled("9");
        assert_eq!(arrival.head.line, "PUT /k HTTP/1.1");
        assert_eq!(arrival.head.field("host"), Some("a"));
        for gone in ["te", "expect", "transfer-encoding"] {
            assert_eq!(arrival.head.field(gone), None, "{fields:?}");
        }
    }
    assert_at_rest(&palisade);
}
