use http::HeaderValue;

use super::{super::stamp::Stamp, *};

type Fields<'a> = &'a [(&'a str, &'a str)];

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn entity() -> Entity {
    Entity { stamp: Stamp::at(784_111_777, 500), size: 10, inode: 3 }
}

/// `=` stands for the present tag.
fn headers(fields: Fields<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let value = value.replace('=', &format!("\"{}\"", entity().tag()));
        let name = HeaderName::try_from(*name).unwrap();
        headers.append(name, HeaderValue::try_from(value).unwrap());
    }
    headers
}

#[test]
fn reads() {
    use Verdict::{Fail, NotModified, Proceed};
    let table: &[(Fields<'_>, Verdict)] = &[
        (&[], Proceed),
        (&[("if-match", "=")], Proceed),
        (&[("if-match", "*")], Proceed),
        (&[("if-match", "\"x\", =")], Proceed),
        (&[("if-match", "\"x\""), ("if-match", "=")], Proceed),
        (&[("if-match", ",, = ,")], Proceed),
        (&[("if-match", "\"x\"")], Fail),
        (&[("if-match", "W/=")], Fail),
        (&[("if-match", "x")], Fail),
        (&[("if-match", "")], Fail),
        (&[("if-match", "*, =")], Fail),
        (&[("if-match", "= =")], Fail),
        (&[("if-match", "=x")], Fail),
        (&[("if-none-match", "=")], NotModified),
        (&[("if-none-match", "W/=")], NotModified),
        (&[("if-none-match", "*")], NotModified),
        (&[("if-none-match", "\"x\", W/\"y\", =")], NotModified),
        (&[("if-none-match", "\"x\"")], Proceed),
        (&[("if-none-match", "x")], Proceed),
        (&[("if-modified-since", DATE)], NotModified),
        (&[("if-modified-since", AFTER)], NotModified),
        (&[("if-modified-since", BEFORE)], Proceed),
        (&[("if-modified-since", "yesterday")], Proceed),
        (&[("if-modified-since", AFTER), ("if-modified-since", AFTER)], Proceed),
        (&[("if-modified-since", "Sunday, 06-Nov-94 08:49:37 GMT")], NotModified),
        (&[("if-unmodified-since", DATE)], Proceed),
        (&[("if-unmodified-since", BEFORE)], Fail),
        (&[("if-unmodified-since", "yesterday")], Proceed),
        // 13.2.2: If-Match silences If-Unmodified-Since, If-None-Match silences If-Modified-Since.
        (&[("if-match", "="), ("if-unmodified-since", BEFORE)], Proceed),
        (&[("if-none-match", "\"x\""), ("if-modified-since", AFTER)], Proceed),
        (&[("if-none-match", "="), ("if-modified-since", BEFORE)], NotModified),
        // The first two steps come before the last two.
        (&[("if-match", "\"x\""), ("if-none-match", "=")], Fail),
        (&[("if-unmodified-since", BEFORE), ("if-modified-since", AFTER)], Fail),
        (&[("if-match", "="), ("if-none-match", "=")], NotModified),
    ];
    for (fields, expected) in table {
        let conditions = Conditions::of(&headers(fields));
        assert_eq!(conditions.judge_read(&entity()), *expected, "{fields:?}");
    }
}

#[test]
fn writes() {
    // The fields; whether they let a write through where the file is there, and where it is not.
    let table: &[(Fields<'_>, bool, bool)] = &[
        (&[], true, true),
        (&[("if-match", "=")], true, false),
        (&[("if-match", "*")], true, false),
        (&[("if-match", "\"x\"")], false, false),
        (&[("if-match", "W/=")], false, false),
        (&[("if-none-match", "*")], false, true),
        (&[("if-none-match", "=")], false, true),
        (&[("if-none-match", "W/=")], false, true),
        (&[("if-none-match", "\"x\"")], true, true),
        (&[("if-unmodified-since", DATE)], true, true),
        (&[("if-unmodified-since", BEFORE)], false, true),
        (&[("if-match", "="), ("if-unmodified-since", BEFORE)], true, false),
        (&[("if-match", "="), ("if-none-match", "=")], false, false),
        (&[("if-unmodified-since", DATE), ("if-none-match", "*")], false, true),
        // It means nothing for a write (13.1.3).
        (&[("if-modified-since", AFTER)], true, true),
    ];
    for (fields, there, missing) in table {
        let conditions = Conditions::of(&headers(fields));
        assert!(!conditions.are_unreadable(), "{fields:?}");
        assert_eq!(conditions.allow_write(Some(&entity())), *there, "{fields:?}");
        assert_eq!(conditions.allow_write(None), *missing, "{fields:?}");
    }
}

#[test]
fn what_is_no_list_of_tags_is_known_as_such() {
    for value in ["", "x", "'x'", "\"x", "x\"", "w/\"x\"", "W/ \"x\"", "*,*", "\"a b\"", "\"a\";"] {
        for name in ["if-match", "if-none-match"] {
            let conditions = Conditions::of(&headers(&[(name, value)]));
            assert!(conditions.are_unreadable(), "{name}: {value}");
        }
    }
    let mut obscure = HeaderMap::new();
    let value = HeaderValue::from_bytes(b"\"\xe9!#,,\", \"\"").unwrap();
    obscure.insert(header::IF_MATCH, value);
    assert!(!Conditions::of(&obscure).are_unreadable());
}

#[test]
fn if_range() {
    for (value, expected) in [
        ("=", true),
        ("\"x\"", false),
        ("W/=", false),
        ("*", false),
        (DATE, false),
        ("nonsense", false),
    ] {
        let headers = headers(&[("if-range", value)]);
        assert_eq!(range_stands(&headers, &entity()), expected, "{value}");
    }
    assert!(range_stands(&HeaderMap::new(), &entity()));
}
