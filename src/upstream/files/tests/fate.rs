//! Cuts, failures and lost tasks: what a write's end says is what the disk holds.

use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::io::Errno;

use super::{
    super::{hooks::Step, write::PIECE},
    *,
};

/// Holds every write at a step: tells that it is there, and goes on when it is told.
struct Stopper {
    there: mpsc::Receiver<()>,
    go: Sender<()>,
}

impl Stopper {
    fn at(step: Step, bench: &Bench) -> Self {
        let (arrive, there) = mpsc::channel(8);
        let (go, wait): (_, Receiver<()>) = channel();
        let wait = parking_lot::Mutex::new(wait);
        bench.store.inner.hooks.set(move |reached| {
            if reached == step {
                arrive.blocking_send(()).unwrap();
                wait.lock().recv().unwrap();
            }
            Ok(())
        });
        Self { there, go }
    }
}

fn fail_at(bench: &Bench, step: Step, error: Errno) {
    bench.store.inner.hooks.set(move |at| if at == step { Err(error) } else { Ok(()) });
}

fn full(body: &str) -> Full<Bytes> {
    Full::new(Bytes::copy_from_slice(body.as_bytes()))
}

async fn assert_cut(write: FileWrite, bench: &Bench) {
    let end = write.done.await.unwrap();
    assert!(matches!(end, WriteEnd::Cut), "{end:?}");
    write.closer.ended().await;
    assert_eq!(bench.staged(), 0);
}

#[tokio::test]
async fn an_abort_between_pieces_leaves_nothing() {
    let bench = Bench::new();
    bench.put("f", "old").await;
    let piece = Bytes::from(vec![b'x'; PIECE]);
    for pieces in [0, 1, 3] {
        let (write, body) = bench.fed("f", &[]);
        for _ in 0..pieces {
            body.send(Ok(piece.clone())).await.unwrap();
        }
        if pieces > 0 {
            // Taken in only once the piece before it was stored.
            body.send(Ok("tail".into())).await.unwrap();
            body.reserve().await.unwrap();
            assert_eq!(bench.staged(), 1);
        }
        write.closer.abort();
        assert_cut(write, &bench).await;
        assert!(body.is_closed());
        assert_eq!(bench.content("f").as_deref(), Some("old"));
    }
}

#[tokio::test]
async fn an_abort_while_another_has_the_path_cuts_at_once() {
    let bench = Bench::new();
    let mut stopper = Stopper::at(Step::Apply, &bench);
    let first = bench.store.write(head(Method::PUT, &[]), b"f".to_vec(), full("first"));
    stopper.there.recv().await.unwrap();
    for method in [Method::PUT, Method::DELETE] {
        let second = bench.store.write(head(method, &[]), b"f".to_vec(), full("second"));
        second.closer.abort();
        let end = second.done.await.unwrap();
        assert!(matches!(end, WriteEnd::Cut), "{end:?}");
        second.closer.ended().await;
    }
    stopper.go.send(()).unwrap();
    assert_eq!(answered(first.done.await.unwrap()).status, StatusCode::CREATED);
    assert_eq!(bench.content("f").as_deref(), Some("first"));
}

#[tokio::test]
async fn an_abort_in_the_final_step_comes_too_late() {
    for step in [Step::Begin, Step::Apply, Step::SyncDirectory] {
        let bench = Bench::new();
        for (method, status) in [(Method::PUT, 201), (Method::PUT, 204), (Method::DELETE, 204)] {
            let delete = method == Method::DELETE;
            let mut stopper = Stopper::at(step, &bench);
            let write = bench.store.write(head(method, &[]), b"f".to_vec(), full("new"));
            stopper.there.recv().await.unwrap();
            write.closer.abort();
            let mut ended = Box::pin(write.closer.ended());
            // Other tasks run, and it is still not over.
            for _ in 0..50 {
                tokio::task::yield_now().await;
                let mut cx = Context::from_waker(std::task::Waker::noop());
                assert!(ended.as_mut().poll(&mut cx).is_pending());
            }
            stopper.go.send(()).unwrap();
            assert_eq!(answered(write.done.await.unwrap()).status.as_u16(), status);
            ended.await;
            assert_eq!(bench.content("f").is_none(), delete);
        }
    }
}

#[tokio::test]
async fn dropping_the_handle_cuts_nothing() {
    let bench = Bench::new();
    let (write, body) = bench.fed("f", &[]);
    let closer = write.closer.clone();
    drop(write);
    body.send(Ok("whole".into())).await.unwrap();
    drop(body);
    closer.ended().await;
    assert_eq!(bench.content("f").as_deref(), Some("whole"));
}

#[tokio::test]
async fn a_body_that_fails_or_lies_leaves_the_old_version() {
    let bench = Bench::new();
    bench.put("f", "old").await;
    let cut = || io::Error::from(io::ErrorKind::ConnectionReset);
    for (length, chunks) in [
        (None, vec![Ok("ha".into()), Err(cut())]),
        (None, vec![Ok(vec![b'x'; PIECE * 2].into()), Err(cut())]),
        (None, vec![Err(cut())]),
        (Some("5"), vec![Ok("1234".into())]),
        (Some("5"), vec![Ok("123456".into())]),
        (Some("5"), vec![Ok("12345".into()), Ok("6".into())]),
        (Some("5"), vec![]),
    ] {
        let fields: Vec<_> = length.iter().map(|&n| ("content-length", n)).collect();
        let (write, body) = bench.fed("f", &fields);
        for chunk in chunks {
            // The store may have given up already.
            let _ = body.send(chunk).await;
        }
        drop(body);
        assert_cut(write, &bench).await;
        assert_eq!(bench.content("f").as_deref(), Some("old"));
    }
    for length in ["+3", "x", "-1"] {
        let answer = bench.write(Method::PUT, "f", &[("content-length", length)], "new").await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{length}");
    }
}

#[tokio::test]
async fn what_fails_before_it_is_applied_is_answered() {
    let bench = Bench::new();
    bench.put("f", "old").await;
    for (step, error, status) in [
        (Step::SyncFile, Errno::IO, 500),
        (Step::SyncFile, Errno::NOSPC, 507),
        (Step::Apply, Errno::NOSPC, 507),
        (Step::Apply, Errno::DQUOT, 507),
        (Step::Apply, Errno::ROFS, 403),
        (Step::Apply, Errno::ACCESS, 403),
        (Step::Apply, Errno::ISDIR, 409),
        (Step::Apply, Errno::MLINK, 500),
    ] {
        fail_at(&bench, step, error);
        assert_eq!(bench.put("f", "new").await.status.as_u16(), status, "{step:?} {error}");
        if step == Step::Apply {
            assert_eq!(bench.delete("f").await.status.as_u16(), status, "{step:?} {error}");
        }
        assert_eq!(bench.content("f").as_deref(), Some("old"));
    }
}

#[tokio::test]
async fn what_may_be_applied_is_said_to_be_unknown() {
    let bench = Bench::new();
    for (step, there) in [(Step::Apply, false), (Step::SyncDirectory, true)] {
        fail_at(&bench, step, Errno::IO);
        let write = bench.store.write(head(Method::PUT, &[]), b"f".to_vec(), full("new"));
        assert!(matches!(write.done.await.unwrap(), WriteEnd::Failed(_)));
        write.closer.ended().await;
        assert_eq!(bench.content("f").is_some(), there, "{step:?}");
        assert_eq!(bench.staged(), 0);
    }
    let write = bench.store.write(head(Method::DELETE, &[]), b"f".to_vec(), full(""));
    assert!(matches!(write.done.await.unwrap(), WriteEnd::Failed(_)));
    assert_eq!(bench.content("f"), None);
}

#[tokio::test]
async fn a_directory_that_was_not_synced_is_synced_by_the_next_write() {
    let bench = Bench::new();
    fail_at(&bench, Step::SyncDirectory, Errno::IO);
    let write = bench.store.write(head(Method::PUT, &[]), b"a/b/f".to_vec(), full("x"));
    assert!(matches!(write.done.await.unwrap(), WriteEnd::Failed(_)));
    let inner = &bench.store.inner;
    assert!(inner.durable.open(&inner.tree, b"a/b").unwrap().reaches_root());
    inner.hooks.set(|_| Ok(()));
    bench.put("a/b/g", "x").await;
    assert!(!inner.durable.open(&inner.tree, b"a/b").unwrap().reaches_root());
}

#[tokio::test]
async fn a_panic_ends_the_write_too() {
    for at in [Step::SyncFile, Step::Begin, Step::SyncDirectory] {
        let bench = Bench::new();
        bench
            .store
            .inner
            .hooks
            .set(move |step| if step == at { panic!("a test's") } else { Ok(()) });
        let write = bench.store.write(head(Method::PUT, &[]), b"f".to_vec(), full("x"));
        assert!(matches!(write.done.await.unwrap(), WriteEnd::Failed(_)));
        write.closer.ended().await;
        assert_eq!(bench.staged(), 0);
        bench.store.inner.hooks.set(|_| Ok(()));
        assert!(bench.put("f", "again").await.status.is_success(), "the path is free again");
    }
}

/// A runtime that is torn down drops the task, but the blocking call goes on: it has not ended.
#[test]
fn a_lost_runtime_ends_the_write_only_when_its_blocking_call_returns() {
    let bench = Bench::new();
    let mut stopper = Stopper::at(Step::Apply, &bench);
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let doomed = runtime();
    let mut write = doomed.block_on(async {
        let write = bench.store.write(head(Method::PUT, &[]), b"f".to_vec(), full("x"));
        stopper.there.recv().await.unwrap();
        write
    });
    doomed.shutdown_background();
    let mut ended = Box::pin(write.closer.ended());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(ended.as_mut().poll(&mut cx).is_pending());
    assert!(write.done.try_recv().is_err());
    assert!(FileStore::open(bench.root()).is_err());
    stopper.go.send(()).unwrap();
    runtime().block_on(ended);
    assert!(matches!(write.done.try_recv(), Ok(WriteEnd::Failed(_))));
    assert_eq!(bench.content("f").as_deref(), Some("x"));
}
