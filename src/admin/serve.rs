//! The admin listener's socket loop.

use std::{convert::Infallible, io, net, sync::Arc, thread, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    pin, select,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Admin, Ends};

/// Most connections at once; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 256;

/// From a connection's start, or its last answer, to a whole request head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of a request head.
const MAX_HEADER_SIZE: usize = 16 * 1024;

/// How long the kernel holds on to an answer that its client does not take.
const UNSENT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a stop waits for requests that are being answered.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait after a failed accept, as when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves on a thread and a runtime of its own until `stop`, then ends the thread.
///
/// # Errors
/// What kept the thread, the runtime or the listener from starting; nothing is served then.
pub fn spawn(
    listener: net::TcpListener,
    admin: Arc<Admin>,
    stop: CancellationToken,
) -> io::Result<thread::JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = adopt(listener, &runtime)?;
    thread::Builder::new()
        .name("palisade-admin".into())
        .spawn(move || runtime.block_on(accept_until(listener, admin, stop)))
}

/// Serves on the current runtime until `stop`; requests that are being answered then have five
/// seconds.
///
/// # Errors
/// The listener could not be made one of the runtime's.
pub async fn serve(
    listener: net::TcpListener,
    admin: Arc<Admin>,
    stop: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    accept_until(TcpListener::from_std(listener)?, admin, stop).await;
    Ok(())
}

fn adopt(listener: net::TcpListener, runtime: &tokio::runtime::Runtime) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    let _entered = runtime.enter();
    TcpListener::from_std(listener)
}

async fn accept_until(listener: TcpListener, admin: Arc<Admin>, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    loop {
        let next = select! {
            () = stop.cancelled() => break,
            next = accept(&listener, &room) => next,
        };
        match next {
            Ok((stream, ends, permit)) => {
                let answer = connection(stream, ends, Arc::clone(&admin), stop.clone());
                let cut = cut.clone();
                connections.spawn(async move {
                    cut.run_until_cancelled(answer).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept an admin connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    _ = timeout(STOP_TIMEOUT, connections.wait()).await;
    cut.cancel();
    connections.wait().await;
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, Ends, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    let ends = Ends { peer, local: stream.local_addr()? };
    stream.set_nodelay(true)?;
    socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(UNSENT_TIMEOUT))?;
    Ok((stream, ends, permit))
}

async fn connection(stream: TcpStream, ends: Ends, admin: Arc<Admin>, stop: CancellationToken) {
    let service = service_fn(move |request: Request<Incoming>| {
        let admin = Arc::clone(&admin);
        async move { Ok::<_, Infallible>(admin.handle(ends, request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_SIZE)
        .serve_connection(TokioIo::new(stream), service);
    pin!(serving);
    let ended = select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(peer = %ends.peer, %error, "admin connection ended");
    }
}
