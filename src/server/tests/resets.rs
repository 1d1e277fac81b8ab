//! HTTP/2 clients that cancel what they ask for.

use std::sync::{Arc, Mutex};

use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};

use super::{
    Answer, Server, empty,
    http2::{GET_BLOCK, HEADERS, WHOLE, frame, kinds, start},
    options,
};

const RST_STREAM: u8 = 3;

fn cancel(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

#[tokio::test]
async fn a_burst_of_resets_costs_the_connection() {
    let server = Server::start(&options(), |_| std::future::pending::<Answer>());
    let mut other = server.connect().await;
    other.write_all(&start()).await.unwrap();
    let mut client = server.connect().await;
    let mut burst = start();
    for stream in (1..2000).step_by(2) {
        burst.extend(frame(HEADERS, WHOLE, stream, GET_BLOCK));
        burst.extend(cancel(stream));
    }
    // The end may come before all is sent.
    let _ = client.write_all(&burst).await;
    kinds(&mut client).await;
    other.write_all(&frame(6, 0, 0, &[7; 8])).await.unwrap();
    while other.read_u8().await.unwrap() != 7 {}
}

/// Each stream is let into the service before it is cancelled, which h2 does not count.
#[tokio::test]
async fn slow_resets_cost_the_connection_too() {
    let (arrived_tx, mut arrived) = mpsc::channel(1);
    let running = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&running);
    let server = Server::start(&options(), move |_| {
        let (arrived, running) = (arrived_tx.clone(), Running::new(&seen));
        async move {
            arrived.send(()).await.unwrap();
            let () = std::future::pending().await;
            drop(running);
            Answer::Ok(empty(StatusCode::OK))
        }
    });
    let mut client = server.connect().await;
    client.write_all(&start()).await.unwrap();
    for stream in (1..=201).step_by(2) {
        client.write_all(&frame(HEADERS, WHOLE, stream, GET_BLOCK)).await.unwrap();
        arrived.recv().await.unwrap();
        client.write_all(&cancel(stream)).await.unwrap();
    }
    kinds(&mut client).await;
    assert_eq!(server.end().await, [true, true]);
    assert_eq!(*running.lock().unwrap(), 0);
}

/// Counts the calls of a service that are not dropped yet.
struct Running(Arc<Mutex<usize>>);

impl Running {
    fn new(count: &Arc<Mutex<usize>>) -> Self {
        *count.lock().unwrap() += 1;
        Self(Arc::clone(count))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.lock().unwrap() -= 1;
    }
}
