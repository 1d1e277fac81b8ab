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
    assert_eq!(value(b"/b?key=a%00b"), Err(Ambiguity::Control));
    assert_eq!(value(b"/b?key=1&keys=2&ke=3&k_ey=4"), Ok(Some(b"1".to_vec())));
    for other in ["KEY", "%20key", "key%20", "%09key", "key%00x", "key[]", "key%5b0%5d"] {
        let target = format!("/b?key=1&{other}=2");
        assert_eq!(value(target.as_bytes()), Err(Ambiguity::KeyPart), "{other} passes for it");
    }
    let dotted = read(b"/b?a_b=1&a.b=2").unwrap();
    assert_eq!(dotted.query_value("a_b"), Err(Ambiguity::KeyPart));
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
    for target in [
        "/b?_method=DELETE",
        "/b?x=1&_method=put",
        "/b?_METHOD=PUT",
        "/b?%5fmethod=PUT",
        "/b?+_method=PUT",
        "/b?%20_method=PUT",
        "/b?_method%00x=PUT",
        "/b?_method[]=PUT",
    ] {
        assert!(read(target.as_bytes()).unwrap().asks_for(&["_method"]), "{target}");
    }
    assert!(!read(b"/b?method=PUT&x_method=1").unwrap().asks_for(&["_method"]));
}
