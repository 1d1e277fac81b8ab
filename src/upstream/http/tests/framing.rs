//! Bodies, each whole and cut everywhere.

use super::reading::{End, Reading, shown};
use crate::upstream::http::response::Malformed;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Most bytes of extensions, and of a trailer.
const MOST: usize = 16 * 1024;

#[track_caller]
fn check(head: &str, cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        let bytes = format!("{head}{body}");
        let found = Reading::of_all_cuts(bytes.as_bytes(), false).to_string();
        assert_eq!(found, format!("200 {expected}"), "{}", shown(body.as_bytes()));
    }
}

#[test]
fn a_sized_body_ends_with_its_last_byte() {
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        &[
            ("hello", "`hello` whole, keeps"),
            ("hell", "`hell` short, keeps"),
            ("", "`` short, keeps"),
            ("hello\r\n", "`hello` whole, keeps, then `\\r\\n`"),
            ("\r\n\r\n\0", "`\\r\\n\\r\\n\\x00` whole, keeps"),
        ],
    );
}

#[test]
fn an_untold_body_ends_with_its_connection() {
    let head = "HTTP/1.1 200 OK\r\n\r\n";
    check(head, &[("", "`` closed"), ("hello\r\n", "`hello\\r\\n` closed")]);
    let Reading::Answer(found) = Reading::of(&[head.as_bytes()], false) else { panic!() };
    assert_eq!((found.left, found.told, found.end), (None, false, End::Closed));
}

#[test]
fn a_head_says_how_much_is_to_come() {
    for (framing, left) in [("Content-Length: 5", Some(5)), ("Transfer-Encoding: chunked", None)] {
        let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
        let Reading::Answer(found) = Reading::of(&[head.as_bytes()], false) else { panic!() };
        assert_eq!((found.left, found.told, found.end), (left, true, End::Short), "{framing}");
    }
}

#[test]
fn chunks_end_with_an_empty_one_and_a_trailer() {
    let ok = "`hello` whole, keeps";
    check(
        CHUNKED,
        &[
            ("0\r\n\r\n", "`` whole, keeps"),
            ("000\r\n\r\n", "`` whole, keeps"),
            ("5\r\nhello\r\n0\r\n\r\n", ok),
            ("2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", ok),
            ("0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n", ok),
            (
                "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
                "`01234567890123456789` whole, keeps",
            ),
            ("4\r\n\r\n\r\n\r\n0\r\n\r\n", "`\\r\\n\\r\\n` whole, keeps"),
            ("5\r\nhello\r\n0\r\n\r\nHTTP", "`hello` whole, keeps, then `HTTP`"),
            // Extensions.
            ("5;a\r\nhello\r\n0;b=c;d=\"e;f\"\r\n\r\n", ok),
            ("5 ; a = b\r\nhello\r\n0\t;\r\n\r\n", ok),
            ("5;\r\nhello\r\n0;;;\r\n\r\n", ok),
            ("5;\u{e9}\r\nhello\r\n0\r\n\r\n", ok),
            ("5 \t\r\nhello\r\n0 \r\n\r\n", ok),
            // Trailers, which are dropped.
            ("5\r\nhello\r\n0\r\nA: b\r\n\r\n", ok),
            ("5\r\nhello\r\n0\r\nA:b\r\nC:\r\nContent-Length: 9\r\n\r\n", ok),
            ("5\r\nhello\r\n0\r\nA: \u{e9} \t\r\n\r\n", ok),
            // No end yet.
            ("", "`` short, keeps"),
            ("5", "`` short, keeps"),
            ("5\r", "`` short, keeps"),
            ("5\r\nhell", "`hell` short, keeps"),
            ("5\r\nhello", "`hello` short, keeps"),
            ("5\r\nhello\r\n", "`hello` short, keeps"),
            ("5\r\nhello\r\n0", "`hello` short, keeps"),
            ("5\r\nhello\r\n0\r\n", "`hello` short, keeps"),
            ("5\r\nhello\r\n0\r\n\r", "`hello` short, keeps"),
            ("5\r\nhello\r\n0\r\nA: b\r\n", "`hello` short, keeps"),
            ("ffffffffffffffff\r\nhello", "`hello` short, keeps"),
        ],
    );
}

#[test]
fn broken_chunks_are_no_body() {
    for size in [
        "",
        " ",
        " 5",
        "\t5",
        ";a",
        " ;a",
        "g",
        "5g",
        "0x5",
        "+5",
        "-5",
        "-0",
        "5 5",
        "5 a",
        "5,5",
        "5.0",
        "5\0",
        "5:a",
        "\u{e9}",
        "5\r",
        "5;a\r",
        "5;a\rb",
        "5;a\nb",
        "5\n",
        "00000000000000005",
        "00000000000000000",
        "10000000000000005",
        "fffffffffffffffff",
    ] {
        let body = format!("{size}\r\nhello\r\n0\r\n\r\n");
        check(CHUNKED, &[(&body, "`` Chunk, keeps")]);
        let body = format!("2\r\nok\r\n{size}\r\nhello\r\n0\r\n\r\n");
        check(CHUNKED, &[(&body, "`ok` Chunk, keeps")]);
    }
    check(
        CHUNKED,
        &[
            ("5\nhello\r\n0\r\n\r\n", "`` Chunk, keeps"),
            ("5\r\nhello0\r\n\r\n", "`hello` Chunk, keeps"),
            ("5\r\nhello\n0\r\n\r\n", "`hello` Chunk, keeps"),
            ("5\r\nhello\r0\r\n\r\n", "`hello` Chunk, keeps"),
            ("5\r\nhello\r\r\n0\r\n\r\n", "`hello` Chunk, keeps"),
            ("5\r\nhello \r\n0\r\n\r\n", "`hello` Chunk, keeps"),
            ("5\r\nhelloX", "`hello` Chunk, keeps"),
            ("5\r\nhello\rX", "`hello` Chunk, keeps"),
            ("5\r\nhello\r\n\r\n0\r\n\r\n", "`hello` Chunk, keeps"),
            ("0\r\n\n", "`` Chunk, keeps"),
            ("0\r\nA\r\n\r\n", "`` Chunk, keeps"),
            ("0\r\n: b\r\n\r\n", "`` Chunk, keeps"),
            ("0\r\nA : b\r\n\r\n", "`` Chunk, keeps"),
            ("0\r\nA: b\r\n c\r\n\r\n", "`` Chunk, keeps"),
            ("0\r\nA: b\nC: d\r\n\r\n", "`` Chunk, keeps"),
            ("0\r\nA: b\0\r\n\r\n", "`` Chunk, keeps"),
            ("0\r\nA: b\rc\r\n\r\n", "`` Chunk, keeps"),
            ("0\r\nA: b\r\r\n\r\n", "`` Chunk, keeps"),
            ("0\r\n\r\r\n", "`` Chunk, keeps"),
            ("0\r\n0\r\n\r\n", "`` Chunk, keeps"),
        ],
    );
}

/// Exactly so many bytes, however they arrive, and not one more.
#[test]
fn what_is_no_data_has_a_largest_size() {
    let ext = |size: usize| ";".repeat(size);
    let field = |size: usize| format!("A: {}", "b".repeat(size - 3));
    let end = "\r\n0\r\n\r\n";
    let cases = [
        (format!("5{}\r\nhello{end}", ext(MOST)), true),
        (format!("5{}\r\nhello{end}", ext(MOST + 1)), false),
        (format!("5{}", ext(MOST + 1)), false),
        // All of a body's together.
        (format!("2{}\r\nhe\r\n3{}\r\nllo{end}", ext(MOST / 2), ext(MOST / 2)), true),
        (format!("2{}\r\nhe\r\n3{}\r\nllo{end}", ext(MOST / 2), ext(MOST / 2 + 1)), false),
        (format!("5\r\nhello\r\n0{}\r\n\r\n", ext(MOST)), true),
        (format!("5\r\nhello\r\n0{}\r\n\r\n", ext(MOST + 1)), false),
        (format!("5\r\nhello\r\n0\r\n{}\r\n\r\n", field(MOST)), true),
        (format!("5\r\nhello\r\n0\r\n{}\r\n\r\n", field(MOST + 1)), false),
        (format!("5\r\nhello\r\n0\r\n{}", field(MOST + 1)), false),
        (format!("5\r\nhello\r\n0\r\n{0}\r\n{0}\r\n\r\n", field(MOST / 2)), true),
        (format!("5\r\nhello\r\n0\r\n{0}\r\n{0}b\r\n\r\n", field(MOST / 2)), false),
    ];
    for (body, fits) in cases {
        let bytes = format!("{CHUNKED}{body}");
        let Reading::Answer(found) = Reading::of_all_cuts(bytes.as_bytes(), false) else {
            panic!()
        };
        let broken = End::Broken(Malformed::Chunk);
        assert_eq!(found.end, if fits { End::Told } else { broken }, "{}", shown(body.as_bytes()));
    }
    // Digits are none of it: a body may have as many chunks as it likes.
    let many = format!("{CHUNKED}{}0\r\n\r\n", "0000000000000001\r\nx\r\n".repeat(MOST / 8));
    let Reading::Answer(found) = Reading::of_all_cuts(many.as_bytes(), false) else { panic!() };
    assert_eq!((found.end, found.body.len()), (End::Told, MOST / 8));
}
