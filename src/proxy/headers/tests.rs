use super::*;
use crate::proxy::fields;

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

#[test]
fn framing_has_one_form() {
    let length =
        |lines: &[(&'static str, &str)]| body_length(&headers(lines), Version::HTTP_11).ok();
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
    let chunked = headers(&[("transfer-encoding", "chunked")]);
    assert!(body_length(&chunked, Version::HTTP_10).is_err());
}

#[test]
fn hop_by_hop_fields_stay_and_the_token_goes_on() {
    let mut sent = headers(&[
        ("connection", "close, Fencing-Token, X-Mine"),
        ("fencing-token", "5"),
        ("x-mine", "1"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("trailer", "Fencing-Token"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABk"),
        ("expect", "100-continue"),
        ("proxy-connection", "keep-alive"),
        ("content-length", "05"),
        ("host", "other"),
        ("authorization", "secret"),
    ]);
    let host = HeaderValue::from_static("a:8080");
    to_upstream(&mut sent, &[fields::TOKEN], &host, BodyLength::Exact(5));
    let expected = headers(&[
        ("fencing-token", "5"),
        ("host", "a:8080"),
        ("authorization", "secret"),
        ("content-length", "5"),
    ]);
    assert_eq!(sent, expected);

    let mut answer =
        headers(&[("fencing-result", "admitted"), ("etag", "\"1\""), ("connection", "etag")]);
    to_client(&mut answer);
    assert!(answer.is_empty());
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
    let away = |location: &str| {
        let headers = headers(&[("location", location)]);
        redirects_away(StatusCode::TEMPORARY_REDIRECT, &headers, "a:8080")
    };
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
    assert!(!redirects_away(StatusCode::CREATED, &elsewhere, "a"), "201 names what was made");
    assert!(!redirects_away(StatusCode::PERMANENT_REDIRECT, &HeaderMap::new(), "a"));
    assert!(same_authority("a", "A:80") && !same_authority("a", "a:8080"));
}
