//! How other servers map a request's target to an object: each a small function, written from its
//! documentation, of the target as the proxy sends it. `None`: that server refuses it.
//!
//! None of them is the whole server: what they share is put together of a few steps (decode, merge
//! slashes, resolve dots), each in the order in which that server takes them.

/// A server's reading: the object's name, without the leading slash.
pub type Reading = fn(&[u8]) -> Option<Vec<u8>>;

/// Known servers, then single steps that some server or framework takes.
pub const SERVERS: [(&str, Reading); 21] = [
    ("nginx", |t| Some(rooted(&dots(&merged(&without_nul(strict(path(t))?)?))))),
    ("nginx without merge_slashes", |t| Some(rooted(&dots(&without_nul(strict(path(t))?)?)))),
    ("Apache", |t| Some(rooted(&dots(&merged(&without_nul(strict(encoded_slash(path(t))?)?)?))))),
    ("Python's http.server", |t| Some(rooted(&dots(&merged(&lenient(path(t))))))),
    ("Node, by new URL() and path.normalize", node),
    ("Go's FileServer", |t| Some(rooted(&dots(&merged(&strict(path(t))?))))),
    ("Tomcat", |t| Some(rooted(&dots(&merged(&slashed(&strict(&cut(path(t)))?)))))),
    ("IIS", |t| Some(rooted(&dots(&merged(&slashed(&lenient(&unicode(path(t))))))))),
    ("S3", |t| Some(rooted(&lenient(path(t))))),
    ("a server that decodes twice", |t| Some(rooted(&lenient(&lenient(path(t)))))),
    ("a server that resolves dots, then decodes", |t| Some(rooted(&lenient(&dots(path(t)))))),
    ("a server that decodes, then resolves dots", |t| Some(rooted(&dots(&lenient(path(t)))))),
    ("a server that merges slashes", |t| Some(rooted(&merged(&lenient(path(t)))))),
    ("a server that cuts at a semicolon", |t| Some(rooted(&cut(&lenient(path(t)))))),
    ("a server that takes overlong forms", |t| Some(rooted(&dots(&overlong(&lenient(path(t))))))),
    ("a server that knows %u", |t| Some(rooted(&dots(&lenient(&unicode(path(t))))))),
    ("a server that ends at a NUL", |t| Some(rooted(&until(&lenient(path(t)), &[0])))),
    ("a server that ends at a line's end", |t| Some(rooted(&until(&lenient(path(t)), b"\r\n")))),
    ("a server behind one with upper-case escapes", |t| {
        Some(rooted(&lenient(&escapes(path(t), u8::to_ascii_uppercase))))
    }),
    ("a server behind one with lower-case escapes", |t| {
        Some(rooted(&lenient(&escapes(path(t), u8::to_ascii_lowercase))))
    }),
    ("a server behind one that encodes anew", |t| Some(rooted(&lenient(&anew(&lenient(path(t))))))),
];

/// What servers take for the value of a query's parameter.
pub fn query_values(target: &[u8], name: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let query = target.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default();
    let values = |separators: &'static [u8], mend: fn(&[u8]) -> Vec<u8>| {
        let pairs = query.split(move |byte| separators.contains(byte)).map(move |pair| {
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            let mut part = || form(parts.next().unwrap_or_default());
            (mend(&part()), part())
        });
        pairs.filter(|(key, _)| key == name).map(|(_, value)| value).collect::<Vec<_>>()
    };
    let plain = values(b"&", <[u8]>::to_vec);
    let parted = values(b"&;", <[u8]>::to_vec);
    let php = values(b"&", php_name);
    let folded = values(b"&", <[u8]>::to_ascii_lowercase);
    let ended = plain.last().map(|value| until(value, b"\0\r\n"));
    let readings = [
        ("a server that ends at a NUL or a line's end", ended.as_ref()),
        ("a server that takes the first", plain.first()),
        ("a server that takes the last", plain.last()),
        ("a server that takes the first, parted by ; too", parted.first()),
        ("a server that takes the last, parted by ; too", parted.last()),
        ("PHP", php.last()),
        ("a server that knows no case, and takes the first", folded.first()),
        ("a server that knows no case, and takes the last", folded.last()),
    ];
    readings.into_iter().filter_map(|(server, value)| Some((server, value?.clone()))).collect()
}

/// Blanks before a name are dropped, a NUL or a bracket ends it, blanks and dots are underscores.
fn php_name(key: &[u8]) -> Vec<u8> {
    let key = until(key.trim_ascii_start(), b"\0[");
    key.iter().map(|byte| if b". ".contains(byte) { b'_' } else { *byte }).collect()
}

/// A form's decoding: a plus is a space.
fn form(part: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = part.iter().map(|b| if *b == b'+' { b' ' } else { *b }).collect();
    lenient(&spaced)
}

/// The WHATWG's URL parser drops tabs and line ends, takes `\` for `/`, and resolves dots, encoded
/// ones too, before anything is decoded; `decodeURIComponent` then wants UTF-8.
fn node(target: &[u8]) -> Option<Vec<u8>> {
    let kept: Vec<u8> = path(target).iter().copied().filter(|b| !b"\t\r\n".contains(b)).collect();
    let segment = |segment: &[u8]| match &segment.to_ascii_lowercase()[..] {
        b"%2e" => b".".to_vec(),
        b"%2e%2e" | b".%2e" | b"%2e." => b"..".to_vec(),
        _ => segment.to_vec(),
    };
    let slashes = slashed(&kept);
    let segments: Vec<_> = slashes.split(|byte| *byte == b'/').map(segment).collect();
    let decoded = strict(&dots(&segments.join(&b'/')))?;
    std::str::from_utf8(&decoded).ok()?;
    Some(rooted(&dots(&merged(&decoded))))
}

/// The path of a target in origin form.
fn path(target: &[u8]) -> &[u8] {
    target.split(|byte| b"?#".contains(byte)).next().unwrap_or_default()
}

pub fn rooted(path: &[u8]) -> Vec<u8> {
    path.strip_prefix(b"/").unwrap_or(path).to_vec()
}

fn without_nul(path: Vec<u8>) -> Option<Vec<u8>> {
    (!path.contains(&0)).then_some(path)
}

/// `AllowEncodedSlashes Off`: such a path is refused.
fn encoded_slash(path: &[u8]) -> Option<&[u8]> {
    (!path.windows(3).any(|three| three.eq_ignore_ascii_case(b"%2f"))).then_some(path)
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

/// Decodes what it can and leaves the rest, as many servers do.
pub fn lenient(raw: &[u8]) -> Vec<u8> {
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

/// Decodes, and refuses a `%` that is no escape.
fn strict(raw: &[u8]) -> Option<Vec<u8>> {
    let escaped = |at: usize| {
        raw.get(at + 1..at + 3).is_some_and(|two| two.iter().all(|b| hex(*b).is_some()))
    };
    let sound = raw.iter().enumerate().all(|(at, byte)| *byte != b'%' || escaped(at));
    sound.then(|| lenient(raw))
}

/// Encodes all but what is unreserved, and slashes.
fn anew(path: &[u8]) -> Vec<u8> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encode = |byte: &u8| match *byte {
        byte if plain(byte) => vec![byte],
        byte => format!("%{byte:02X}").into_bytes(),
    };
    path.iter().flat_map(encode).collect()
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
