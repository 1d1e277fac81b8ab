//! Bytes of a store, to our client over a real socket: a method, a cut, then the answer. What the
//! client makes of them is what a second reading does, however they are cut; a connection is kept
//! only where nothing of it can be read in another way.

mod strict;

use std::{path::Path, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Method, header};
use hyper::ext::ReasonPhrase;
use palisade::upstream::{
    Kind, Options, PartialBody,
    http::{Draft, HttpUpstream, Lease, Outgoing, SendError},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    task::yield_now,
    time::timeout,
};

use self::strict::{Answer, End, answer};
use super::shown;

/// Longer than anything here takes.
const HANG: Duration = Duration::from_secs(20);

/// The largest input; more would fill the socket's buffer.
const MAX: usize = 32 * 1024;

/// The largest one that is fed byte by byte.
const SMALL: usize = 512;

pub fn run(data: &[u8]) {
    let [method, cut, bytes @ ..] = data else { return };
    if bytes.len() > MAX {
        return;
    }
    let method = match method {
        b'H' => Method::HEAD,
        b'P' => Method::PUT,
        _ => Method::GET,
    };
    let expected = answer(bytes, method == Method::HEAD);
    let cut = bytes.len() * usize::from(*cut) / 256;
    check(&method, &[bytes], expected.as_ref());
    check(&method, &[&bytes[..cut], &bytes[cut..]], expected.as_ref());
    if bytes.len() <= SMALL {
        let each: Vec<&[u8]> = bytes.chunks(1).collect();
        check(&method, &each, expected.as_ref());
    }
}

fn check(method: &Method, parts: &[&[u8]], expected: Option<&Answer>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let folder = tempfile::tempdir().expect("a directory");
    let exchange = exchange(folder.path(), method, parts, expected);
    let told = || format!("{method} {} in {} parts", shown(&parts.concat()), parts.len());
    let found = runtime.expect("a runtime").block_on(async { timeout(HANG, exchange).await });
    let found = found.unwrap_or_else(|_| panic!("it hangs: {}", told()));
    assert_eq!(found.as_ref(), expected, "{}", told());
}

/// The store ends the connection after its bytes, unless the answer ends by itself.
async fn exchange(
    folder: &Path,
    method: &Method,
    parts: &[&[u8]],
    expected: Option<&Answer>,
) -> Option<Answer> {
    let socket = folder.join("store");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let upstream = HttpUpstream::new(Arc::new(options(&socket)));
    let mut lease = upstream.checkout(None).await.expect("a connection");
    let mut store = Some(listener.accept().await.expect("a connection").0);
    let stays = expected.is_some_and(|answer| answer.end == End::Told);
    let script = async {
        answer_with(store.as_mut().expect("it is open"), parts).await;
        if !stays {
            store = None;
        }
    };
    let mut request = Draft::new(method.clone(), "/k", Outgoing::empty());
    request.field(&header::HOST, &HeaderValue::from_static("a"));
    let request = request.end(HeaderMap::new());
    let (answered, ()) = tokio::join!(lease.send(request, HANG), script);
    let head = match answered {
        Ok(head) => head,
        Err(SendError::Lost(why)) => {
            assert!(!why.is_empty());
            assert!(lease.sent().whole, "the request was sent");
            return None;
        }
        Err(other) => panic!("{other:?}"),
    };
    let framed = lease.is_framed();
    let (body, ended) = read(&mut lease).await;
    assert_eq!(lease.is_read(), ended);
    let end = match (ended, framed) {
        (false, _) => End::Cut,
        (true, true) => End::Told,
        (true, false) => End::Closed,
    };
    let closer = lease.closer();
    lease.put_back();
    let reason = head.extensions().get::<ReasonPhrase>().map(|said| said.as_bytes().to_vec());
    let usual = head.status().canonical_reason().unwrap_or_default();
    Some(Answer {
        status: head.status().as_u16(),
        old: head.version() == http::Version::HTTP_10,
        reason: reason.unwrap_or_else(|| usual.as_bytes().to_vec()),
        fields: strict::sorted(
            head.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())),
        ),
        body,
        end,
        kept: !closer.is_aborted(),
    })
}

async fn answer_with(store: &mut UnixStream, parts: &[&[u8]]) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(store.read_u8().await.expect("a request"));
    }
    for part in parts {
        // The client may have seen enough.
        let _ = store.write_all(part).await;
        yield_now().await;
    }
}

/// And whether it came to an end.
async fn read(lease: &mut Lease) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    let mut left = lease.left();
    while let Some(data) = lease.data(HANG).await {
        let Ok(data) = data else { return (body, false) };
        assert!(!data.is_empty());
        left = left.map(|left| left.checked_sub(data.len() as u64).expect("no more than was said"));
        body.extend_from_slice(&data);
        assert!(left.is_none() || lease.left() == left);
    }
    (body, true)
}

fn options(socket: &Path) -> Options {
    Options {
        name: "store".to_owned(),
        kind: Kind::Unix { socket: socket.to_owned() },
        connect_timeout: HANG,
        response_timeout: HANG,
        body_idle_timeout: HANG,
        max_write_lifetime: HANG,
        partial_body: PartialBody::Unknown,
        settled_statuses: Vec::new(),
        eof_is_end: false,
        pass_redirects: false,
        same_token_doubt_waits: false,
        pool_max_idle: 1,
        pool_idle_timeout: HANG,
        tls: None,
        host: None,
    }
}
