//! From the bind to the exit.

use std::{convert::Infallible, io::ErrorKind, sync::Arc};

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Notify, Semaphore, mpsc},
    task::spawn_blocking,
};

use super::{Answer, GET, SHORT, Server, empty, ok, options, read_all, read_head};
use crate::{
    metrics::Gauge,
    server::{BindError, Listeners, Options, Peer, Stop, serve},
};

#[tokio::test]
async fn a_worker_that_panics_stops_the_server() {
    let listeners = Listeners::bind(&options()).unwrap();
    let stop = Stop::new();
    let make = |index| {
        assert_ne!(index, 1, "on purpose");
        |_: Peer, request: Request<Incoming>| ok(request)
    };
    let mut serving = serve(listeners, &options(), &stop, &Gauge::default(), make).unwrap();
    stop.stopping().await;
    for _ in 0..2 {
        assert_eq!(serving.drained().await, [true, false]);
    }
    stop.let_exit();
    assert_eq!(spawn_blocking(|| serving.join()).await.unwrap(), [true, false]);
}

#[tokio::test]
async fn an_address_in_use_is_refused_and_named() {
    let server = Server::start(&options(), ok);
    let taken = Options { listen: vec![server.address], ..options() };
    let error = Listeners::bind(&taken).unwrap_err();
    assert!(matches!(error, BindError::InUse(address) if address == server.address));
    assert!(error.to_string().contains(&server.address.to_string()), "{error}");
    let address = server.address;
    server.end().await;
    assert_eq!(Listeners::bind(&taken).unwrap().addresses(), [address]);
}

#[tokio::test]
async fn every_worker_takes_connections_on_the_one_port() {
    let listeners = Listeners::bind(&Options { workers: 3, ..options() }).unwrap();
    let addresses = listeners.addresses().to_vec();
    assert_eq!(addresses.len(), 1);
    assert_ne!(addresses[0].port(), 0);
    for sockets in listeners.into_workers() {
        assert_eq!(sockets[0].local_addr().unwrap(), addresses[0]);
    }
}

#[tokio::test]
async fn a_stop_closes_idle_connections_and_finishes_active_ones() {
    let (arrived_tx, mut arrived) = mpsc::channel(1);
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let server = Server::start(&options(), move |request| {
        let (arrived, gate) = (arrived_tx.clone(), Arc::clone(&gate));
        async move {
            if request.uri() == "/wait" {
                arrived.send(()).await.unwrap();
                let _ = gate.acquire().await;
            }
            Ok(empty(StatusCode::OK))
        }
    });
    let mut silent = server.connect().await;
    let mut idle = server.connect().await;
    idle.write_all(GET).await.unwrap();
    read_head(&mut idle).await;
    let mut active = server.connect().await;
    active.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    arrived.recv().await.unwrap();

    server.stop.stop();
    assert_eq!(read_all(&mut idle).await, "");
    // Accepted or not by then: closed either way.
    let _ = silent.read(&mut [0]).await;
    opened.close();
    let answer = read_all(&mut active).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    let address = server.address;
    assert_eq!(server.end().await, [true, true]);
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn an_answer_that_meets_the_stop_says_that_it_is_the_last() {
    let (arrived_tx, mut arrived) = mpsc::channel(1);
    let listeners = Listeners::bind(&options()).unwrap();
    let address = listeners.addresses()[0];
    let stop = Stop::new();
    let seen = stop.clone();
    let make = move |_| {
        let (arrived, stop) = (arrived_tx.clone(), seen.clone());
        move |_: Peer, _: Request<Incoming>| {
            let (arrived, stop) = (arrived.clone(), stop.clone());
            async move {
                arrived.send(()).await.unwrap();
                stop.stopping().await;
                Ok::<_, Infallible>(empty(StatusCode::OK))
            }
        }
    };
    let _serving = serve(listeners, &options(), &stop, &Gauge::default(), make).unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(GET).await.unwrap();
    arrived.recv().await.unwrap();
    stop.stop();
    let answer = read_all(&mut client).await;
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    stop.let_exit();
}

#[tokio::test]
async fn a_stop_cuts_what_does_not_end_in_time() {
    let (arrived_tx, mut arrived) = mpsc::channel(1);
    let options = Options { stop_timeout: SHORT, workers: 1, ..options() };
    let server = Server::start(&options, move |_| {
        let arrived = arrived_tx.clone();
        async move {
            arrived.send(()).await.unwrap();
            std::future::pending::<Answer>().await
        }
    });
    let mut client = server.connect().await;
    client.write_all(GET).await.unwrap();
    arrived.recv().await.unwrap();
    assert_eq!(server.end().await, [false]);
    assert_eq!(read_all(&mut client).await, "");
}

#[tokio::test]
async fn tasks_run_on_until_the_exit_is_allowed() {
    let done = Arc::new(Notify::new());
    let go = Arc::new(Notify::new());
    let (task_done, task_go) = (Arc::clone(&done), Arc::clone(&go));
    let mut server = Server::start(&Options { workers: 1, ..options() }, move |_| {
        let (done, go) = (Arc::clone(&task_done), Arc::clone(&task_go));
        tokio::spawn(async move {
            go.notified().await;
            done.notify_one();
        });
        async { Ok(empty(StatusCode::OK)) }
    });
    let mut client = server.connect().await;
    client.write_all(GET).await.unwrap();
    read_head(&mut client).await;
    server.stop.stop();
    assert_eq!(server.serving.as_mut().unwrap().drained().await, [true]);
    go.notify_one();
    done.notified().await;
}
