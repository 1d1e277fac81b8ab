use std::collections::BTreeMap;

use super::*;

fn read(target: &[u8]) -> Result<Target, Ambiguity> {
    // What hyper would refuse never gets here.
    Target::read(&Uri::try_from(target).expect("hyper takes it"))
}

#[test]
fn what_two_servers_could_read_differently_is_refused() {
    use Ambiguity as A;
    let table: &[(&[u8], A)] = &[
        (b"//b//k", A::EmptySegment),
        (b"/b//k", A::EmptySegment),
        (b"/b/k//", A::EmptySegment),
        (b"/other/../b/k", A::DotSegment),
        (b"/b/./k", A::DotSegment),
        (b"/b/x/..", A::DotSegment),
        (b"/..", A::DotSegment),
        (b"/.", A::DotSegment),
        (b"/b/../", A::DotSegment),
        (b"/other/%2e%2e/b/k", A::DotSegment),
        (b"/other/%2E%2e/b/k", A::DotSegment),
        (b"/other/.%2e/b/k", A::DotSegment),
        (b"/b%2fk", A::EncodedSlash),
        (b"/b%2Fk", A::EncodedSlash),
        (b"/public/..%2fb%2fk", A::EncodedSlash),
        (b"/b\\k", A::Backslash),
        (b"/b%5ck", A::Backslash),
        (b"/b/..%5cx", A::Backslash),
        (b"/b/k;v=1", A::Semicolon),
        (b"/b;x/k", A::Semicolon),
        (b"/b/k%3bv=1", A::Semicolon),
        (b"/b%252fk", A::DoubleEncoding),
        (b"/%252e%252e/k", A::DoubleEncoding),
        (b"/%25%32%65", A::DoubleEncoding),
        (b"/b/k%", A::BadEscape),
        (b"/b/%zz", A::BadEscape),
        (b"/b/%u002f", A::BadEscape),
        (b"/b/%U002F", A::BadEscape),
        (b"/b/%%32f", A::BadEscape),
        (b"/b/%2", A::BadEscape),
        (b"/b/%+1", A::BadEscape),
        (b"/caf\xc3\xa9", A::RawNonAscii),
        (b"/k?caf\xc3\xa9", A::RawNonAscii),
        (b"/%c0%af", A::NotUtf8),
        (b"/%c1%a1", A::NotUtf8),
        (b"/%e0%80%af", A::NotUtf8),
        (b"/%f0%80%80%ae", A::NotUtf8),
        (b"/%f8%80%80%80%ae", A::NotUtf8),
        (b"/%ed%a0%80", A::NotUtf8),
        (b"/b/k%00.txt", A::Control),
        (b"/b/k%0a", A::Control),
        (b"/b/k%7f", A::Control),
        (b"*", A::NotOriginForm),
        (b"b:80", A::NotOriginForm),
        (b"http://a?a=b", A::NotOriginForm),
    ];
    for (target, why) in table {
        assert_eq!(read(target).err(), Some(*why), "{}", String::from_utf8_lossy(target));
    }
    assert_eq!(read(&[b"/", &[b'a'; MAX_PATH + 1][..]].concat()).err(), Some(A::TooLong));
}

#[test]
fn one_path_by_every_spelling_and_the_bytes_as_they_came() {
    let table: &[(&[u8], &[u8])] = &[
        (b"/b/k", b"b/k"),
        (b"/b/%6b", b"b/k"),
        (b"/%62/%6B", b"b/k"),
        (b"/b/k%2Dx", b"b/k-x"),
        (b"/b/a+b", b"b/a+b"),
        (b"/b/a%2Bb", b"b/a+b"),
        (b"/b/!*'()", b"b/!*'()"),
        (b"/b/%21%2A%27%28%29", b"b/!*'()"),
        (b"/b/100%25", b"b/100%"),
        (b"/b/%C3%A9", "b/\u{e9}".as_bytes()),
        (b"/b/k%3fversionId=1", b"b/k?versionId=1"),
        (b"/b/k%23z", b"b/k#z"),
        (b"/b/%EF%BC%8E%EF%BC%8E/k", "b/\u{ff0e}\u{ff0e}/k".as_bytes()),
        (b"/b/a%20b", b"b/a b"),
        (b"/b/...", b"b/..."),
        (b"/b/.hidden", b"b/.hidden"),
        (b"/b/k/", b"b/k/"),
        (b"/", b""),
        (b"http://a/b/k?x", b"b/k"),
    ];
    for (target, path) in table {
        let shown = String::from_utf8_lossy(target);
        let read = read(target).unwrap();
        assert_eq!(read.path()[1..], **path, "{shown}");
        let origin = shown.strip_prefix("http://a").unwrap_or(&shown);
        assert_eq!(read.raw().as_str(), origin);
    }
    assert_eq!(read(b"/b/k#/../z").unwrap().raw().as_str(), "/b/k", "a fragment stays behind");
    assert!(read(b"/b/").unwrap().has_trailing_slash());
    assert!(!read(b"/").unwrap().has_trailing_slash());
    assert_eq!(read(b"http://u:1/b").unwrap().authority().unwrap().as_str(), "u:1");
}

#[test]
fn a_query_value_is_there_once_and_has_one_reading() {
    let value = |target: &[u8]| read(target).unwrap().query_value("key");
    assert_eq!(value(b"/b?key=k"), Ok(Some(b"k".to_vec())));
    assert_eq!(value(b"/b?a=1&%6bey=%6b"), Ok(Some(b"k".to_vec())));
    assert_eq!(value(b"/b?other=k"), Ok(None));
    assert_eq!(value(b"/b"), Ok(None));
    assert_eq!(value(b"/b?key"), Ok(Some(vec![])));
    assert_eq!(value(b"/b?key=1&key=1"), Err(Ambiguity::KeyPart));
    assert_eq!(value(b"/b?key=a+b"), Err(Ambiguity::KeyPart));
    assert_eq!(value(b"/b?key=%252f"), Err(Ambiguity::DoubleEncoding));
    assert_eq!(value(b"/b?key=%f"), Err(Ambiguity::BadEscape));
}

#[test]
fn a_batch_in_the_query_is_seen() {
    for target in ["/b?delete", "/b?delete=", "/b?x&%64elete", "/b?x;Delete", "/b?delete&delete"] {
        assert!(read(target.as_bytes()).unwrap().asks_for(&["delete"]), "{target}");
    }
    for target in ["/b", "/delete", "/b?deleted", "/b?x=delete", "/b?undelete"] {
        assert!(!read(target.as_bytes()).unwrap().asks_for(&["delete"]), "{target}");
    }
}

#[test]
fn a_method_in_the_query_is_seen() {
    for target in ["/b?_method=DELETE", "/b?x=1&_method=put", "/b?_METHOD=PUT", "/b?%5fmethod=PUT"]
    {
        assert!(read(target.as_bytes()).unwrap().asks_for(&["_method"]), "{target}");
    }
    assert!(!read(b"/b?method=PUT&x_method=1").unwrap().asks_for(&["_method"]));
}

/// The readings of other servers, each on its own and in turn: whatever is admitted has one path.
#[test]
fn an_admitted_target_has_one_path_under_every_common_reading() {
    const PARTS: &[&str] = &[
        "a",
        "b",
        "/",
        "//",
        ".",
        "..",
        "%2e",
        "%2E",
        "%2f",
        "%5c",
        "\\",
        ";",
        "%3b",
        "%25",
        "%252e",
        "%61",
        "%41",
        "A",
        "%",
        "%0",
        "+",
        "%2B",
        "%20",
        "~",
        "%7e",
        "%c3%a9",
        "%c0%af",
        "=",
        "-",
        "%c1%a1",
        "%c0%ae",
        "%e0%80%af",
        "%f0%80%80%ae",
        "%u0061",
        "%u002f",
        "%U002E",
        "%u",
        "%00",
        "%0a",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let mut seen = BTreeMap::new();
    for _ in 0..60_000 {
        let length = random.usize(1..8);
        let tail: String = (0..length).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
        let target = format!("/{tail}");
        let Ok(uri) = Uri::try_from(target.as_str()) else { continue };
        let admitted = Target::read(&uri).ok().map(|read| read.path()[1..].to_vec());
        *seen.entry(admitted.is_some()).or_insert(0) += 1;
        let Some(path) = admitted else { continue };
        for (reading, meant) in readings(&target) {
            assert_eq!(meant, path, "{target} as read by a server that {reading}");
        }
    }
    assert!(seen[&true] > 1_000 && seen[&false] > 1_000, "both sides were tried: {seen:?}");
}

fn readings(target: &str) -> Vec<(&'static str, Vec<u8>)> {
    let once = lenient(target.as_bytes());
    let raw = target.as_bytes();
    vec![
        ("decodes once", rooted(&once)),
        ("decodes twice", rooted(&lenient(&once))),
        ("resolves dots, then decodes", rooted(&lenient(&dots(raw)))),
        ("decodes, then resolves dots", rooted(&dots(&once))),
        ("merges slashes", rooted(&merged(&once))),
        ("takes a backslash for a slash", rooted(&dots(&merged(&slashed(&once))))),
        ("cuts at a semicolon", rooted(&cut(&once))),
        ("cuts at a semicolon, then decodes", rooted(&lenient(&cut(raw)))),
        ("takes overlong forms", rooted(&dots(&overlong(&once)))),
        ("knows %u", rooted(&dots(&lenient(&unicode(raw))))),
        ("ends at a NUL", rooted(&until(&once, &[0]))),
        ("ends at a line's end", rooted(&until(&once, b"\r\n"))),
        ("has upper-case escapes", rooted(&lenient(&escapes(raw, u8::to_ascii_uppercase)))),
        ("has lower-case escapes", rooted(&lenient(&escapes(raw, u8::to_ascii_lowercase)))),
    ]
}

fn rooted(path: &[u8]) -> Vec<u8> {
    path.strip_prefix(b"/").unwrap_or(path).to_vec()
}

/// Decodes what it can and leaves the rest, as many servers do.
fn lenient(raw: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (vec![], 0);
    while at < raw.len() {
        let pair = raw.get(at + 1).and_then(|b| hex(*b)).zip(raw.get(at + 2).and_then(|b| hex(*b)));
        match pair {
            Some((high, low)) if raw[at] == b'%' => {
                out.push(high << 4 | low);
                at += 3;
            }
            _ => {
                out.push(raw[at]);
                at += 1;
            }
        }
    }
    out
}

/// Reads the forms of an ASCII character that are longer than they may be.
fn overlong(path: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (vec![], path);
    while let [byte, tail @ ..] = rest {
        let (value, after) = match rest {
            [0xc0..=0xc1, b, after @ ..] => ((byte & 1) << 6 | b & 0x3f, after),
            [0xe0, b @ 0x80..=0x81, c, after @ ..]
            | [0xf0, 0x80, b @ 0x80..=0x81, c, after @ ..] => ((b & 1) << 6 | c & 0x3f, after),
            _ => (*byte, tail),
        };
        out.push(value);
        rest = after;
    }
    out
}

/// Reads `%uXXXX`, as far as it is ASCII.
fn unicode(raw: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (vec![], raw);
    while let [byte, tail @ ..] = rest {
        let (value, after) = match rest {
            [b'%', b'u' | b'U', b'0', b'0', high, low, after @ ..] => {
                match hex(*high).zip(hex(*low)) {
                    Some((high, low)) => (high << 4 | low, after),
                    None => (*byte, tail),
                }
            }
            _ => (*byte, tail),
        };
        out.push(value);
        rest = after;
    }
    out
}

fn until(path: &[u8], ends: &[u8]) -> Vec<u8> {
    path.split(|byte| ends.contains(byte)).next().unwrap_or_default().to_vec()
}

fn dots(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<&[u8]> = vec![];
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    out.pop();
                }
                if last {
                    out.push(b"");
                }
            }
            _ => out.push(segment),
        }
    }
    [b"/", out.join(&b'/').as_slice()].concat()
}

fn merged(path: &[u8]) -> Vec<u8> {
    let mut out = path.to_vec();
    out.dedup_by(|a, b| *a == b'/' && *b == b'/');
    out
}

fn slashed(path: &[u8]) -> Vec<u8> {
    path.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect()
}

fn cut(path: &[u8]) -> Vec<u8> {
    let kept = |segment: &[u8]| segment.split(|b| *b == b';').next().unwrap_or_default().to_vec();
    path.split(|byte| *byte == b'/').map(kept).collect::<Vec<_>>().join(&b'/')
}

fn escapes(raw: &[u8], case: fn(&u8) -> u8) -> Vec<u8> {
    let mut out = raw.to_vec();
    for (at, byte) in raw.iter().enumerate() {
        if *byte == b'%' {
            out.iter_mut().skip(at + 1).take(2).for_each(|digit| *digit = case(digit));
        }
    }
    out
}
