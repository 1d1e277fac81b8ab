//! Heads, each whole and cut everywhere.

use http::{HeaderMap, Version};

use super::reading::{Answer, End, Reading};

/// `\r\n` for every line's end, and two at the end of the head.
fn lines(lines: &[&str]) -> String {
    lines.join("\r\n") + "\r\n\r\n"
}

/// A table of bytes and what they mean.
#[track_caller]
fn check(to_head: bool, cases: &[(&str, &str)]) {
    for (bytes, expected) in cases {
        let found = Reading::of_all_cuts(bytes.as_bytes(), to_head);
        assert_eq!(found.to_string(), *expected, "{bytes:?}");
    }
}

/// A head of these fields, and `ok` after it.
#[track_caller]
fn check_fields(start: &str, cases: &[(&[&str], &str)]) {
    for (fields, expected) in cases {
        let bytes = lines(&[&[start], *fields].concat()) + "ok";
        check(false, &[(&bytes, expected)]);
    }
}

fn answer(bytes: &[u8]) -> Answer {
    match Reading::of_all_cuts(bytes, false) {
        Reading::Answer(answer) => *answer,
        other @ (Reading::Part | Reading::Refused(_)) => panic!("{other}"),
    }
}

#[test]
fn forerunners_are_swallowed_and_a_switch_is_not() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let many = "HTTP/1.1 102 Processing\r\n\r\n".repeat(64);
    let endless = "HTTP/1.1 102 Processing\r\n\r\n".repeat(65);
    check(
        false,
        &[
            (&format!("HTTP/1.1 100 Continue\r\n\r\n{ok}"), "200 `ok` whole, keeps"),
            (&format!("HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\n{ok}"), "200 `ok` whole, keeps"),
            (&format!("HTTP/1.1 199 x\r\nConnection: close\r\n\r\n{ok}"), "200 `ok` whole, keeps"),
            // No framing, whatever it says (RFC 9112, 6.3).
            (&format!("HTTP/1.1 100 x\r\nContent-Length: 9\r\n\r\n{ok}"), "200 `ok` whole, keeps"),
            (
                &format!("HTTP/1.1 100 x\r\nTransfer-Encoding: chunked\r\n\r\n{ok}"),
                "200 `ok` whole, keeps",
            ),
            (&format!("{many}{ok}"), "200 `ok` whole, keeps"),
            (&format!("{endless}{ok}"), "Endless"),
            ("HTTP/1.1 100 Continue\r\n\r\n", "part of a head"),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", "part of a head"),
            ("HTTP/1.1 100 Continue\r\n\r\nbody", "Head(Version)"),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "101 `` whole"),
            (
                "HTTP/1.1 101 x\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
                "101 `` whole, then `ok`",
            ),
            (
                "HTTP/1.1 100 x\r\n\r\nHTTP/1.1 101 x\r\nUpgrade: a\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
                "101 `` whole, then `HTTP/1.1 200 OK\\r\\n\\r\\n`",
            ),
        ],
    );
}

#[test]
fn some_answers_have_no_body_whatever_they_say() {
    let framings: [&[&str]; 5] = [
        &[],
        &["Content-Length: 2"],
        &["Content-Length: 0"],
        &["Transfer-Encoding: chunked"],
        &["Transfer-Encoding: gzip"],
    ];
    for framing in framings {
        for (start, to_head) in [
            ("HTTP/1.1 204 No Content", false),
            ("HTTP/1.1 304 Not Modified", false),
            ("HTTP/1.1 204 No Content", true),
            ("HTTP/1.1 200 OK", true),
            ("HTTP/1.1 404 Not Found", true),
        ] {
            let head = lines(&[&[start], framing].concat());
            let status = &start[9..12];
            check(to_head, &[(&head, &format!("{status} `` whole, keeps"))]);
            let more = format!("{head}2\r\nok");
            let expected = format!("{status} `` whole, keeps, then `2\\r\\nok`");
            check(to_head, &[(&more, &expected)]);
        }
    }
    // The length is for the reader of the head, who must not get two, or none.
    for to_head in [true, false] {
        for length in ["no number", "-1", "2, 3"] {
            let bad = format!("HTTP/1.1 204 No Content\r\nContent-Length: {length}\r\n\r\n");
            check(to_head, &[(&bad, "Length")]);
        }
    }
    // What stays is for the head's reader, but not for the next exchange.
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(true, &[(both, "200 `` whole")]);
    let closing = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    check(false, &[(closing, "204 `` whole")]);
    check(true, &[("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 `` whole")]);
}

#[test]
fn a_connection_is_kept_where_its_version_or_its_words_say_so() {
    let sized = "Content-Length: 2";
    check_fields(
        "HTTP/1.0 200 OK",
        &[
            (&[sized], "200 `ok` whole"),
            (&[sized, "Connection: keep-alive"], "200 `ok` whole, keeps"),
            (&[sized, "connection: a, KEEP-Alive ,b"], "200 `ok` whole, keeps"),
            (&[sized, "Connection: a", "Connection: keep-alive"], "200 `ok` whole, keeps"),
            (&[sized, "Connection: keep-alive, close"], "200 `ok` whole"),
            (&[sized, "Connection: keep-alives"], "200 `ok` whole"),
            (&[sized, "Keep-Alive: timeout=5"], "200 `ok` whole"),
            (&["Connection: keep-alive"], "200 `ok` closed"),
        ],
    );
    check_fields(
        "HTTP/1.1 200 OK",
        &[
            (&[sized], "200 `ok` whole, keeps"),
            (&[sized, "Connection: close"], "200 `ok` whole"),
            (&[sized, "CONNECTION: CLOSE"], "200 `ok` whole"),
            (&["Connection: keep-alive, Close", sized], "200 `ok` whole"),
            (&[sized, "Connection: close,keep-alive"], "200 `ok` whole"),
            (&["Connection: close", sized, "Connection: keep-alive"], "200 `ok` whole"),
            (&["Connection: keep-alive", sized, "Connection: \tclose "], "200 `ok` whole"),
            (&[sized, "Connection: ,,close,,"], "200 `ok` whole"),
            (&[sized, "Connection: \u{e9}, close"], "200 `ok` whole"),
            (&[sized, "Connection: closed, not-close"], "200 `ok` whole, keeps"),
            (&[sized, "Connection: upgrade"], "200 `ok` whole, keeps"),
            (&[sized, "Connection:"], "200 `ok` whole, keeps"),
            (&[], "200 `ok` closed"),
        ],
    );
}

#[test]
fn a_length_is_one_number() {
    check_fields(
        "HTTP/1.1 200 OK",
        &[
            (&["Content-Length: 2"], "200 `ok` whole, keeps"),
            (&["content-length:\t 2 \t"], "200 `ok` whole, keeps"),
            (&["Content-Length: 0002"], "200 `ok` whole, keeps"),
            (&["Content-Length: 1"], "200 `o` whole, keeps, then `k`"),
            (&["Content-Length: 0"], "200 `` whole, keeps, then `ok`"),
            (&["Content-Length: 3"], "200 `ok` short, keeps"),
            (&["Content-Length: 2", "Content-Length: 2"], "200 `ok` whole, keeps"),
            (&["Content-Length: 2, 2 ,02"], "200 `ok` whole, keeps"),
            (&["Content-Length: 18446744073709551615"], "200 `ok` short, keeps"),
            (&["Content-Length: 2", "Content-Length: 3"], "Length"),
            (&["Content-Length: 2", "A: b", "Content-Length:"], "Length"),
            (&["Content-Length: 2, 3"], "Length"),
            (&["Content-Length: 3, 2"], "Length"),
            (&["Content-Length: 2,"], "Length"),
            (&["Content-Length: ,2"], "Length"),
            (&["Content-Length: 2;2"], "Length"),
            (&["Content-Length: 2 2"], "Length"),
            (&["Content-Length:"], "Length"),
            (&["Content-Length: "], "Length"),
            (&["Content-Length: +2"], "Length"),
            (&["Content-Length: -2"], "Length"),
            (&["Content-Length: -0"], "Length"),
            (&["Content-Length: 0x2"], "Length"),
            (&["Content-Length: 2.0"], "Length"),
            (&["Content-Length: 2_0"], "Length"),
            (&["Content-Length: \"2\""], "Length"),
            (&["Content-Length: \u{0662}"], "Length"),
            (&["Content-Length: 18446744073709551616"], "Length"),
            (&["Content-Length: 99999999999999999999999999"], "Length"),
        ],
    );
}

#[test]
fn a_coding_goes_before_a_length() {
    let chunked = "Transfer-Encoding: chunked";
    let body = "2\r\nok\r\n0\r\n\r\n";
    let cases: [(&[&str], &str); 20] = [
        (&[chunked], "200 `ok` whole, keeps"),
        (&["transfer-encoding:CHUNKED"], "200 `ok` whole, keeps"),
        // None that we have asked for.
        (&["Transfer-Encoding: gzip, chunked"], "Coding"),
        (&["Transfer-Encoding: gzip ,\tchunked "], "Coding"),
        (&["Transfer-Encoding: gzip", chunked], "Coding"),
        (&[chunked, chunked], "Coding"),
        (&["Transfer-Encoding: chunked, chunked"], "Coding"),
        (&["Transfer-Encoding: chunked,"], "Coding"),
        (&["Transfer-Encoding: chunked, gzip"], "Coding"),
        (&[chunked, "Transfer-Encoding: gzip"], "Coding"),
        (&["Transfer-Encoding: gzip"], "Coding"),
        (&["Transfer-Encoding: identity"], "Coding"),
        (&["Transfer-Encoding: xchunked"], "Coding"),
        (&["Transfer-Encoding: chunked;a=b"], "Coding"),
        (&["Transfer-Encoding: \u{e9}"], "Coding"),
        (&["Transfer-Encoding:"], "Coding"),
        // Whoever believes the length sees another answer after it.
        (&["Content-Length: 2", chunked], "200 `ok` whole"),
        (&[chunked, "Content-Length: 12"], "200 `ok` whole"),
        (&[chunked, "Content-Length: none"], "200 `ok` whole"),
        (&["Transfer-Encoding: gzip", "Content-Length: 2"], "Coding"),
    ];
    for (fields, expected) in cases {
        let bytes = lines(&[&["HTTP/1.1 200 OK"], fields].concat()) + body;
        check(false, &[(&bytes, expected)]);
    }
    for fields in [
        &[chunked][..],
        &["Transfer-Encoding: gzip"],
        &[chunked, "Content-Length: 2"],
        &[chunked, "Connection: keep-alive"],
    ] {
        let bytes = lines(&[&["HTTP/1.0 200 OK"], fields].concat()) + body;
        check(false, &[(&bytes, "Coding")]);
    }
}

#[test]
fn what_is_not_http_is_no_answer() {
    let heads = [
        ("GET / HTTP/1.1\r\n\r\n", "Head(Version)"),
        ("HTTP/2.0 200 OK\r\n\r\n", "Head(Version)"),
        ("HTTP/1.2 200 OK\r\n\r\n", "Head(Version)"),
        ("HTTP/1.10 200 OK\r\n\r\n", "Head(Version)"),
        ("HTTP/0.9 200 OK\r\n\r\n", "Head(Version)"),
        ("http/1.1 200 OK\r\n\r\n", "Head(Version)"),
        (" HTTP/1.1 200 OK\r\n\r\n", "Head(Version)"),
        ("ICY 200 OK\r\n\r\n", "Head(Version)"),
        ("SSH-2.0-x\r\n", "Head(Version)"),
        ("\u{15}\u{3}\u{1}\0\u{2}\u{2}F", "Head(Version)"),
        ("\0", "Head(Version)"),
        ("<html>", "Head(Version)"),
        ("HTTP/1.1\t200 OK\r\n\r\n", "Head(Version)"),
        ("HTTP/1.1\r\n\r\n", "Head(Version)"),
        ("HTTP/1.1  200 OK\r\n\r\n", "Head(Status)"),
        ("HTTP/1.1 20 OK\r\n\r\n", "Head(Status)"),
        ("HTTP/1.1 2000 OK\r\n\r\n", "Head(Status)"),
        ("HTTP/1.1 2x0 OK\r\n\r\n", "Head(Status)"),
        ("HTTP/1.1 +20 OK\r\n\r\n", "Head(Status)"),
        ("HTTP/1.1 200OK\r\n\r\n", "Head(Status)"),
        ("HTTP/1.1 200\tOK\r\n\r\n", "Head(Status)"),
        ("HTTP/1.1 200 O\0K\r\n\r\n", "Head(Status)"),
        ("HTTP/1.1 200 O\rK\r\n\r\n", "Head(Status)"),
        ("HTTP/1.1 200 O\u{7f}K\r\n\r\n", "Head(Status)"),
        ("HTTP/1.1 000 x\r\n\r\n", "Field"),
        ("HTTP/1.1 099 x\r\n\r\n", "Field"),
        ("", "part of a head"),
        ("HTTP/1.1 200 OK\r\n", "part of a head"),
        ("HTTP/1.1 200 OK\r\nA: b\r\n", "part of a head"),
        ("HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n", "999 `` whole, keeps"),
        ("HTTP/1.1 600\r\nContent-Length: 0\r\n\r\n", "600 `` whole, keeps"),
    ];
    check(false, &heads);
}

#[test]
fn a_field_is_a_name_and_a_value() {
    let cases = [
        ("A: b\r\n c", "Head(HeaderName)"),
        ("A: b\r\n\tc", "Head(HeaderName)"),
        (" A: b", "Head(HeaderName)"),
        ("A : b", "Head(HeaderName)"),
        ("A\t: b", "Head(HeaderName)"),
        (": b", "Head(HeaderName)"),
        ("A b: c", "Head(HeaderName)"),
        ("A", "Head(HeaderName)"),
        ("A\0: b", "Head(HeaderName)"),
        ("\u{e9}: b", "Head(HeaderName)"),
        ("A(b): c", "Head(HeaderName)"),
        ("A: b\0c", "Head(HeaderValue)"),
        ("A: \u{7f}", "Head(HeaderValue)"),
        ("A: \u{1}b", "Head(HeaderValue)"),
        ("A: b\rc", "Head(HeaderValue)"),
        ("A: b\r\r", "Head(HeaderValue)"),
        ("\rA: b", "Head(NewLine)"),
    ];
    for (field, expected) in cases {
        for (before, after) in [("", ""), ("Content-Length: 2\r\n", ""), ("", "\r\nC: d")] {
            let bytes = format!("HTTP/1.1 200 OK\r\n{before}{field}{after}\r\n\r\nok");
            check(false, &[(&bytes, expected)]);
        }
    }
}

/// RFC 9112, 2.2, lets a reader do both.
#[test]
fn a_line_may_end_with_a_line_feed_and_empty_ones_may_go_before() {
    check(
        false,
        &[
            ("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "200 `ok` whole, keeps"),
            ("HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\nok", "200 `ok` whole, keeps"),
            ("HTTP/1.1 200\nContent-Length: 2\n\r\nok", "200 `ok` whole, keeps"),
            ("\r\n\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "204 `` whole, keeps"),
            ("\r\n", "part of a head"),
            ("\rHTTP/1.1 204 No Content\r\n\r\n", "Head(NewLine)"),
        ],
    );
}

#[test]
fn a_head_has_a_largest_size() {
    const MOST: usize = 64 * 1024;
    let of_size = |size: usize| {
        let start = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: ";
        format!("{start}{}\r\n\r\n", "x".repeat(size - start.len() - 4))
    };
    let fields = |count: usize| "A: b\r\n".repeat(count);
    let forerunner = of_size(MOST).replacen("200", "103", 1);
    let nearly = of_size(MOST).replacen("\r\n\r\n", "", 1);
    check(
        false,
        &[
            (&(of_size(MOST) + "ok"), "200 `ok` whole, keeps"),
            (&(of_size(MOST + 1) + "ok"), "TooLarge"),
            (&of_size(MOST + 1)[..MOST], "part of a head"),
            (&of_size(MOST * 2), "TooLarge"),
            (&"\r\n".repeat(MOST / 2), "part of a head"),
            (&"\r\n".repeat(MOST / 2 + 1), "TooLarge"),
            (&nearly, "part of a head"),
            // Each of them by itself.
            (&(forerunner + &of_size(MOST) + "ok"), "200 `ok` whole, keeps"),
            (&format!("HTTP/1.1 200 OK\r\n{}\r\nok", fields(100)), "200 `ok` closed"),
            (&format!("HTTP/1.1 200 OK\r\n{}\r\nok", fields(101)), "Head(TooManyHeaders)"),
        ],
    );
}

#[test]
fn a_head_keeps_what_it_said() {
    let found = answer(
        b"HTTP/1.1 200 OK\r\nX-Two: 1\r\nETag: \"a\"\r\nx-two:  2,\t3 \r\nEmpty:\r\nBlank: \t \r\n\
          High: \xe9\xff\r\n!#$%&'*+-.^_`|~9: x\r\nContent-Length: 0\r\n\r\n",
    );
    let mut expected = HeaderMap::new();
    for (name, value) in [
        ("x-two", &b"1"[..]),
        ("etag", b"\"a\""),
        ("x-two", b"2,\t3"),
        ("empty", b""),
        ("blank", b""),
        ("high", b"\xe9\xff"),
        ("!#$%&'*+-.^_`|~9", b"x"),
        ("content-length", b"0"),
    ] {
        expected.append(name, value.try_into().unwrap());
    }
    assert_eq!(found.fields, expected);
    assert_eq!((found.version, found.reason, found.left), (Version::HTTP_11, None, Some(0)));

    for (start, version, reason) in [
        ("HTTP/1.1 200 Fine, thanks", Version::HTTP_11, Some("Fine, thanks")),
        ("HTTP/1.0 200 ok", Version::HTTP_10, Some("ok")),
        ("HTTP/1.0 404 Not Found", Version::HTTP_10, None),
        ("HTTP/1.1 200 ", Version::HTTP_11, Some("")),
        ("HTTP/1.1 200", Version::HTTP_11, Some("")),
        ("HTTP/1.1 200  OK\t", Version::HTTP_11, Some(" OK\t")),
        // It is only for people.
        ("HTTP/1.1 200 \u{e9}", Version::HTTP_11, Some("")),
        ("HTTP/1.1 299", Version::HTTP_11, Some("")),
    ] {
        let found = answer(format!("{start}\r\n\r\n").as_bytes());
        let expected = reason.map(|reason| reason.as_bytes().into());
        assert_eq!((found.version, found.reason), (version, expected), "{start}");
        assert_eq!((found.left, found.told, found.end), (None, false, End::Closed), "{start}");
    }
}
