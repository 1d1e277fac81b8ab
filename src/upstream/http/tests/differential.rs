//! Ours beside hyper's own client, over answers that grow from a grammar and are then broken: where
//! they differ, ours is the stricter one, for a reason that is written here.

use bytes::Bytes;
use fastrand::Rng;
use http::{
    HeaderMap, HeaderValue, Request, StatusCode, Version,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncWriteExt, DuplexStream},
    task::yield_now,
};

use super::{
    read_until,
    reading::{End, Reading, shown},
};

const CASES: usize = 6000;

/// What a client has made of the bytes; `None` where it saw no answer in them.
type Heard = Option<Answer>;

#[derive(Clone, Debug, Eq, PartialEq)]
struct Answer {
    status: StatusCode,
    version: Version,
    fields: HeaderMap,
    /// `None` where it did not come to an end.
    body: Option<Vec<u8>>,
}

async fn by_hyper(method: &str, parts: &[&[u8]]) -> Heard {
    let (client, mut store) = tokio::io::duplex(1 << 20);
    let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
    let connection = tokio::spawn(connection);
    let script = async {
        play(&mut store, parts).await;
        drop(store);
    };
    let (answered, ()) = tokio::join!(sender.send_request(request(method)), script);
    let (head, rest) = answered.ok()?.into_parts();
    let body = read(rest).await;
    connection.abort();
    let mut fields = head.headers;
    let said: Vec<&[u8]> =
        fields.get_all(CONTENT_LENGTH).iter().map(HeaderValue::as_bytes).collect();
    let said = String::from_utf8_lossy(&said.join(&b","[..])).into_owned();
    if let Some((first, _)) = said.split_once(',')
        && let Ok(number) = first.trim().parse::<u64>()
        && !fields.contains_key(TRANSFER_ENCODING)
    {
        // We pass it on once.
        fields.insert(CONTENT_LENGTH, number.into());
    }
    Some(Answer { status: head.status, version: head.version, fields, body })
}

/// Whether hyper would send a second request over the connection, which stays open.
async fn hyper_keeps(method: &str, bytes: &[u8]) -> bool {
    let (client, mut store) = tokio::io::duplex(1 << 20);
    let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
    let connection = tokio::spawn(connection);
    let parts = [bytes];
    let answered = tokio::join!(sender.send_request(request(method)), play(&mut store, &parts)).0;
    read(answered.unwrap().into_body()).await.unwrap();
    let keeps = sender.ready().await.is_ok();
    connection.abort();
    keeps
}

fn request(method: &str) -> Request<Empty<Bytes>> {
    let request = Request::builder().method(method).uri("/k").header("host", "a");
    request.body(Empty::new()).unwrap()
}

async fn play(store: &mut DuplexStream, parts: &[&[u8]]) {
    read_until(store, "\r\n\r\n").await;
    for part in parts {
        // It may have seen enough.
        let _ = store.write_all(part).await;
        yield_now().await;
    }
}

async fn read(mut rest: Incoming) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(frame) = rest.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            body.extend_from_slice(&data);
        }
    }
    Some(body)
}

/// And whether the connection is kept.
fn by_us(method: &str, bytes: &[u8], random: &mut Rng) -> (Heard, bool) {
    let to_head = method == "HEAD";
    let whole = Reading::of(&[bytes], to_head);
    let cut = random.usize(..=bytes.len());
    let each: Vec<&[u8]> = bytes.chunks(1).collect();
    for parts in [&[&bytes[..cut], &bytes[cut..]][..], &each] {
        assert_eq!(Reading::of(parts, to_head), whole, "cut: {}", shown(bytes));
    }
    let Reading::Answer(answer) = whole else { return (None, false) };
    let keeps = answer.keeps && answer.end == End::Told && answer.rest.is_empty();
    let body = matches!(answer.end, End::Told | End::Closed).then_some(answer.body);
    let (status, version, fields) = (answer.status, answer.version, answer.fields);
    (Some(Answer { status, version, fields, body }), keeps)
}

/// The words of a field, in lines that are read loosely.
fn words(bytes: &[u8], name: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let lines = text.split('\n').filter_map(|line| line.split_once(':'));
    let values = lines.filter(|(found, _)| *found == name).map(|(_, value)| value);
    values.flat_map(|value| value.split(',')).map(|word| word.trim().to_owned()).collect()
}

/// What hyper takes and we do not.
fn is_known(bytes: &[u8]) -> bool {
    // A coding that nobody asked for, and a length that is none where none is needed.
    let codings = words(bytes, "transfer-encoding");
    let lengths = words(bytes, "content-length");
    let number = |word: &String| {
        word.parse::<u64>().ok().filter(|_| word.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let bad_length =
        lengths.iter().any(|word| number(word).is_none() || number(word) != number(&lengths[0]));
    if (!codings.is_empty() && codings != ["chunked"]) || bad_length {
        return true;
    }
    // RFC 9112, 7.1, sets no limit, and asks for a guard against an overflow: ours counts digits.
    let many_digits = bytes.windows(17).any(|part| part.iter().all(u8::is_ascii_hexdigit));
    // RFC 9112, 2.2, lets a line of a head end so. A trailer we drop; nothing is lost by care.
    let bare_end = bytes.windows(2).any(|pair| pair[0] != b'\r' && pair[1] == b'\n');
    many_digits || bare_end
}

#[tokio::test]
async fn ours_is_the_stricter_client() {
    let mut random = Rng::with_seed(9112);
    let (mut whole, mut kept, mut broken, mut stricter) = (0, 0, 0, 0);
    for _ in 0..CASES {
        let bytes = grow(&mut random);
        let method = pick(&mut random, &["GET", "GET", "PUT", "HEAD"]);
        let (ours, keeps) = by_us(method, &bytes, &mut random);
        let cut = random.usize(..=bytes.len());
        let hypers = by_hyper(method, &[&bytes]).await;
        let told = format!("{method} {}:\nours {ours:?}\nhyper's {hypers:?}", shown(&bytes));
        assert_eq!(by_hyper(method, &[&bytes[..cut], &bytes[cut..]]).await, hypers, "{told}");
        if ours == hypers {
            let is_whole = ours.is_some_and(|ours| ours.body.is_some());
            *(if is_whole { &mut whole } else { &mut broken }) += 1;
            assert!(!keeps || hyper_keeps(method, &bytes).await, "kept: {told}");
            kept += usize::from(keeps);
            continue;
        }
        let Some(hypers) = hypers else { panic!("{told}") };
        if let Some(ours) = ours {
            assert_eq!(ours, Answer { body: None, ..hypers }, "{told}");
        }
        assert!(is_known(&bytes), "{told}");
        stricter += 1;
    }
    let counts = format!("{whole} whole, {kept} kept, {broken} broken, {stricter} stricter");
    assert!(whole.min(broken) > CASES / 4 && kept > 300 && stricter > 9, "{counts}");
}

fn pick<'a>(random: &mut Rng, from: &[&'a str]) -> &'a str {
    from[random.usize(..from.len())]
}

const STARTS: [&str; 12] = [
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200 OK",
    "HTTP/1.1 201 Created",
    "HTTP/1.1 404 Not Found",
    "HTTP/1.1 500 Oh, no",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.0 200 OK",
    "HTTP/1.0 503 x",
    "HTTP/1.1 101 Switching Protocols",
    "HTTP/1.1 299",
    "HTTP/1.1 799 ",
];

const FIELDS: [&str; 14] = [
    "Date: now",
    "ETag: \"a\"",
    "X-A: b",
    "x-a:c \t",
    "Empty:",
    "High: \u{e9}",
    "Connection: close",
    "Connection: keep-alive",
    "Connection: a, close",
    "Keep-Alive: timeout=5",
    "Trailer: x",
    "Upgrade: a",
    "Content-Type: text/plain",
    "Set-Cookie: a=b; c",
];

const FRAMINGS: [&str; 22] = [
    "Content-Length: 5",
    "Content-Length: 5",
    "Content-Length: 05",
    "Content-Length: 5, 5",
    "Content-Length: 5\r\nContent-Length: 5",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 0",
    "Content-Length: 4",
    "Content-Length: +5",
    "Content-Length: 5,",
    "Content-Length: 99999999999999999999",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: Chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding: gzip",
    "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "X-Framing: none",
];

const SIZES: [&str; 12] = [
    "5",
    "5",
    "5",
    "05",
    "5;a=b",
    "5 ; a",
    "5\t",
    "0000000000000005",
    "00000000000000005",
    "5;",
    "4",
    "f",
];

const TRAILERS: [&str; 9] =
    ["", "", "", "X: y\r\n", "X:\r\nZ: \t1 \r\n", "X\r\n", "X : y\r\n", "X: y\n", ": y\r\n"];

/// Mostly sound.
fn grow(random: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..random.usize(..6).saturating_sub(4) {
        text +=
            pick(random, &["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 x\r\nLink: <a>\r\n\r\n"]);
    }
    text += pick(random, &STARTS);
    text += "\r\n";
    let framing = random.usize(..3);
    for at in 0..3 {
        text += pick(random, if at == framing { &FRAMINGS } else { &FIELDS });
        text += "\r\n";
    }
    text += "\r\n";
    if text.to_ascii_lowercase().contains("chunked") {
        for _ in 0..random.usize(..3) {
            text = text + pick(random, &SIZES) + "\r\nhello\r\n";
        }
        text = text + pick(random, &["0", "0", "0;a", "00", ""]) + "\r\n";
        text = text + pick(random, &TRAILERS) + "\r\n";
    } else {
        text += pick(random, &["hello", "hello", "hell", "hello\r\n", ""]);
    }
    let mut bytes = text.into_bytes();
    for _ in 0..random.usize(..6).saturating_sub(3) {
        mutate(&mut bytes, random);
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Rng) {
    const BYTES: &[u8] = b"\r\n\0 \t:;,.+-019afgFX\"\x7f\x80\xe9";
    if bytes.is_empty() {
        return;
    }
    let at = random.usize(..bytes.len());
    let byte = BYTES[random.usize(..BYTES.len())];
    match random.u8(..6) {
        0 => drop(bytes.remove(at)),
        1 => bytes.insert(at, byte),
        2 => bytes[at] = byte,
        3 => bytes.truncate(at),
        4 => {
            let part = bytes[at..].iter().take(12).copied().collect::<Vec<_>>();
            bytes.splice(at..at, part);
        }
        _ => {
            let ends: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at] == b'\r').collect();
            if !ends.is_empty() {
                bytes.remove(ends[random.usize(..ends.len())]);
            }
        }
    }
}
