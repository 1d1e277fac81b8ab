//! Requests that nobody should send: each gets the contract's problem document or a closed
//! connection; nothing of it reaches the store, nothing stays counted, and the next one is served.

use crate::harness::{Backend, Client, Config, Palisade, put};

struct Case {
    name: &'static str,
    /// What is sent after `PUT`, up to the end of the head; `\n` stands for CRLF.
    bytes: Vec<u8>,
    /// The code that must come, "" for any refusal or a closed connection, or the status of an
    /// answer that may be the HTTP library's own.
    code: &'static str,
}

fn case(name: &'static str, code: &'static str, text: &str) -> Case {
    Case { name, bytes: text.replace('\n', "\r\n").into_bytes(), code }
}

/// A PUT of this target with a good token.
fn target(target: &'static str, code: &'static str) -> Case {
    let text = format!("PUT {target} HTTP/1.1\nHost: a\nFencing-Token: 9\nContent-Length: 1\n\nx");
    case(target, code, &text)
}

/// A PUT of `/k` with these lines in its head.
fn head(name: &'static str, code: &'static str, lines: &str) -> Case {
    case(name, code, &format!("PUT /k HTTP/1.1\n{lines}\n\n"))
}

/// A PUT with this value of the token field.
fn token(value: &'static str, code: &'static str) -> Case {
    let lines = format!("Host: a\nContent-Length: 0\nFencing-Token: {value}");
    head(value, code, &lines)
}

fn targets() -> Vec<Case> {
    let ambiguous = [
        "//k",
        "/b//k",
        "/b/../k",
        "/b/./k",
        "/..",
        "/.",
        "/b/..",
        "/b/%2e%2e/k",
        "/b/%2E./k",
        "/b%2fk",
        "/b%2Fk",
        "/b\\k",
        "/b%5ck",
        "/b%5Ck",
        "/k%",
        "/k%zz",
        "/k%2",
        "/k%u002f",
        "/k%00",
        "/k%0a",
        "/k%0d",
        "/k%7f",
        "/k%09",
        "/%c0%af",
        "/%ed%a0%80",
        "/%ff",
        "/k;v=1",
        "/k%3bv=1",
        "/b%252fk",
        "/%252e%252e/k",
    ];
    let malformed = [
        "*",
        "b:80",
        "http://other/k",
        "http://u:p@a/k",
        "ftp://a/k",
        "https://a/k",
        "k",
        "",
        "/k\u{e9}",
        "/k^\u{7f}",
        "/k\u{0}",
        "/k\ta",
        "/k HTTP/1.1 x",
    ];
    let mut cases: Vec<_> =
        ambiguous.into_iter().map(|text| target(text, "target-ambiguous")).collect();
    cases.extend(malformed.into_iter().map(|text| target(text, "")));
    cases
}

fn tokens() -> Vec<Case> {
    let malformed = [
        "+9",
        "-1",
        "0x9",
        "9.0",
        "9e0",
        "9_9",
        "09",
        "00",
        "5, 99",
        "99;q=1",
        "\"99\"",
        "9 9",
        "abc",
        "18446744073709551616",
        "9999999999999999999999999999999999999999",
        "\u{ff19}",
        "",
        "9,",
        ",9",
    ];
    let mut cases: Vec<_> =
        malformed.into_iter().map(|text| token(text, "token-malformed")).collect();
    let base = "Host: a\nContent-Length: 0";
    cases.extend([
        head("two lines", "token-malformed", &format!("{base}\nFencing-Token: 9\nfencing-token: 9")),
        head("two fields", "token-malformed", &format!("{base}\nFencing-Token: 9\nX-Fencing-Token: 8")),
        head("a near name", "token-missing", &format!("{base}\nFencing.Token: 9")),
        head("another near name", "token-missing", &format!("{base}\nFencing-Token-: 9")),
        head("a NUL", "", &format!("{base}\nFencing-Token: 9\0")),
        head("a bare CR", "", &format!("{base}\nX: a\rFencing-Token: 9")),
        head("a folded line", "", &format!("{base}\nFencing-Token: 9\n 0")),
        head("a space before the colon", "", &format!("{base}\nFencing-Token : 9")),
        head("a space in the name", "", &format!("{base}\nFencing Token: 9")),
        head("no name", "", &format!("{base}\n: 9")),
        head("no colon", "", &format!("{base}\nFencing-Token")),
        head("a claim on a write", "", &format!("{base}\nFencing-Token: 9\nFencing-Claim: true")),
        head("a holder that is none", "", &format!("{base}\nFencing-Token: 9\nFencing-Holder: a b")),
        head("a long token", "", &format!("{base}\nFencing-Token: {}", "9".repeat(10_000))),
        case("a token in a trailer", "token-missing",
            "PUT /k HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nTrailer: Fencing-Token\n\n1\nx\n0\nFencing-Token: 9\n\n"),
    ]);
    cases
}

fn framings() -> Vec<Case> {
    let base = "Host: a\nFencing-Token: 9";
    let coded = |name, value: &str| {
        let text = format!("PUT /k HTTP/1.1\n{base}\nTransfer-Encoding: {value}\n\n1\nx\n0\n\n");
        case(name, "", &text)
    };
    let length = |name, value: &str| head(name, "", &format!("{base}\nContent-Length: {value}"));
    vec![
        coded("gzip, chunked", "gzip, chunked"),
        coded("identity, chunked", "identity, chunked"),
        coded("chunked twice", "chunked, chunked"),
        coded("an empty coding", ",chunked"),
        coded("not chunked at last", "chunked, identity"),
        coded("xchunked", "xchunked"),
        coded("a parameter", "chunked;q=1"),
        coded("no coding", ""),
        coded("two lines", "identity\nTransfer-Encoding: chunked"),
        head("a space before the colon", "", &format!("{base}\nTransfer-Encoding : chunked")),
        case(
            "1.0 with chunks",
            "",
            &format!("PUT /k HTTP/1.0\n{base}\nTransfer-Encoding: chunked\n\n1\nx\n0\n\n"),
        ),
        length("plus", "+5"),
        length("minus", "-5"),
        length("hexadecimal", "0x5"),
        length("a fraction", "5.0"),
        length("none", ""),
        length("a list", "5,6"),
        length("a parameter", "5;"),
        length("2^64", "18446744073709551616"),
        length("two that differ", "5\nContent-Length: 6"),
        case("an unknown version", "", &format!("PUT /k HTTP/3.0\n{base}\nContent-Length: 0\n\n")),
        case("no version", "", "PUT /k\n\n"),
        case("TLS", "", "\u{16}\u{3}\u{1}\u{2}\u{0}\n\n"),
        case("h2", "", "PRI * HTTP/2.0\n\nSM\n\n"),
    ]
}

fn others() -> Vec<Case> {
    let base = "Fencing-Token: 9\nContent-Length: 0";
    let write = "Host: a\nFencing-Token: 9\nContent-Length: 0";
    let many: String = (0..300).fold(String::new(), |text, n| text + &format!("\nX-{n}: y"));
    vec![
        head("no Host", "", base),
        head("two Hosts", "", &format!("{base}\nHost: a\nHost: b")),
        head("a list of Hosts", "", &format!("{base}\nHost: a, b")),
        head("a Host with a path", "", &format!("{base}\nHost: a/b")),
        head("a Host with a user", "", &format!("{base}\nHost: u@a")),
        head("Destination", "not-fenceable", &format!("{write}\nDestination: http://a/b")),
        head("a copy source", "not-fenceable", &format!("{write}\nx-amz-copy-source: /b/x")),
        head("another copy source", "not-fenceable", &format!("{write}\nx-ms-copy-source: /b/x")),
        head("an override", "not-fenceable", &format!("{write}\nX-HTTP-Method-Override: DELETE")),
        case(
            "an override of a read",
            "not-fenceable",
            "GET /k HTTP/1.1\nHost: a\nX-HTTP-Method-Override: PUT\n\n",
        ),
        case("CONNECT", "method-not-allowed", "CONNECT a:80 HTTP/1.1\nHost: a:80\n\n"),
        case(
            "a method in lower case",
            "method-not-allowed",
            &format!("put /k HTTP/1.1\n{write}\n\n"),
        ),
        case("a WebDAV method", "method-not-allowed", &format!("MKCOL /k HTTP/1.1\n{write}\n\n")),
        case("COPY", "", &format!("COPY /k HTTP/1.1\n{write}\nDestination: http://a/c\n\n")),
        case(
            "a claim without a token",
            "token-missing",
            "GET /k HTTP/1.1\nHost: a\nFencing-Claim: true\n\n",
        ),
        case(
            "a claim of another value",
            "",
            "GET /k HTTP/1.1\nHost: a\nFencing-Token: 9\nFencing-Claim: yes\n\n",
        ),
        head("many fields", "431", &format!("{write}{many}")),
        head("a large field", "", &format!("{write}\nX: {}", "y".repeat(1 << 20))),
    ]
}

fn check_all(cases: Vec<Case>) {
    let backend = Backend::start();
    let config = Config::http(backend.addr())
        .server("header_timeout", "1s")
        .upstream("body_idle_timeout", "1s");
    let palisade = Palisade::start(&config);
    for case in &cases {
        check(&palisade, case);
        palisade.until_quiet();
        let arrived = backend.log().arrivals();
        let alive = |key: &str| key == "/alive";
        let others: Vec<_> = arrived.iter().filter(|arrival| !alive(arrival.key())).collect();
        assert!(others.is_empty(), "{}: reached the store: {others:#?}", case.name);
    }
    put("/alive", "1").send(palisade.addr()).assert_status(201);
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
    assert_eq!(backend.connections(), 1, "not even a connection was made for the others");
}

fn check(palisade: &Palisade, case: &Case) {
    let mut client = Client::connect(palisade.addr());
    let _ = client.try_send(&case.bytes);
    let answer = client.try_response();
    let response = match answer {
        Ok(Some(response)) => response,
        Ok(None) => {
            assert_eq!(case.code, "", "{}: closed without a word", case.name);
            return;
        }
        Err(error) => {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "{}: hangs", case.name);
            assert_eq!(case.code, "", "{}: {error}", case.name);
            return;
        }
    };
    let status = response.status();
    assert!((400..600).contains(&status) && status != 502, "{}: {response:#?}", case.name);
    let may_be_bare = case.code.is_empty() || case.code == status.to_string();
    if may_be_bare && response.body.is_empty() {
        return; // hyper's own answer to what never became a request
    }
    response.assert_problem();
    assert!(
        [response.member("code").as_str(), ""].contains(&case.code),
        "{}: {response:#?}",
        case.name
    );
}

#[test]
fn targets_that_two_servers_could_read_differently() {
    check_all(targets());
}

#[test]
fn tokens_that_are_none() {
    check_all(tokens());
}

#[test]
fn framings_that_are_none() {
    check_all(framings());
}

#[test]
fn other_requests_that_nobody_should_send() {
    check_all(others());
}

/// These are known only once the head was forwarded: the store must never see a whole request.
#[test]
fn bodies_that_break_off() {
    let chunks = [
        "0x5\nhello\n0\n\n",
        "+5\nhello\n0\n\n",
        "5_0\nhello\n0\n\n",
        "\nhello\n0\n\n",
        "10000000000000005\nhello\n0\n\n",
        "5\nhelloXX0\n\n",
        "5\nhello\n",
        "5\nhel",
        "ffffffffffffffff\nhello\n0\n\n",
        "5\nhello\n0",
    ];
    for text in chunks {
        let backend = Backend::start();
        let palisade =
            Palisade::start(&Config::http(backend.addr()).upstream("partial_body", "discarded"));
        let head = "PUT /k HTTP/1.1\nHost: a\nFencing-Token: 9\nTransfer-Encoding: chunked\n\n";
        let mut client = Client::connect(palisade.addr());
        client.send(format!("{head}{text}").replace('\n', "\r\n").as_bytes());
        client.half_close_if_open();
        if let Ok(Some(response)) = client.try_response() {
            assert!((400..500).contains(&response.status()), "{text:?}: {response:#?}");
            response.assert_problem();
        }
        palisade.until_quiet();
        assert!(backend.log().effects("/k").is_empty(), "{text:?} took effect");
        put("/k", "10").send(palisade.addr()).assert_status(201);
    }
}

/// Whatever hides behind a refused request is not a request.
#[test]
fn nothing_is_smuggled_behind_a_refusal() {
    let backend = Backend::start();
    let palisade = Palisade::start(&Config::http(backend.addr()));
    put("/k", "10").send(palisade.addr()).assert_status(201);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let stale = "PUT /k HTTP/1.1\r\nHost: a\r\nFencing-Token: 9\r\n";
    let heads = [
        format!("{stale}Content-Length: 1000\r\n\r\n{smuggled}"),
        format!(
            "{stale}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
        ),
        format!("{stale}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{smuggled}"),
    ];
    for bytes in heads {
        let mut client = Client::connect(palisade.addr());
        client.send(bytes.as_bytes());
        let first = client.response();
        assert!((400..500).contains(&first.status()), "{first:#?}");
        client.until_closed();
    }
    let smuggled = backend.log().arrivals().iter().any(|arrival| arrival.key() == "/smuggled");
    assert!(!smuggled, "{:#?}", backend.log().arrivals());
}
