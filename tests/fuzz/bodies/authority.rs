//! A target in the first line, a Host field in each other one: whom the client has addressed.

use http::{HeaderMap, HeaderValue, Uri, Version, header::HOST};
use palisade::proxy::{authority::Addressed, hop::Hop, host_name, lines::Lines, target::Target};

use super::{lines, shown};

pub fn run(data: &[u8]) {
    let mut lines = lines(data, 5);
    let target = lines.next().unwrap_or_default();
    let Ok(uri) = Uri::try_from(target) else { return };
    // As the service does, before anything else.
    if Target::read(&uri).is_err() {
        return;
    }
    let mut headers = HeaderMap::new();
    for line in lines {
        let Ok(field) = HeaderValue::from_bytes(line) else { return };
        headers.append(HOST, field);
    }
    let host = Lines::of(&headers, &HOST);
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let Ok(read) = Addressed::read(host, &uri, version, Hop::default()) else { continue };
        let told = format!("{} {:?} {version:?}: {read:?}", shown(target), headers);
        let written: Vec<_> = headers.get_all(HOST).iter().collect();
        assert!(written.len() < 2, "{told}");
        assert!(version == Version::HTTP_2 || written.len() == 1, "{told}");
        is_one_host(&read, &told);
        names_all_that_is_named(&read, &uri, written.first().copied(), &told);
        has_one_spelling(&read, &told);
    }
}

/// RFC 3986, 3.2.2 and 3.2.3, and nothing that separates in a list, a URL or a header.
fn is_one_host(read: &Addressed, told: &str) {
    let field = read.field.as_bytes();
    assert!(field.iter().all(u8::is_ascii_graphic), "{told}");
    assert!(!field.iter().any(|byte| b",/@?#\\;\"<>%".contains(byte)), "{told}");
    let text = read.field.to_str().expect("visible ASCII");
    let (host, port) = match text.rfind(':').filter(|at| !text[*at..].contains(']')) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    };
    assert!(port.is_empty() || port.parse::<u32>().is_ok_and(|port| port < 100_000), "{told}");
    if let Some(inner) = host.strip_prefix('[') {
        let address = inner.strip_suffix(']').expect(told).parse::<std::net::Ipv6Addr>();
        assert_eq!(host_of(read), format!("[{}]", address.expect(told)));
    } else {
        let name = host.strip_suffix('.').unwrap_or(host);
        assert_eq!(host_of(read), name.to_ascii_lowercase(), "{told}");
        assert!(!name.is_empty() && !name.contains(':'), "{told}");
    }
}

/// Target and field are of one mind (RFC 9112, 3.2.2; RFC 9113, 8.3.1).
fn names_all_that_is_named(read: &Addressed, uri: &Uri, field: Option<&HeaderValue>, told: &str) {
    let bare = |host: &str| host.trim_end_matches('.').to_ascii_lowercase();
    if let Some(authority) = uri.authority() {
        assert_eq!(uri.scheme_str(), Some("http"), "{told}");
        assert_eq!(bare(authority.host()), bare(host_name(read.field.to_str().unwrap())), "{told}");
        assert!(!authority.as_str().contains('@'), "{told}");
    }
    if let Some(field) = field {
        assert!(field.as_bytes().eq_ignore_ascii_case(read.field.as_bytes()), "{told}");
    }
}

/// What is read is read as itself again, and so is each other way to write it.
fn has_one_spelling(read: &Addressed, told: &str) {
    let host = host_of(read);
    let spellings =
        [host.clone(), host.to_ascii_uppercase(), format!("{host}:80"), format!("{host}:")];
    let dotted = format!("{host}.");
    let dotted = (!host.ends_with(['.', ']'])).then_some(dotted);
    for spelling in spellings.into_iter().chain(dotted) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, spelling.parse().expect(told));
        let target = Uri::from_static("/k");
        let lines = Lines::of(&headers, &HOST);
        let again = Addressed::read(lines, &target, Version::HTTP_11, Hop::default());
        assert_eq!(host_of(&again.expect(told)), host, "{spelling} of {told}");
    }
}

fn host_of(read: &Addressed) -> String {
    String::from_utf8(read.host().to_vec()).expect("ASCII")
}
