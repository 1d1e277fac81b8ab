use std::{
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http::{
    Response,
    header::{ACCEPT, CONTENT_LENGTH, RANGE, TRANSFER_ENCODING},
};
use socket2::{Domain, Socket, Type};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::yield_now,
};

use super::{
    LATE, LIMITS, NOTHING, PART, WHOLE, incoming, options, read_until, read_whole, request,
    request_with, store, store_with,
};
use crate::upstream::http::{
    HttpUpstream, Lease, Outgoing, SendError, Unreachable, dial::Dialled, link::Link, pool::Pool,
};

pub(super) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub(super) async fn reset(stream: &mut TcpStream) -> bool {
    let result = stream.read_to_end(&mut Vec::new()).await;
    result.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

pub(super) async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

/// A request, and the raw answer that the store gives it.
async fn exchange(lease: &mut Lease, store: &mut TcpStream, answer: &[u8]) -> Response<()> {
    let store = async {
        read_until(store, "\r\n\r\n").await;
        store.write_all(answer).await.unwrap();
    };
    let (response, ()) = tokio::join!(lease.send(request("PUT", Outgoing::empty()), LATE), store);
    response.unwrap()
}

#[tokio::test]
async fn a_request_that_was_not_sent_comes_back() {
    let (listener, upstream) = store().await;
    let mut lease = upstream.dial(None).await.unwrap();
    drop(accept(&listener).await);
    // The end is seen.
    for _ in 0..10 {
        yield_now().await;
    }
    let (body, _client) =
        incoming("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").await;
    let sent = lease.send(request("PUT", Outgoing::new(body, LIMITS)), LATE).await;
    let Err(SendError::NotSent(request)) = sent else { panic!("{sent:?}") };
    assert_eq!(lease.sent(), NOTHING);
    lease.closer().ended().await;
    assert_eq!(request.body.progress().taken(), 0);

    let mut lease = upstream.dial(None).await.unwrap();
    let mut store = accept(&listener).await;
    let script = async {
        assert!(read_until(&mut store, "hello").await.contains("content-length: 5\r\n"));
        store.write_all(OK).await.unwrap();
    };
    let (response, ()) = tokio::join!(lease.send(request, LATE), script);
    response.unwrap();
    assert_eq!(read_whole(&mut lease).await, "ok");
}

#[tokio::test]
async fn a_closed_idle_connection_is_not_checked_out() {
    let (listener, upstream) = store().await;
    let mut lease = upstream.checkout(None).await.unwrap();
    let mut store = accept(&listener).await;
    exchange(&mut lease, &mut store, OK).await;
    read_whole(&mut lease).await;
    let closer = lease.closer();
    lease.put_back();
    drop(store);
    closer.ended().await;
    let (lease, mut store) = tokio::join!(upstream.checkout(None), accept(&listener));
    let mut lease = lease.unwrap();
    exchange(&mut lease, &mut store, OK).await;
    read_whole(&mut lease).await;
}

#[tokio::test]
async fn a_body_that_the_kernel_did_not_take_is_not_whole() {
    const SIZE: usize = 256 << 20;
    let (listener, upstream) = store().await;
    let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n");
    let (body, mut client) = incoming(&head).await;
    tokio::spawn(async move {
        let chunk = vec![b'x'; 1 << 20];
        while client.write_all(&chunk).await.is_ok() {}
    });
    let mut lease = upstream.dial(None).await.unwrap();
    let _store = accept(&listener).await;
    let body = Outgoing::new(body, LIMITS);
    let progress = body.progress();
    tokio::select! {
        sent = lease.send(request("PUT", body), LATE) => panic!("{sent:?}"),
        () = async { while progress.taken() < 1 << 20 { yield_now().await } } => {}
    }
    assert_eq!(lease.sent(), PART);
    assert!(!progress.is_whole());
}

#[tokio::test]
async fn a_request_is_whole_when_its_answer_is_there() {
    let sized = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    let chunked = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n\
                   5\r\nhello\r\n0\r\nx: y\r\n\r\n";
    let cases = [
        (sized, "content-length: 5\r\n", "hello"),
        (chunked, "transfer-encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("PUT / HTTP/1.1\r\nHost: a\r\n\r\n", "content-length: 0\r\n", ""),
    ];
    for (raw, framing, rest) in cases {
        let (listener, upstream) = store().await;
        let (body, _client) = incoming(raw).await;
        let mut lease = upstream.checkout(None).await.unwrap();
        let mut store = accept(&listener).await;
        // The client's framing must not get through beside ours.
        let fields =
            [(CONTENT_LENGTH, "77"), (ACCEPT, "*/*"), (TRANSFER_ENCODING, "gzip"), (RANGE, "0")];
        let request = request_with("PUT", &fields, Outgoing::new(body, LIMITS));
        let script = async {
            let sent =
                read_until(&mut store, "\r\n\r\n").await + &read_until(&mut store, rest).await;
            let others = "accept: */*\r\nrange: 0\r\n\r\n";
            assert_eq!(sent, format!("PUT /k HTTP/1.1\r\nhost: a\r\n{framing}{others}{rest}"));
            store.write_all(OK).await.unwrap();
        };
        let (response, ()) = tokio::join!(lease.send(request, LATE), script);
        assert_eq!(lease.sent(), WHOLE, "{raw:?}");
        response.unwrap();
        assert_eq!(read_whole(&mut lease).await, "ok");
    }
}

#[tokio::test]
async fn a_fault_of_the_body_loses_the_request_and_resets_the_store() {
    let (listener, upstream) = store().await;
    let (body, client) =
        incoming("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhello").await;
    let mut lease = upstream.dial(None).await.unwrap();
    let mut store = accept(&listener).await;
    let script = async {
        read_until(&mut store, "hello").await;
        drop(client);
    };
    let send = lease.send(request("PUT", Outgoing::new(body, LIMITS)), LATE);
    let (sent, ()) = tokio::join!(send, script);
    assert!(matches!(&sent, Err(SendError::Lost(why)) if why.contains("client left")), "{sent:?}");
    assert_eq!(lease.sent(), PART);
    lease.closer().ended().await;
    assert!(reset(&mut store).await);
}

#[tokio::test]
async fn an_abort_a_drop_and_a_close_reset_the_connection() {
    for how in ["abort", "drop", "close"] {
        let (listener, upstream) = store().await;
        let mut lease = upstream.dial(None).await.unwrap();
        let mut store = accept(&listener).await;
        let closer = lease.closer();
        let send = lease.send(request("PUT", Outgoing::empty()), LATE);
        if how == "abort" {
            let script = async {
                read_until(&mut store, "\r\n\r\n").await;
                closer.abort();
            };
            let (sent, ()) = tokio::join!(send, script);
            assert!(matches!(&sent, Err(SendError::Lost(why)) if why.contains("cut")), "{sent:?}");
        } else {
            tokio::select! {
                sent = send => panic!("{sent:?}"),
                _ = read_until(&mut store, "\r\n\r\n") => {}
            }
            if how == "drop" {
                drop(lease);
            } else {
                assert_eq!(lease.close(), WHOLE);
            }
        }
        closer.ended().await;
        assert!(reset(&mut store).await, "{how}");
    }
}

/// The same within an answer.
#[tokio::test]
async fn an_abort_ends_an_answer_that_is_being_read() {
    let (listener, upstream) = store().await;
    let mut lease = upstream.dial(None).await.unwrap();
    let mut store = accept(&listener).await;
    exchange(&mut lease, &mut store, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n").await;
    let closer = lease.closer();
    let (data, ()) = tokio::join!(lease.data(LATE), async { closer.abort() });
    assert!(data.unwrap().is_err());
    closer.ended().await;
    assert!(reset(&mut store).await);
}

/// However fast the store sends: what has come already is all that is read.
#[tokio::test]
async fn an_abort_ends_an_answer_that_does_not_pause() {
    const SIZE: usize = 512 << 10;
    let (io, mut store) = tokio::io::duplex(2 * SIZE);
    let link = Link::new(Dialled { io: Box::new(io), address: None, tls: false });
    let mut lease = Lease::new(Box::new(link), Arc::new(Pool::new(8, LATE)));
    let script = async {
        read_until(&mut store, "\r\n\r\n").await;
        store.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        store.write_all(&vec![b'x'; SIZE]).await.unwrap();
    };
    let (response, ()) = tokio::join!(lease.send(request("PUT", Outgoing::empty()), LATE), script);
    response.unwrap();
    lease.closer().abort();
    let mut read = 0;
    while let Some(Ok(data)) = lease.data(LATE).await {
        read += data.len();
    }
    assert!(read < 64 << 10, "{read} bytes");
    lease.closer().ended().await;
}

#[tokio::test]
async fn a_connection_is_used_again_only_when_nothing_is_left_of_the_last_response() {
    let cases: [(&[u8], bool); 7] = [
        (OK, true),
        (b"HTTP/1.1 204 No Content\r\n\r\n", true),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokEXTRA", false),
        (b"HTTP/1.1 204 No Content\r\n\r\nbody", false),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false),
    ];
    for (answer, reused) in cases {
        let text = String::from_utf8_lossy(answer);
        let (listener, upstream) = store().await;
        let mut lease = upstream.checkout(None).await.unwrap();
        let mut first = accept(&listener).await;
        exchange(&mut lease, &mut first, answer).await;
        read_whole(&mut lease).await;
        let closer = lease.closer();
        lease.put_back();
        if !reused {
            closer.ended().await;
        }
        // What the store did is seen.
        for _ in 0..10 {
            yield_now().await;
        }
        let mut lease = upstream.checkout(None).await.unwrap();
        assert_eq!(lease.sent(), NOTHING, "{text}");
        let mut store = if reused { first } else { accept(&listener).await };
        exchange(&mut lease, &mut store, OK).await;
        read_whole(&mut lease).await;
    }
}

#[tokio::test]
async fn an_unused_lease_can_be_put_back() {
    let (listener, upstream) = store().await;
    upstream.checkout(None).await.unwrap().put_back();
    let mut store = accept(&listener).await;
    for _ in 0..10 {
        yield_now().await;
    }
    let mut lease = upstream.checkout(None).await.unwrap();
    exchange(&mut lease, &mut store, OK).await;
    read_whole(&mut lease).await;
}

#[tokio::test]
async fn idle_connections_are_bounded_in_number_and_age() {
    for (max, timeout) in
        [(1, Duration::from_secs(30)), (0, Duration::from_secs(30)), (8, Duration::ZERO)]
    {
        let (listener, upstream) = store_with(|options| {
            options.pool_max_idle = max;
            options.pool_idle_timeout = timeout;
        })
        .await;
        let mut leases = Vec::new();
        let mut stores = Vec::new();
        for _ in 0..2 {
            let mut lease = upstream.dial(None).await.unwrap();
            let mut store = accept(&listener).await;
            exchange(&mut lease, &mut store, OK).await;
            read_whole(&mut lease).await;
            leases.push(lease);
            stores.push(store);
        }
        let closers: Vec<_> = leases.iter().map(Lease::closer).collect();
        for lease in leases {
            lease.put_back();
        }
        closers[0].ended().await;
        assert!(reset(&mut stores[0]).await);
        if max == 1 {
            assert!(!closers[1].is_aborted());
        } else {
            closers[1].ended().await;
        }
    }
}

#[tokio::test]
async fn an_unreachable_store_is_told_from_a_slow_one() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = HttpUpstream::new(Arc::new(options(closed.port()))).checkout(None).await;
    assert!(
        matches!(&refused, Err(Unreachable::Failed { address, source })
            if *address == closed && source.kind() == ErrorKind::ConnectionRefused),
        "{refused:?}"
    );

    // A queue of one, which is taken: the next handshake hangs.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let _queued = std::net::TcpStream::connect(address).unwrap();
    let mut options = options(address.port());
    options.connect_timeout = Duration::from_millis(100);
    let late = HttpUpstream::new(Arc::new(options)).checkout(None).await;
    assert!(matches!(late, Err(Unreachable::TimedOut(_))), "{late:?}");
}

#[tokio::test]
async fn a_response_is_framed_when_it_says_where_it_ends() {
    let cases: [(&[u8], bool); 5] = [
        (OK, true),
        (b"HTTP/1.1 204 No Content\r\n\r\n", true),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true),
        (b"HTTP/1.1 200 OK\r\n\r\nok", false),
        (b"HTTP/1.0 200 OK\r\n\r\nok", false),
    ];
    for (answer, expected) in cases {
        let (listener, upstream) = store().await;
        let mut lease = upstream.dial(None).await.unwrap();
        let mut store = accept(&listener).await;
        exchange(&mut lease, &mut store, answer).await;
        assert_eq!(lease.is_framed(), expected, "{}", String::from_utf8_lossy(answer));
    }
}
