//! The store as its callers see it, on real directories.

mod escapes;
mod fate;
mod open;
mod reads;
mod writes;

use std::{
    fs::{self, File},
    io,
    path::Path,
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use tokio::sync::mpsc;

use super::*;

/// A store on a directory that goes with it.
struct Bench {
    directory: tempfile::TempDir,
    store: FileStore,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = FileStore::open(directory.path()).unwrap();
        Self { directory, store }
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    fn content(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root().join(path)).ok()
    }

    /// Files in the making.
    fn staged(&self) -> usize {
        let entries = fs::read_dir(self.root().join(".palisade")).unwrap();
        entries.filter(|e| e.as_ref().unwrap().file_name().as_encoded_bytes()[0] == b't').count()
    }

    async fn read(&self, method: Method, path: &str, fields: Fields<'_>) -> Answer {
        let response = self.store.read(&head(method, fields), path.as_bytes()).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    async fn get(&self, path: &str) -> Answer {
        self.read(Method::GET, path, &[]).await
    }

    async fn write(&self, method: Method, path: &str, fields: Fields<'_>, body: &str) -> Answer {
        let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
        let staged = self.staged();
        let write = self.store.write(head(method, fields), path.into(), body);
        let end = write.done.await.unwrap();
        write.closer.ended().await;
        assert_eq!(self.staged(), staged);
        answered(end)
    }

    async fn put(&self, path: &str, body: &str) -> Answer {
        self.write(Method::PUT, path, &[], body).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.write(Method::DELETE, path, &[], "").await
    }

    /// A PUT whose body the test feeds.
    fn fed(&self, path: &str, fields: Fields<'_>) -> (FileWrite, mpsc::Sender<Chunk>) {
        let (sender, receiver) = mpsc::channel(1);
        (self.store.write(head(Method::PUT, fields), path.into(), Fed(receiver)), sender)
    }
}

type Fields<'a> = &'a [(&'a str, &'a str)];
type Chunk = io::Result<Bytes>;

/// A body that a test feeds; it ends when the sender is dropped.
struct Fed(mpsc::Receiver<Chunk>);

impl http_body::Body for Fed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn field(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn etag(&self) -> &str {
        self.field(header::ETAG)
    }
}

fn answered(end: WriteEnd) -> Answer {
    match end {
        WriteEnd::Answered(response) => {
            let (parts, body) = response.into_parts();
            Answer { status: parts.status, headers: parts.headers, body }
        }
        WriteEnd::Cut | WriteEnd::Failed(_) => panic!("not answered: {end:?}"),
    }
}

fn head(method: Method, fields: Fields<'_>) -> Parts {
    let mut request = Request::builder().method(method).uri("/");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}
