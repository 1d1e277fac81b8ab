//! Idle connections, each a pipe whose other end the test holds.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{Instant, advance, timeout},
};

use super::LATE;
use crate::upstream::{
    Closer,
    http::{dial::Dialled, link::Link, pool::Pool},
};

/// A connection to that port, its closer, and the store's end.
fn link_to(port: u16) -> (Box<Link>, Closer, DuplexStream) {
    let (io, store) = tokio::io::duplex(64);
    let address = Some(address(port));
    let link = Link::new(Dialled { io: Box::new(io), address, tls: false });
    let closer = link.closer().clone();
    (Box::new(link), closer, store)
}

fn link() -> (Box<Link>, Closer, DuplexStream) {
    link_to(1)
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn pool(max: usize) -> Arc<Pool> {
    Arc::new(Pool::new(max, Duration::from_secs(10)))
}

async fn ends_after(expected: Duration, closer: &Closer, why: &str) {
    let began = Instant::now();
    timeout(LATE, closer.ended()).await.expect(why);
    assert_eq!(began.elapsed(), expected, "{why}");
}

/// Not by the idle time-out: the clock stands still while anything else can happen.
async fn ends(closer: &Closer, why: &str) {
    ends_after(Duration::ZERO, closer, why).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_store_does_to_an_idle_connection_ends_it_unasked() {
    for what in ["close", "bytes", "shutdown"] {
        let pool = pool(8);
        let (others, kept): (Vec<_>, Vec<_>) = [link(), link()]
            .into_iter()
            .map(|(link, closer, store)| (link, (closer, store)))
            .unzip();
        let (hit, closer, mut store) = link();
        let mut others = others.into_iter();
        pool.push(others.next().unwrap());
        pool.push(hit);
        pool.push(others.next().unwrap());
        // The one who watches has had its turn.
        advance(Duration::from_secs(1)).await;
        match what {
            "close" => drop(store),
            "bytes" => {
                store.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").await.unwrap();
                ends(&closer, what).await;
                assert_eq!(store.read(&mut [0]).await.unwrap(), 0, "it is closed");
            }
            _ => store.shutdown().await.unwrap(),
        }
        ends(&closer, what).await;
        for (closer, _store) in &kept {
            assert!(!closer.is_aborted());
        }
        assert!(pool.take(None).is_some() && pool.take(None).is_some());
        assert!(pool.take(None).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_disturbed_connection_is_neither_kept_nor_taken() {
    let pool = pool(8);
    let (early, closer, store) = link();
    drop(store);
    pool.push(early);
    assert!(closer.is_aborted() && pool.take(None).is_none());

    let (aborted, closer, _store) = link();
    closer.abort();
    pool.push(aborted);
    ends(&closer, "it is not kept").await;

    // No one else has had a turn.
    let (quiet, quiets, _store) = link();
    let (hit, closer, mut store) = link();
    pool.push(quiet);
    pool.push(hit);
    store.write_all(b"x").await.unwrap();
    let taken = pool.take(None).unwrap();
    assert!(closer.is_aborted() && !quiets.is_aborted());
    pool.push(taken);
    quiets.abort();
    assert!(pool.take(None).is_none());
}

#[tokio::test(start_paused = true)]
async fn each_connection_has_its_time() {
    let pool = pool(8);
    let (first, firsts, _store) = link();
    let (second, seconds, _store2) = link();
    pool.push(first);
    advance(Duration::from_secs(4)).await;
    pool.push(second);
    ends_after(Duration::from_secs(6), &firsts, "its time is over").await;
    ends_after(Duration::from_secs(4), &seconds, "its time is over").await;

    // Watched anew, after there was nothing to watch.
    let (third, thirds, store) = link();
    pool.push(third);
    drop(store);
    ends(&thirds, "closed").await;

    // Over, though nobody has looked yet.
    let pool = Arc::new(Pool::new(8, Duration::ZERO));
    let (last, _closer, _store) = link();
    pool.push(last);
    assert!(pool.take(None).is_none());
}

#[tokio::test(start_paused = true)]
async fn the_last_one_is_taken_and_the_oldest_one_goes() {
    let pool = pool(2);
    let (first, firsts, _s1) = link_to(1);
    let (second, seconds, _s2) = link_to(2);
    let (third, thirds, _s3) = link_to(3);
    pool.push(first);
    pool.push(second);
    pool.push(third);
    ends(&firsts, "too many").await;
    assert!(!seconds.is_aborted() && !thirds.is_aborted());
    assert_eq!(pool.take(None).unwrap().address(), Some(address(3)));
    assert_eq!(pool.take(None).unwrap().address(), Some(address(2)));
    assert!(pool.take(None).is_none());

    let (one, _c1, _s1) = link_to(1);
    let (two, _c2, _s2) = link_to(2);
    pool.push(one);
    pool.push(two);
    assert!(pool.take(Some(address(3))).is_none());
    assert_eq!(pool.take(Some(address(1))).unwrap().address(), Some(address(1)));
    assert!(pool.take(Some(address(1))).is_none());
    assert!(pool.take(Some(address(2))).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_taken_connection_is_watched_no_more_and_a_pool_that_goes_ends_the_rest() {
    let pool = pool(8);
    let (kept, keeps, _store) = link();
    let (taken, takens, mut store) = link();
    pool.push(kept);
    pool.push(taken);
    let link = pool.take(None).unwrap();
    store.write_all(b"x").await.unwrap();
    let waited = timeout(Duration::from_secs(5), takens.ended()).await;
    assert!(waited.is_err(), "it is its holder's");
    drop(link);
    ends(&takens, "dropped").await;
    assert!(!keeps.is_aborted());
    drop(pool);
    ends(&keeps, "with its pool").await;

    let none = Arc::new(Pool::new(0, LATE));
    let (link, closer, _store) = link_to(1);
    none.push(link);
    ends(&closer, "none is kept").await;
}
