use super::*;

fn addressed(host: &str, tls: bool) -> Addressed {
    Addressed::as_sent(host, tls)
}

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

fn remote(text: &HeaderValue) -> Remote<'_> {
    Remote { ip: text.to_str().unwrap().parse().unwrap(), text }
}

fn forwarding(fields: ForwardedFields) -> Forwarding {
    Forwarding { trusted: vec!["10.0.0.0/8".parse().unwrap()], fields }
}

fn add(style: ForwardedFields, to: &mut HeaderMap, peer: &HeaderValue, addressed: &Addressed) {
    let mut put = |name: &HeaderName, value: &HeaderValue, place: Place| place.put(to, name, value);
    forwarding(style).own(Some(remote(peer)), addressed, &mut put);
}

#[test]
fn only_listed_peers_are_trusted() {
    let trusts = |peer: &str| forwarding(ForwardedFields::Both).trusts(Some(peer.parse().unwrap()));
    assert!(trusts("10.1.2.3") && trusts("::ffff:10.1.2.3"));
    assert!(!trusts("192.0.2.1") && !trusts("::1"));
    assert!(!forwarding(ForwardedFields::Both).trusts(None), "an unknown peer");
    assert!(!Forwarding::default().trusts(Some("127.0.0.1".parse().unwrap())), "the default");
}

#[test]
fn each_style_has_its_fields() {
    use ForwardedFields as F;
    let x = [("x-forwarded-for", "10.0.0.1"), ("x-forwarded-proto", "http")];
    let x = [&x[..], &[("x-forwarded-host", "a:8080")]].concat();
    let element = [("forwarded", "for=10.0.0.1;proto=http;host=\"a:8080\"")];
    for (style, expected) in [
        (F::XForwarded, x.clone()),
        (F::Forwarded, element.to_vec()),
        (F::Both, [&x[..], &element].concat()),
        (F::None, vec![]),
    ] {
        let mut fields = HeaderMap::new();
        let text = HeaderValue::from_static("10.0.0.1");
        add(style, &mut fields, &text, &addressed("a:8080", false));
        assert_eq!(fields, headers(&expected), "{style:?}");
    }
}

#[test]
fn what_is_there_is_kept_and_ours_comes_last() {
    let mut fields = headers(&[
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-for", "192.0.2.2, 10.0.0.9"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "public.example"),
        ("forwarded", "for=192.0.2.1"),
    ]);
    let text = HeaderValue::from_static("10.0.0.1");
    add(ForwardedFields::Both, &mut fields, &text, &addressed("a", true));
    let expected = headers(&[
        ("x-forwarded-for", "192.0.2.1, 192.0.2.2, 10.0.0.9, 10.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "public.example"),
        ("forwarded", "for=192.0.2.1, for=10.0.0.1;proto=https;host=a"),
    ]);
    assert_eq!(fields, expected);
}

#[test]
fn an_element_is_quoted_where_it_must_be() {
    for (peer, host, tls, expected) in [
        (Some("192.0.2.1"), "a", false, "for=192.0.2.1;proto=http;host=a"),
        (Some("2001:db8::1"), "a", true, "for=\"[2001:db8::1]\";proto=https;host=a"),
        (None, "[::1]:80", false, "for=unknown;proto=http;host=\"[::1]:80\""),
    ] {
        let peer = peer.map(|peer: &str| peer.parse().unwrap());
        assert_eq!(element(peer, &addressed(host, tls)), expected);
    }
}

#[test]
fn fields_that_tell_of_the_client_are_known() {
    for known in [
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-prefix",
        "x_forwarded_for",
        "x-real-ip",
        "x_real_ip",
    ] {
        assert!(tells_of_client(&known.parse().unwrap()), "{known}");
    }
    for other in ["forwarded-to", "x-real-ipsum", "x-forward", "via", "from", "fencing-token"] {
        assert!(!tells_of_client(&other.parse().unwrap()), "{other}");
    }
}

#[test]
fn via_names_the_version_that_came() {
    let mut fields = headers(&[("via", "1.1 edge")]);
    add_via(&mut fields, Version::HTTP_2);
    assert_eq!(fields["via"], "1.1 edge, 2 palisade");
    for (version, via) in [(Version::HTTP_11, "1.1 palisade"), (Version::HTTP_10, "1.0 palisade")] {
        let mut fields = HeaderMap::new();
        add_via(&mut fields, version);
        assert_eq!(fields["via"], via);
    }
}
