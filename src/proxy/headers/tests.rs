use super::*;

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

fn said(lines: &[(&'static str, &str)], version: Version, ended: bool) -> Option<BodyLength> {
    let headers = headers(lines);
    body_length(&Fields::of(&headers), version, ended).ok()
}

#[test]
fn framing_has_one_form() {
    let length = |lines: &[(&'static str, &str)]| said(lines, Version::HTTP_11, false);
    assert_eq!(length(&[]), Some(BodyLength::None));
    assert_eq!(length(&[("content-length", "05")]), Some(BodyLength::Exact(5)));
    assert_eq!(length(&[("transfer-encoding", "chunked")]), Some(BodyLength::Chunked));
    assert_eq!(length(&[("transfer-encoding", "Chunked")]), Some(BodyLength::Chunked));
    for value in ["gzip, chunked", "identity, chunked", "chunked, chunked", ",chunked", "identity"]
    {
        assert_eq!(length(&[("transfer-encoding", value)]), None, "{value}");
    }
    assert_eq!(
        length(&[("transfer-encoding", "identity"), ("transfer-encoding", "chunked")]),
        None
    );
    assert_eq!(length(&[("content-length", "5"), ("transfer-encoding", "chunked")]), None);
    for value in ["+5", "-5", "5,5", "0x5", "", "18446744073709551616"] {
        assert_eq!(length(&[("content-length", value)]), None, "{value}");
    }
    assert_eq!(length(&[("content-length", "5"), ("content-length", "5")]), None);
    assert_eq!(said(&[("transfer-encoding", "chunked")], Version::HTTP_10, false), None);
}

#[test]
fn http2_ends_a_body_by_its_frames() {
    use BodyLength::{Chunked, Exact, None as Nothing};
    let te = ("transfer-encoding", "chunked");
    for (lines, ended, expected) in [
        (&[][..], true, Some(Nothing)),
        (&[], false, Some(Chunked)),
        (&[("content-length", "5")], false, Some(Exact(5))),
        (&[("content-length", "5")], true, None),
        (&[("content-length", "0")], true, Some(Exact(0))),
        (&[("content-length", "5"), ("content-length", "5")], false, None),
        (&[te], false, None),
        (&[te], true, None),
    ] {
        let length = said(lines, Version::HTTP_2, ended);
        assert_eq!(length, expected, "{lines:?} {ended}");
    }
    assert_eq!(said(&[], Version::HTTP_11, false), Some(Nothing), "as it always was");
}

#[test]
fn cookie_crumbs_become_one_line() {
    for (crumbs, joined) in [(&["a=1"][..], "a=1"), (&["a=1", "b=2", "c=3"], "a=1; b=2; c=3")] {
        let lines: Vec<_> = crumbs.iter().map(|crumb| ("cookie", *crumb)).collect();
        let mut came = headers(&lines);
        join_cookies(&mut came);
        assert_eq!(came, headers(&[("cookie", joined)]));
    }
    let mut none = HeaderMap::new();
    join_cookies(&mut none);
    assert!(none.is_empty());
}

#[test]
fn an_answers_own_connection_is_not_the_clients() {
    let mut answer = headers(&[
        ("fencing-result", "admitted"),
        ("etag", "\"1\""),
        ("connection", "close, X-Mine"),
        ("x-mine", "1"),
        ("keep-alive", "timeout=5"),
        ("transfer-encoding", "chunked"),
        ("trailer", "x-sum"),
        ("upgrade", "h2c"),
        ("proxy-connection", "close"),
    ]);
    to_client(&mut answer);
    assert_eq!(answer, headers(&[("etag", "\"1\"")]));
}

#[test]
fn bodies_and_their_codings_are_untouched() {
    let lines = [
        ("content-encoding", "gzip"),
        ("content-type", "text/plain"),
        ("etag", "W/\"1\""),
        ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
        ("digest", "sha-256=abc"),
        ("repr-digest", "sha-256=:abc:"),
        ("content-digest", "sha-256=:abc:"),
        ("vary", "accept-encoding"),
        ("accept-ranges", "bytes"),
        ("content-length", "7"),
    ];
    let mut answer = headers(&lines);
    to_client(&mut answer);
    assert_eq!(answer, headers(&lines));
}

/// An upstream that sends both lengths: its own number would let the rest pass for a next answer.
#[test]
fn of_two_lengths_only_the_coding_counts() {
    let mut answer = headers(&[("transfer-encoding", "chunked"), ("content-length", "1")]);
    to_client(&mut answer);
    assert!(answer.is_empty());
    let mut answer = headers(&[("content-length", "1")]);
    to_client(&mut answer);
    assert_eq!(answer.len(), 1);
}

#[test]
fn connection_may_not_name_what_must_go_on() {
    for name in ["Host", "content-length", "If-Match", "close, authorization", "if-none-match"] {
        assert!(check_connection(&headers(&[("connection", name)])).is_err(), "{name}");
    }
    for name in ["close", "keep-alive", "Fencing-Token", "upgrade, http2-settings", ""] {
        assert!(check_connection(&headers(&[("connection", name)])).is_ok(), "{name}");
    }
}

#[test]
fn a_redirect_to_another_authority_is_seen() {
    let away = |location: &str| leads(location, &addressed("a:8080", false));
    for location in [
        "http://b/k",
        "http://a/k",
        "https://a:8080/k",
        "//b/k",
        "//b",
        "\\\\b/k",
        "/\\b/k",
        "http:/k",
        "http:k",
        "http://a:8080@b/k",
        "ftp://a:8080/k",
        "HTTP://B/k",
    ] {
        assert!(away(location), "{location}");
    }
    for location in ["/k", "k", "../k", "?x=http://b/", "http://a:8080/k", "http://A:8080?x", ""] {
        assert!(!away(location), "{location}");
    }
    let elsewhere = headers(&[("location", "http://b/k")]);
    let a = addressed("a", false);
    assert!(!redirects_away(StatusCode::CREATED, &elsewhere, &a), "201 names what was made");
    assert!(!redirects_away(StatusCode::PERMANENT_REDIRECT, &HeaderMap::new(), &a));
    assert!(same_authority("a", "A:80", false) && !same_authority("a", "a:8080", false));
    assert!(same_authority("a", "A:443", true) && !same_authority("a", "a:80", true));
}

#[test]
fn over_tls_a_redirect_to_plain_http_leads_away() {
    let a = addressed("a", true);
    for location in ["http://a/k", "http://a:443/k", "https://b/k", "https://a:80/k"] {
        assert!(leads(location, &a), "{location}");
    }
    for location in ["/k", "//a/k", "https://a/k", "https://A:443/k"] {
        assert!(!leads(location, &a), "{location}");
    }
}

fn leads(location: &str, addressed: &Addressed) -> bool {
    redirects_away(StatusCode::TEMPORARY_REDIRECT, &headers(&[("location", location)]), addressed)
}

fn addressed(host: &str, tls: bool) -> Addressed {
    Addressed::as_sent(host, tls)
}

/// A connection keeps the map between its requests.
#[test]
fn a_map_that_is_used_again_is_empty_and_not_large() {
    let few = emptied(headers(&[("host", "a"), ("cookie", "a"), ("cookie", "b")]));
    assert!(few.is_empty() && few.capacity() > 0, "its room is kept");
    let mut many = HeaderMap::new();
    for name in 0..100 {
        many.insert(HeaderName::try_from(format!("x-{name}")).unwrap(), "1".parse().unwrap());
    }
    let lines = headers(&[("cookie", "a"); 100]);
    for large in [many, lines] {
        let emptied = emptied(large);
        assert!(emptied.is_empty() && emptied.capacity() == 0);
    }
}
