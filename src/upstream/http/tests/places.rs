//! Where a store may be: on a Unix socket, or at several addresses.

use std::{
    future::{Future as _, poll_fn},
    io,
    mem::MaybeUninit,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UnixListener, UnixStream},
    task::yield_now,
};

use super::{
    LATE, LIMITS, NOTHING, PART, WHOLE, incoming, options, read_until, read_whole, request,
};
use crate::upstream::{
    Kind,
    http::{
        HttpUpstream, Lease, Outgoing, SendError, Unreachable,
        names::{Looking, Lookup, Names},
    },
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A store on a Unix socket, and us as its client; the folder goes last.
fn unix_store(stall: Duration) -> (UnixListener, HttpUpstream, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("store.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut options = options(0);
    options.kind = Kind::Unix { socket };
    options.body_idle_timeout = stall;
    (listener, HttpUpstream::new(Arc::new(options)), folder)
}

#[tokio::test]
async fn an_exchange_over_a_unix_socket() {
    let (listener, upstream, _folder) = unix_store(LIMITS.idle);
    let mut lease = upstream.checkout(None).await.unwrap();
    assert_eq!(lease.address(), None);
    let (mut store, _) = listener.accept().await.unwrap();
    // Twice over one connection, whatever is pinned: there is one place only.
    for pinned in [None, Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)))] {
        let script = async {
            assert!(read_until(&mut store, "\r\n\r\n").await.contains("host: a\r\n"));
            store.write_all(OK).await.unwrap();
        };
        let (response, ()) =
            tokio::join!(lease.send(request("PUT", Outgoing::empty()), LATE), script);
        response.unwrap();
        assert_eq!(read_whole(&mut lease).await, "ok");
        assert_eq!(lease.sent(), WHOLE);
        lease.put_back();
        for _ in 0..10 {
            yield_now().await;
        }
        lease = upstream.checkout(pinned).await.unwrap();
    }
}

/// Whether there is something to read, of which nothing is taken.
fn has_come(stream: &UnixStream) -> bool {
    SockRef::from(stream).peek(&mut [MaybeUninit::uninit()]).is_ok()
}

/// What was written stays written: the store reads it after the abort, and finds the body short.
#[tokio::test]
async fn an_abort_over_a_unix_socket_takes_nothing_back() {
    let (listener, upstream, _folder) = unix_store(LIMITS.idle);
    let mut lease = upstream.dial(None).await.unwrap();
    let (mut store, _) = listener.accept().await.unwrap();
    let (body, _client) =
        incoming("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhello").await;
    let body = Outgoing::new(body, LIMITS);
    let progress = body.progress();
    tokio::select! {
        sent = lease.send(request("PUT", body), LATE) => panic!("{sent:?}"),
        () = async {
            // It goes a turn after it was taken.
            while progress.taken() < 5 || !has_come(&store) {
                yield_now().await;
            }
        } => {}
    }
    assert_eq!(lease.close(), PART);
    let mut got = String::new();
    store.read_to_string(&mut got).await.unwrap();
    assert!(got.contains("content-length: 9\r\n") && got.ends_with("hello"), "{got}");
}

/// R4, R7: the connection ends, or a takeover cuts it, in the turn that a write waits for.
#[tokio::test]
async fn what_waits_for_its_turn_was_not_sent() {
    for cut in [false, true] {
        let (listener, upstream, _folder) = unix_store(LIMITS.idle);
        let mut lease = upstream.dial(None).await.unwrap();
        let (mut store, _) = listener.accept().await.unwrap();
        let (body, _client) =
            incoming("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").await;
        let body = Outgoing::new(body, LIMITS);
        let (progress, closer) = (body.progress(), lease.closer());
        let mut sending = Box::pin(lease.send(request("PUT", body), LATE));
        // The body is there, and is taken.
        for _ in 0..5 {
            yield_now().await;
        }
        let sent = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
        assert!(sent.is_pending() && progress.taken() == 5);
        assert!(!has_come(&store));
        if cut {
            closer.abort();
        } else {
            store.shutdown().await.unwrap();
            drop(store);
        }
        match sending.await {
            Err(SendError::NotSent(request)) if !cut => {
                let body = request.body.collect().await.unwrap();
                assert_eq!(body.to_bytes(), "hello");
            }
            Err(SendError::Lost(_)) if cut => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(lease.close(), NOTHING);
    }
}

#[tokio::test]
async fn a_store_that_stops_reading_a_unix_socket_is_noticed() {
    let (listener, upstream, _folder) = unix_store(Duration::from_millis(50));
    let mut lease = upstream.dial(None).await.unwrap();
    let _store = listener.accept().await.unwrap();
    let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 256 << 20);
    let (body, mut client) = incoming(&head).await;
    tokio::spawn(async move {
        let chunk = vec![b'x'; 1 << 20];
        while client.write_all(&chunk).await.is_ok() {}
    });
    let sent = lease.send(request("PUT", Outgoing::new(body, LIMITS)), LATE).await;
    assert!(matches!(sent, Err(SendError::Late)), "{sent:?}");
    assert_eq!(lease.sent(), PART);
    lease.closer().ended().await;
}

#[tokio::test]
async fn a_unix_socket_that_is_not_there_is_named() {
    let mut options = options(0);
    options.kind = Kind::Unix { socket: PathBuf::from("/nonexistent/store.sock") };
    let error = HttpUpstream::new(Arc::new(options)).checkout(None).await.unwrap_err();
    assert!(matches!(error, Unreachable::SocketFailed { .. }), "{error:?}");
    assert!(error.to_string().starts_with("no connection to /nonexistent/store.sock: "), "{error}");
}

/// A resolver that says what the test wants.
#[derive(Default)]
struct Told {
    addresses: Mutex<Vec<SocketAddr>>,
    asked: AtomicUsize,
}

impl Told {
    fn tell(&self, addresses: &[SocketAddr]) {
        *self.addresses.lock() = addresses.to_vec();
    }
}

impl Lookup for Told {
    fn addresses(&self, host: &str, _: u16) -> Looking {
        assert_eq!(host, "store.internal");
        self.asked.fetch_add(1, Ordering::Relaxed);
        let addresses = self.addresses.lock().clone();
        Box::pin(async move {
            if addresses.is_empty() { Err(io::Error::other("nobody knows")) } else { Ok(addresses) }
        })
    }
}

/// A store at two addresses with one port, its name, and us; the name is asked with every dial.
struct TwoPlaces {
    listeners: [Option<TcpListener>; 2],
    at: [SocketAddr; 2],
    told: Arc<Told>,
    upstream: HttpUpstream,
}

impl TwoPlaces {
    async fn new() -> Self {
        let one = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = one.local_addr().unwrap().port();
        let two = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        let at = [one.local_addr().unwrap(), two.local_addr().unwrap()];
        let told = Arc::new(Told::default());
        told.tell(&at);
        let mut options = options(port);
        options.kind = Kind::Http { host: "store.internal".into(), port };
        let names = Names::new(Arc::clone(&told) as _, Duration::ZERO);
        let upstream = HttpUpstream::with_names(Arc::new(options), names);
        Self { listeners: [Some(one), Some(two)], at, told, upstream }
    }

    /// Where a new connection goes.
    async fn dialled(&self, pinned: Option<SocketAddr>) -> Option<SocketAddr> {
        self.upstream.dial(pinned).await.unwrap().address()
    }
}

#[tokio::test]
async fn connections_go_to_whichever_answers() {
    let mut places = TwoPlaces::new().await;
    let [one, two] = places.at;
    assert_eq!(places.dialled(None).await, Some(one));
    // Fail-over, and it stays there although the first is listed first and answers again.
    places.listeners[0] = None;
    assert_eq!(places.dialled(None).await, Some(two));
    places.listeners[0] = Some(TcpListener::bind(one).await.unwrap());
    assert_eq!(places.dialled(None).await, Some(two));
    // Until that one fails in turn, or leaves the name.
    places.listeners[1] = None;
    assert_eq!(places.dialled(None).await, Some(one));
    places.listeners = [None, None];
    let none = places.upstream.dial(None).await;
    assert!(matches!(none, Err(Unreachable::Failed { address, .. }) if address == two), "{none:?}");
    assert_eq!(places.told.asked.load(Ordering::Relaxed), 5, "asked with every dial");
}

#[tokio::test]
async fn a_name_that_moves_is_followed() {
    let places = TwoPlaces::new().await;
    let [one, two] = places.at;
    places.told.tell(&[one]);
    assert_eq!(places.dialled(None).await, Some(one));
    places.told.tell(&[two]);
    assert_eq!(places.dialled(None).await, Some(two));
    places.told.tell(&[]);
    let error = places.upstream.dial(None).await.unwrap_err();
    assert_eq!(error.to_string(), "the name store.internal does not resolve: nobody knows");
}

#[tokio::test]
async fn a_pinned_address_is_the_only_one() {
    let mut places = TwoPlaces::new().await;
    let [one, two] = places.at;
    let upstream = places.upstream.clone();
    let to_one = upstream.checkout(None).await.unwrap();
    let to_two = upstream.checkout(Some(two)).await.unwrap();
    assert_eq!((to_one.address(), to_two.address()), (Some(one), Some(two)));
    let closers = [&to_one, &to_two].map(Lease::closer);
    to_two.put_back();
    to_one.put_back();
    for _ in 0..10 {
        yield_now().await;
    }
    let asked = places.told.asked.load(Ordering::Relaxed);
    // Out of the pool, though the other one was used last.
    let again = upstream.checkout(Some(two)).await.unwrap();
    assert_eq!(again.address(), Some(two));
    drop(again);
    closers[1].ended().await;
    // The pool has the other one only, so it dials; and the other is no substitute.
    assert_eq!(upstream.checkout(Some(two)).await.unwrap().address(), Some(two));
    places.listeners[1] = None;
    let none = upstream.checkout(Some(two)).await;
    assert!(matches!(none, Err(Unreachable::Failed { address, .. }) if address == two), "{none:?}");
    assert!(!closers[0].is_aborted(), "the other stays where it was");
    assert_eq!(upstream.checkout(None).await.unwrap().address(), Some(one));
    assert_eq!(places.told.asked.load(Ordering::Relaxed), asked, "a pin asks no name");
}
