//! Answers to a part of a request, and what is none.

use tokio::io::AsyncWriteExt;

use super::{
    LATE, LIMITS, PART,
    exchange::{OK, accept, reset},
    incoming, read_until, read_whole, request, store,
};
use crate::upstream::http::{Outgoing, SendError};

#[tokio::test]
async fn a_final_response_before_the_body_is_whole_is_seen_as_such() {
    let (listener, upstream) = store().await;
    let (body, mut client) =
        incoming("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello").await;
    let mut lease = upstream.dial(None).await.unwrap();
    let mut store = accept(&listener).await;
    let script = async {
        read_until(&mut store, "hello").await;
        store.write_all(OK).await.unwrap();
    };
    let (response, ()) =
        tokio::join!(lease.send(request("PUT", Outgoing::new(body, LIMITS)), LATE), script);
    response.unwrap();
    assert_eq!(read_whole(&mut lease).await, "ok");
    assert_eq!(lease.sent(), PART);
    // Even if the rest were to follow, the connection is not for another request.
    let closer = lease.closer();
    lease.put_back();
    assert!(closer.is_aborted());
    client.write_all(b"world").await.unwrap();
    assert!(reset(&mut store).await);
}

/// R4: the store's word counts, though what we wrote after it found the connection dead.
#[tokio::test]
async fn an_answer_to_a_part_is_heard_after_its_connection_is_gone() {
    for _ in 0..20 {
        let (listener, upstream) = store().await;
        let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 256 << 20);
        let (body, mut client) = incoming(&head).await;
        tokio::spawn(async move {
            let chunk = vec![b'x'; 1 << 20];
            while client.write_all(&chunk).await.is_ok() {}
        });
        let mut lease = upstream.dial(None).await.unwrap();
        let mut store = accept(&listener).await;
        let script = async move {
            read_until(&mut store, "\r\n\r\n").await;
            store.write_all(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno").await.unwrap();
            // With the rest unread: a reset.
            drop(store);
        };
        let send = lease.send(request("PUT", Outgoing::new(body, LIMITS)), LATE);
        let (answer, ()) = tokio::join!(send, script);
        assert_eq!(answer.unwrap().status(), 413);
        assert_eq!(lease.sent(), PART);
        assert_eq!(read_whole(&mut lease).await, "no");
    }
}

/// R4: a store that said something, whatever it was, may mean more than that it refuses.
#[tokio::test]
async fn what_is_no_whole_head_is_left_unread() {
    for (said, unread) in [("", false), ("HTTP/1.1 413 N", true), ("what?\r\n\r\n", true)] {
        let (listener, upstream) = store().await;
        let mut lease = upstream.dial(None).await.unwrap();
        let mut store = accept(&listener).await;
        let script = async move {
            read_until(&mut store, "\r\n\r\n").await;
            store.write_all(said.as_bytes()).await.unwrap();
        };
        let send = lease.send(request("PUT", Outgoing::empty()), LATE);
        let (answer, ()) = tokio::join!(send, script);
        assert!(matches!(answer, Err(SendError::Lost(_))), "{answer:?}");
        assert_eq!(lease.has_unread(), unread, "{said:?}");
    }
}
