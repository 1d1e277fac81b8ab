//! What goes into the kernel, byte for byte, and the account of it (R4), on a connection that takes
//! what a script says.

use std::{
    future::poll_fn,
    io,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::{
    io::{AsyncWriteExt, DuplexStream},
    task::yield_now,
};

use super::{LATE, LIMITS, NOTHING, PART, WHOLE, incoming, request, script::Script};
use crate::upstream::http::{
    BodyFault, Lease, Outgoing, Request, SendError, Sent,
    dial::Dialled,
    link::Link,
    outbox::{Outbox, Unsent},
    pool::Pool,
};

/// More steps than any request here takes.
const MANY: usize = 10_000;

/// A client's request, and what the store must see of it.
const CASES: [(&str, &str); 5] = [
    ("PUT / HTTP/1.1\r\nHost: a\r\n\r\n", "content-length: 0\r\n\r\n"),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "content-length: 5\r\n\r\nhello",
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n11\r\n0123456789abcdefg\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n11\r\n0123456789abcdefg\r\n0\r\n\r\n",
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         1\r\nx\r\n0\r\nfencing-token: 9\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ),
];

const START: &str = "PUT /k HTTP/1.1\r\nhost: a\r\n";

/// One request on its way.
struct Way {
    outbox: Outbox,
    body: Outgoing,
    tls: bool,
}

impl Way {
    async fn new(raw: &str, tls: bool) -> Self {
        let (body, client) = incoming(raw).await;
        // It stays until the test's runtime ends.
        tokio::spawn(async move {
            let _client = client;
            std::future::pending::<()>().await;
        });
        Self::of(request("PUT", Outgoing::new(body, LIMITS)), tls)
    }

    fn of(mut request: Box<Request>, tls: bool) -> Self {
        Self { outbox: Outbox::of(&mut request), body: request.body, tls }
    }

    fn poll(&mut self, io: &mut Script, cx: &mut Context<'_>) -> Poll<Result<(), Unsent>> {
        self.outbox.poll_send(&mut self.body, io, self.tls, cx)
    }

    /// Sends; after each step the account is checked.
    async fn run(&mut self, io: &mut Script, expected: &str) -> Result<(), Unsent> {
        for _ in 0..MANY {
            let polled = poll_fn(|cx| Poll::Ready(self.poll(io, cx))).await;
            let failed = matches!(polled, Poll::Ready(Err(Unsent::Io(_))));
            let taken = io.taken();
            assert!(expected.starts_with(&taken), "{taken:?}");
            let ended = matches!(polled, Poll::Ready(Ok(())));
            assert_eq!(ended, taken == expected && !failed && io.unflushed.is_none(), "{polled:?}");
            let any = !taken.is_empty() || self.tls && failed;
            assert_eq!(self.outbox.sent(), Sent { any, whole: ended }, "{taken:?}");
            assert!(!self.outbox.is_unused(), "it was begun");
            if let Poll::Ready(result) = polled {
                return result;
            }
            yield_now().await;
        }
        panic!("it does not end: {:?}", io.taken());
    }
}

#[tokio::test]
async fn every_byte_goes_once_in_order_and_is_counted() {
    for (raw, rest) in CASES {
        let expected = format!("{START}{rest}");
        for most in (1..=expected.len()).chain([1 << 20]) {
            for (vectored, slow, tls, flushes) in [
                (true, true, false, 0),
                (true, false, false, 0),
                (false, true, false, 0),
                (false, false, true, 3),
                (true, true, true, 3),
            ] {
                let flushes = Some(flushes);
                let mut io = Script { vectored, slow, flushes, ..Script::new(most) };
                let mut way = Way::new(raw, tls).await;
                way.run(&mut io, &expected).await.unwrap();
                assert_eq!(io.taken(), expected, "{most} at a time");
                assert!(way.body.progress().is_whole());
            }
        }
    }
}

/// What TLS has taken is the kernel's only after a flush; one that fails may have sent it.
#[tokio::test]
async fn a_failure_is_counted_at_every_byte() {
    for (raw, rest) in CASES {
        let expected = format!("{START}{rest}");
        for at in 0..expected.len() {
            for (vectored, slow, tls) in
                [(true, false, false), (false, true, false), (true, true, true)]
            {
                let fails_at = Some(at);
                let mut io = Script { vectored, slow, fails_at, ..Script::new(1 << 20) };
                let mut way = Way::new(raw, tls).await;
                let failed = way.run(&mut io, &expected).await;
                assert!(matches!(failed, Err(Unsent::Io(_))), "{failed:?}");
                assert_eq!(io.taken(), expected[..at]);
            }
        }
        let mut io = Script { flushes: None, ..Script::new(1 << 20) };
        let mut way = Way::new(raw, true).await;
        let failed = way.run(&mut io, &expected).await;
        assert!(matches!(failed, Err(Unsent::Io(_))), "{failed:?}");
        assert_eq!(way.outbox.sent(), PART);
    }
}

/// A write that takes nothing and does not say why would be tried for ever.
#[tokio::test]
async fn a_write_of_nothing_is_a_failure() {
    let mut way = Way::new(CASES[1].0, false).await;
    let failed = way.run(&mut Script::new(0), &format!("{START}{}", CASES[1].1)).await;
    assert!(matches!(failed, Err(Unsent::Io(error)) if error.kind() == io::ErrorKind::WriteZero));
    assert_eq!(way.outbox.sent(), NOTHING);
}

/// A store may answer to the head alone.
#[tokio::test]
async fn a_head_waits_for_no_body() {
    let mut cx = Context::from_waker(Waker::noop());
    let sized = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
    for here in ["hello", "he", ""] {
        let (body, mut client) = incoming(&format!("{sized}{here}")).await;
        let mut way = Way::of(request("PUT", Outgoing::new(body, LIMITS)), false);
        let mut io = Script::new(1 << 20);
        let head = format!("{START}content-length: 5\r\n\r\n");
        if !here.is_empty() {
            assert!(way.poll(&mut io, &mut cx).is_pending(), "it goes in the next turn");
            assert_eq!((io.taken(), way.outbox.sent()), (String::new(), NOTHING));
        }
        assert_eq!(way.poll(&mut io, &mut cx).is_ready(), here == "hello");
        assert_eq!(io.taken(), format!("{head}{here}"));
        client.write_all(&b"hello"[here.len()..]).await.unwrap();
        while here != "hello" && way.poll(&mut io, &mut cx).is_pending() {
            yield_now().await;
        }
        assert_eq!((io.taken(), way.outbox.sent()), (format!("{head}hello"), WHOLE));
    }
}

/// Each part after so many turns, within whatever goes out just then.
async fn trickle(client: &mut DuplexStream, parts: &[&str], turns: usize) {
    for part in parts {
        for _ in 0..turns {
            yield_now().await;
        }
        client.write_all(part.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn a_body_that_comes_late_loses_nothing() {
    for (head, parts, framed) in [
        ("Content-Length: 9", ["ab", "c", "defghi"], "content-length: 9\r\n\r\nabcdefghi"),
        (
            "Transfer-Encoding: chunked",
            ["2\r\nab\r\n", "1\r\nc\r\n", "6\r\ndefghi\r\n0\r\n\r\n"],
            "transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n6\r\ndefghi\r\n0\r\n\r\n",
        ),
    ] {
        let expected = format!("{START}{framed}");
        for most in 1..20 {
            for slow in [true, false] {
                let (body, mut client) =
                    incoming(&format!("PUT / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n")).await;
                let mut way = Way::of(request("PUT", Outgoing::new(body, LIMITS)), false);
                let mut io = Script { slow, ..Script::new(most) };
                let client = trickle(&mut client, &parts, most);
                let (sent, ()) = tokio::join!(way.run(&mut io, &expected), client);
                sent.unwrap();
                assert_eq!(io.taken(), expected);
            }
        }
    }
}

#[tokio::test]
async fn a_fault_of_the_body_is_no_end_of_it() {
    let raw = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let (body, client) = incoming(raw).await;
    let mut way = Way::of(request("PUT", Outgoing::new(body, LIMITS)), false);
    drop(client);
    let sent = format!("{START}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
    let mut io = Script::new(1 << 20);
    let failed = way.run(&mut io, &format!("{sent}0\r\n\r\n")).await;
    assert!(matches!(failed, Err(Unsent::Body(BodyFault::ClientGone))), "{failed:?}");
    assert_eq!((io.taken(), way.outbox.sent()), (sent, PART));
}

fn lease(io: Script, tls: bool) -> Lease {
    let link = Link::new(Dialled { io: Box::new(io), address: None, tls });
    Lease::new(Box::new(link), Arc::new(Pool::new(8, LATE)))
}

/// R4: the store's word counts, though a write finds the connection dead before it is read.
#[tokio::test(start_paused = true)]
async fn what_a_dead_connection_still_holds_is_read() {
    let (body, _client) = incoming(CASES[0].0).await;
    let last_word = Some(&b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno"[..]);
    let mut lease = lease(Script { fails_at: Some(9), last_word, ..Script::new(9) }, false);
    let answer = lease.send(request("PUT", Outgoing::new(body, LIMITS)), LATE).await;
    assert_eq!((answer.unwrap().status().as_u16(), lease.sent()), (413, PART));
}

/// R4: a TLS that was given all, and fails, may have sent all.
#[tokio::test(start_paused = true)]
async fn what_tls_held_when_it_failed_may_have_been_sent() {
    for (flushes, tls, fails_at, at_most) in
        [(None, true, None, WHOLE), (Some(9), true, Some(9), PART), (Some(0), false, Some(9), PART)]
    {
        let mut lease = lease(Script { fails_at, flushes, ..Script::new(1 << 20) }, tls);
        let failed = lease.send(request("PUT", Outgoing::empty()), LATE).await;
        assert!(matches!(failed, Err(SendError::Lost(_))), "{failed:?}");
        assert_eq!((lease.sent(), lease.close()), (PART, at_most));
    }
}

/// R7: it may be sent once more, all of it, if nothing of it was sent.
#[tokio::test(start_paused = true)]
async fn what_was_not_sent_comes_back_whole() {
    for (raw, rest) in CASES {
        let expected = format!("{START}{rest}");
        let never = Script { most: 0, ..Script::new(0) };
        let reset = |at| Script { fails_at: Some(at), ..Script::new(1 << 20) };
        let says = |bytes| Script { says: Some(bytes), ..Script::new(1 << 20) };
        for (io, tls, comes_back) in [
            (never, false, true),
            (reset(0), false, true),
            (says(b""), false, true),
            (says(b""), true, true),
            // To another request, or to none.
            (says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), false, true),
            (reset(1), false, false),
            (reset(expected.len() - 1), false, false),
            // It may have sent some of what it was given.
            (reset(0), true, false),
        ] {
            let (body, _client) = incoming(raw).await;
            // The body's first bytes are there, and are taken.
            for _ in 0..5 {
                yield_now().await;
            }
            let mut lease = lease(io.clone(), tls);
            let failed = lease.send(request("PUT", Outgoing::new(body, LIMITS)), LATE).await;
            lease.closer().ended().await;
            let request = match failed {
                Err(SendError::NotSent(request)) => request,
                Err(SendError::Lost(_)) => {
                    assert!(!comes_back && lease.sent() == PART, "{io:?}");
                    continue;
                }
                other => panic!("{other:?}"),
            };
            assert!(comes_back && lease.sent() == NOTHING, "{io:?}");
            let mut io = Script::new(1 << 20);
            let mut way = Way::of(request, tls);
            way.run(&mut io, &expected).await.unwrap();
            assert_eq!(io.taken(), expected);
        }
    }
}
