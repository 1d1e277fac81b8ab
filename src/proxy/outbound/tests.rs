use http::Uri;

use super::*;
use crate::proxy::{
    fields,
    forwarding::ForwardedFields,
    headers::join_cookies,
    lines::{Fields, Lines, USUAL},
};

/// A request as it came.
#[derive(Clone)]
struct Came {
    version: Version,
    uri: &'static str,
    lines: Vec<(&'static str, &'static str)>,
}

/// What is set up.
#[derive(Default)]
struct Setup {
    forwarding: Forwarding,
    rewrite: Rewrite,
    host: Option<HeaderValue>,
}

const PEER: &str = "192.0.2.7";

fn h1(lines: &[(&'static str, &'static str)]) -> Came {
    let lines = [&[("host", "a:8080")], lines].concat();
    Came { version: Version::HTTP_11, uri: "/k?v=1", lines }
}

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_static(value));
    }
    headers
}

/// The head as the store reads it, field by field in order.
fn sent(came: &Came, setup: &Setup) -> String {
    let mut lines = headers(&came.lines);
    if came.version == Version::HTTP_2 {
        join_cookies(&mut lines);
    }
    let uri: Uri = came.uri.parse().unwrap();
    let text = HeaderValue::from_static(PEER);
    let hop = Hop { remote: Some(Remote { ip: PEER.parse().unwrap(), text: &text }), tls: None };
    let addressed =
        Addressed::read(Lines::of(&lines, &header::HOST), &uri, came.version, hop).unwrap();
    let id = RequestId::of(Some(&headers(&[("x-request-id", "id-1")])));
    let outbound = Outbound {
        target: uri.path_and_query().unwrap(),
        host: setup.host.as_ref().unwrap_or(&addressed.field),
        addressed: &addressed,
        kept: &[fields::TOKEN],
        rewrite: &setup.rewrite,
        forwarding: &setup.forwarding,
        id: &id,
        version: came.version,
        usual: Fields::of(&lines).unusual.is_none(),
        peer: hop.remote,
    };
    let text = |outbound: Outbound<'_>| {
        let request = outbound.request(Method::GET, lines.clone(), Outgoing::empty());
        let head = String::from_utf8(request.head().to_vec()).unwrap();
        head.strip_suffix("\r\n\r\n").unwrap().replace("\r\n", "\n") + "\n"
    };
    let sent = text(outbound);
    assert_eq!(text(Outbound { usual: false, ..outbound }), sent, "looked through all the same");
    sent
}

fn silent() -> Setup {
    let fields = ForwardedFields::None;
    Setup { forwarding: Forwarding { fields, ..Forwarding::default() }, ..Setup::default() }
}

/// The lines between the request line with Host and what this proxy adds.
fn passed(lines: &[(&'static str, &'static str)]) -> Vec<String> {
    let text = sent(&h1(lines), &silent());
    let all: Vec<String> = text.lines().map(str::to_owned).collect();
    let (head, own) = (&all[..2], &all[all.len() - 2..]);
    assert_eq!(head, ["GET /k?v=1 HTTP/1.1", "host: a:8080"]);
    assert_eq!(own, ["via: 1.1 palisade", "x-request-id: id-1"]);
    all[2..all.len() - 2].to_vec()
}

#[test]
fn hop_by_hop_fields_stay_and_the_token_goes_on() {
    let lines = passed(&[
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
        ("proxy-authorization", "secret"),
        ("content-length", "05"),
        ("authorization", "secret"),
        ("x-request-id", "b"),
        ("x-request-id", "a"),
    ]);
    // Of the framing the upstream's client makes its own, and a GET without a body has none.
    assert_eq!(lines, ["fencing-token: 5", "authorization: secret"]);
}

#[test]
fn bodies_and_their_codings_are_untouched() {
    let lines = [
        ("accept-encoding", "gzip, br;q=0.5"),
        ("content-encoding", "aws-chunked"),
        ("content-type", "text/plain"),
        ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
        ("digest", "sha-256=abc"),
        ("repr-digest", "sha-256=:abc:"),
        ("if-match", "\"1\""),
        ("if-none-match", "W/\"1\", \"2\""),
        ("range", "bytes=0-1"),
        ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
    ];
    let expected: Vec<String> =
        lines.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(passed(&lines), expected);
}

#[test]
fn repeated_fields_keep_their_order() {
    let lines = [("x-a", "1"), ("x-b", "2"), ("x-a", "3"), ("cookie", "a=1"), ("cookie", "b=2")];
    let expected = ["x-a: 1", "x-a: 3", "x-b: 2", "cookie: a=1", "cookie: b=2"];
    assert_eq!(passed(&lines), expected, "HTTP/1.1 cookies are not ours to join");
}

/// The same request by HTTP/2 and by HTTP/1.1.
#[test]
fn both_versions_go_on_as_the_same_bytes() {
    let length = ("content-length", "5");
    let chunked = ("transfer-encoding", "chunked");
    let more = [("fencing-token", "5"), ("x-a", "1"), ("accept", "*/*"), ("x-a", "2")];
    for (framing1, framing2) in
        [(vec![length], vec![length]), (vec![chunked], vec![]), (vec![], vec![])]
    {
        for setup in [Setup::default(), silent()] {
            let one = [&framing1[..], &more, &[("cookie", "a=1; b=2"), ("x-last", "1")]].concat();
            let one = h1(&one);
            let crumbs =
                [("cookie", "a=1"), ("x-last", "1"), ("te", "trailers"), ("cookie", "b=2")];
            let two = [&framing2[..], &more, &crumbs].concat();
            let (version, uri) = (Version::HTTP_2, "http://a:8080/k?v=1");
            let two = Came { version, uri, lines: two };
            let beside =
                Came { lines: [&two.lines[..], &[("host", "a:8080")]].concat(), ..two.clone() };
            let expected = sent(&one, &setup).replace("via: 1.1 ", "via: 2 ");
            assert_eq!(sent(&two, &setup), expected);
            assert_eq!(sent(&beside, &setup), expected, "a Host beside the authority");
            assert!(expected.contains("cookie: a=1; b=2\n"), "{expected}");
        }
    }
}

#[test]
fn only_a_trusted_peers_word_is_taken() {
    let said = [
        ("x-forwarded-for", "198.51.100.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "public"),
        ("x-forwarded-port", "443"),
        ("x-real-ip", "198.51.100.1"),
        ("x_forwarded_for", "198.51.100.1"),
        ("forwarded", "for=198.51.100.1"),
        ("via", "2 edge"),
    ];
    let setup = |trusted: &[&str], fields| {
        let trusted = trusted.iter().map(|network| network.parse().unwrap()).collect();
        Setup { forwarding: Forwarding { trusted, fields }, ..Setup::default() }
    };
    let lines = |setup: &Setup| {
        let text = sent(&h1(&said), setup);
        text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let own = ["via: 2 edge, 1.1 palisade", "x-request-id: id-1"];
    let foreign = lines(&setup(&["10.0.0.0/8"], ForwardedFields::XForwarded));
    assert_eq!(
        foreign,
        [
            own[0],
            "x-forwarded-for: 192.0.2.7",
            "x-forwarded-proto: http",
            "x-forwarded-host: a:8080",
            own[1]
        ]
    );
    assert_eq!(lines(&setup(&[], ForwardedFields::None)), own);
    let trusted = lines(&setup(&["192.0.2.0/24"], ForwardedFields::XForwarded));
    assert_eq!(
        trusted,
        [
            "x-forwarded-for: 198.51.100.1, 192.0.2.7",
            "x-forwarded-proto: https",
            "x-forwarded-host: public",
            "x-forwarded-port: 443",
            "x-real-ip: 198.51.100.1",
            "x_forwarded_for: 198.51.100.1",
            "forwarded: for=198.51.100.1",
            own[0],
            own[1],
        ]
    );
    let kept = lines(&setup(&["192.0.2.7"], ForwardedFields::None));
    assert_eq!(kept[0], "x-forwarded-for: 198.51.100.1");
    assert_eq!(kept.len(), 9);
}

#[test]
fn the_upstreams_host_and_the_routes_fields_have_the_last_word() {
    let set = vec![
        (HeaderName::from_static("x-store-key"), HeaderValue::from_static("hush")),
        (HeaderName::from_static("x-forwarded-proto"), HeaderValue::from_static("https")),
    ];
    let remove = vec![header::COOKIE, header::VIA];
    let setup = Setup {
        rewrite: Rewrite::new(set, remove),
        host: Some(HeaderValue::from_static("bucket.internal")),
        ..Setup::default()
    };
    let text = sent(&h1(&[("cookie", "a=1"), ("x-store-key", "forged")]), &setup);
    let mut lines: Vec<&str> = text.lines().skip(1).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "host: bucket.internal",
            "x-forwarded-for: 192.0.2.7",
            "x-forwarded-host: a:8080",
            "x-forwarded-proto: https",
            "x-request-id: id-1",
            "x-store-key: hush",
        ]
    );
    let usual = sent(&h1(&[("accept", "*/*")]), &setup);
    assert!(usual.contains("x-store-key: hush\n") && !usual.contains("via:"), "{usual}");
}

/// Where no other field is there, none is looked at before it goes on.
#[test]
fn the_usual_fields_go_on_whoever_sends_them() {
    for name in USUAL.iter().filter(|name| **name != header::HOST) {
        assert!(!is_hop_by_hop(name) && !is_built_anew(name), "{name}");
        assert!(!is_answer_of_ours(name) && !tells_of_client(name), "{name}");
    }
}
