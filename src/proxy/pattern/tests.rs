use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

#[test]
fn what_is_no_pattern_says_why() {
    for (text, why) in [
        ("", "it must start with \"/\""),
        ("b/{x}", "it must start with \"/\""),
        ("/", "it has an empty segment; write \"/{*rest}\" for everything below"),
        ("/a//b", "it has an empty segment; write \"/{*rest}\" for everything below"),
        ("/a/", "it has an empty segment; write \"/{*rest}\" for everything below"),
        ("/a/./b", "\".\" as a segment never matches"),
        ("/a/../b", "\"..\" as a segment never matches"),
        ("/{*r}/b", "nothing can follow {*rest}"),
        ("/{*r}/", "nothing can follow {*rest}"),
        ("/a{x}", "\"a{x}\" mixes text and braces; a {name} is one whole segment"),
        ("/{x}.txt", "\"{x}.txt\" mixes text and braces; a {name} is one whole segment"),
        ("/{x", "\"{x\" mixes text and braces; a {name} is one whole segment"),
        ("/a%2Fb", "\"a%2Fb\" has a percent sign; write the character it stands for"),
        ("/*", "\"*\" has a star; write {name} for one segment or {*rest} for the rest"),
        ("/a b", "\"a b\" has a character other than letters, digits and -._~!$&'()+,;=:@"),
        (
            "/caf\u{e9}",
            "\"caf\u{e9}\" has a character other than letters, digits and -._~!$&'()+,;=:@",
        ),
        ("/a?b", "\"a?b\" has a character other than letters, digits and -._~!$&'()+,;=:@"),
        ("/{x}/{x}", "{x} stands twice; give each its own name"),
        ("/{x}/{*x}", "{x} stands twice; give each its own name"),
        ("/1/2/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}", "it has more than 8 names or 32 segments"),
    ] {
        assert_eq!(Pattern::parse(text).unwrap_err().to_string(), why, "{text:?}");
    }
    for name in ["{}", "{1}", "{a-b}", "{host}", "{*}", "{**a}", "{{a}}"] {
        let error = Pattern::parse(&format!("/{name}")).unwrap_err();
        assert!(matches!(error, PatternError::Name(_)), "{name}: {error}");
    }
    assert!(Pattern::parse(&"/a".repeat(MAX_SEGMENTS)).is_ok());
    assert_eq!(Pattern::parse(&"/a".repeat(MAX_SEGMENTS + 1)), Err(PatternError::TooLong));
}

#[test]
fn a_path_is_matched_segment_by_segment() {
    let none: Option<&[&str]> = None;
    for (text, path, captured) in [
        ("/a", "/a", Some(&[][..])),
        ("/a", "/a/", none),
        ("/a", "/ab", none),
        ("/a", "/A", none),
        ("/a", "a", none),
        ("/a", "", none),
        ("/a/{x}", "/a/b", Some(&["b"][..])),
        ("/a/{x}", "/a/b/", none),
        ("/a/{x}", "/a/", none),
        ("/a/{x}", "/a", none),
        ("/a/{x}", "/a/b/c", none),
        ("/{x}/b/{y}", "/1/b/2", Some(&["1", "2"][..])),
        ("/{x}/b/{y}", "//b/2", none),
        ("/{*r}", "/", Some(&[""][..])),
        ("/{*r}", "/a", Some(&["a"][..])),
        ("/{*r}", "/a/b/", Some(&["a/b/"][..])),
        ("/a/{*r}", "/a", none),
        ("/a/{*r}", "/a/", Some(&[""][..])),
        ("/a/{x}/{*r}", "/a/b/c/d", Some(&["b", "c/d"][..])),
        ("/a/{x}/{*r}", "/a/b", none),
        (
            "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{*h}",
            "/1/2/3/4/5/6/7/8/9",
            Some(&["1", "2", "3", "4", "5", "6", "7", "8/9"][..]),
        ),
    ] {
        let found = pattern(text).matches(path.as_bytes());
        let found = found.map(|found| {
            let capture = |at| found.of(at, path.as_bytes()).map(|b| str::from_utf8(b).unwrap());
            assert_eq!(found.of(MAX_CAPTURES, path.as_bytes()), None);
            (0..MAX_CAPTURES).map_while(capture).collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref(), captured, "{text} {path}");
    }
}

/// The judge: every path of up to four segments over a small alphabet.
#[test]
fn patterns_overlap_where_a_path_matches_both() {
    let mut paths = vec![String::new()];
    for length in 0..4 {
        let of_length: Vec<String> =
            paths.iter().filter(|p| p.matches('/').count() == length).cloned().collect();
        paths.extend(of_length.iter().flat_map(|p| ["a", "b", "c"].map(|s| format!("{p}/{s}"))));
    }
    let slashes: Vec<String> = paths.iter().map(|path| format!("{path}/")).collect();
    paths.extend(slashes);
    let texts = [
        "/a",
        "/b",
        "/{x}",
        "/a/b",
        "/{x}/b",
        "/a/{x}",
        "/{x}/{y}",
        "/{*r}",
        "/a/{*r}",
        "/{x}/{*r}",
        "/{x}/b/{*r}",
        "/a/{x}/c",
        "/a/b/c/{*r}",
        "/{x}/{y}/{z}/{*r}",
        "/b/{x}/{y}/a",
    ];
    for one in texts.map(pattern) {
        for two in texts.map(pattern) {
            let both = |p: &&String| {
                one.matches(p.as_bytes()).is_some() && two.matches(p.as_bytes()).is_some()
            };
            let expected = paths.iter().find(both);
            let pair = format!("{} {}", one.as_str(), two.as_str());
            assert_eq!(one.overlaps(&two), expected.is_some(), "{pair}: {expected:?}");
            assert_eq!(
                overlaps_text(&one.normalised(), &two.normalised()),
                one.overlaps(&two),
                "{pair}"
            );
        }
    }
}

#[test]
fn normalised_patterns_have_no_names() {
    assert_eq!(pattern("/a/{x}/{*r}").normalised(), "/a/{}/{*}");
    assert_eq!(pattern("/a/{y}/{*s}").normalised(), "/a/{}/{*}");
    assert_eq!(pattern("/a").normalised(), "/a");
    assert_eq!(pattern("/{*o}").normalised(), "/{*}");
}

#[test]
fn a_text_that_cannot_be_read_overlaps_everything() {
    for bad in ["", "a", "/a//b", "/{*}/a", "/{x}", "/a/"] {
        assert!(overlaps_text(bad, "/zzz") && overlaps_text("/zzz", bad), "{bad}");
    }
    assert!(!overlaps_text("/zzz", "/a/{}"));
    assert!(!overlaps_text("/A/{}", "/a/{}"), "paths are told apart by case");
    assert!(overlaps_text("/A/{}", "~/a/{}") && overlaps_text("~/a/{}", "/A/{}"), "or are not");
}

#[test]
fn the_more_specific_pattern_goes_first() {
    let ascending = ["/a/b", "/a/{x}", "/a/{*r}", "/{x}/b", "/{x}/{y}", "/{x}/{*r}", "/{*r}"];
    for (at, one) in ascending.iter().enumerate() {
        for (other, two) in ascending.iter().enumerate() {
            assert_eq!(pattern(one).by_specificity(&pattern(two)), at.cmp(&other), "{one} {two}");
        }
    }
    assert_eq!(pattern("/a/{x}").by_specificity(&pattern("/a/{y}")), Ordering::Equal);
}
