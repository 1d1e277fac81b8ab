//! The body of an answer: nothing, a few bytes, or a stretch of a file, read off the async threads.

use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes read at a time. At most two such chunks exist per body.
pub(super) const CHUNK: u64 = 128 * 1024;

/// The body of a read's answer. Its length is known from the start.
#[derive(Debug)]
pub struct FileBody(State);

#[derive(Debug)]
enum State {
    Whole(Bytes),
    File(Stretch),
}

#[derive(Debug)]
struct Stretch {
    file: Arc<File>,
    /// What was not handed out yet.
    rest: Range<u64>,
    /// The read of its first chunk.
    pending: Option<JoinHandle<io::Result<Bytes>>>,
}

impl FileBody {
    /// Without content.
    pub fn empty() -> Self {
        Self(State::Whole(Bytes::new()))
    }

    /// A stretch of a file, which must not change in place.
    pub(super) fn stretch(file: File, stretch: Range<u64>) -> Self {
        Self(State::File(Stretch { file: Arc::new(file), rest: stretch, pending: None }))
    }
}

impl From<Bytes> for FileBody {
    fn from(bytes: Bytes) -> Self {
        Self(State::Whole(bytes))
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.get_mut().0 {
            State::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            State::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            State::File(stretch) => stretch.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.0 {
            State::Whole(bytes) => bytes.len() as u64,
            State::File(stretch) => stretch.rest.end - stretch.rest.start,
        })
    }
}

impl Stretch {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.pending.is_none() {
            self.pending = self.read();
        }
        let Some(pending) = &mut self.pending else { return Poll::Ready(None) };
        let chunk = ready!(Pin::new(pending).poll(cx)).unwrap_or_else(|e| Err(io::Error::other(e)));
        self.rest.start += chunk.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if chunk.is_err() {
            self.rest.start = self.rest.end;
        }
        // The next chunk is read while the client takes this one.
        self.pending = self.read();
        Poll::Ready(Some(chunk.map(Frame::data)))
    }

    fn read(&self) -> Option<JoinHandle<io::Result<Bytes>>> {
        let Range { start, end } = self.rest;
        (start < end).then(|| {
            let file = Arc::clone(&self.file);
            spawn_blocking(move || read_chunk(&file, start..end.min(start + CHUNK)))
        })
    }
}

/// Exactly these bytes of a file; a file that someone cut short is an error, never an end.
pub(super) fn read_chunk(file: &File, chunk: Range<u64>) -> io::Result<Bytes> {
    let length = usize::try_from(chunk.end - chunk.start).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, chunk.start)?;
    Ok(bytes.into())
}
