//! Every no of the file store, and the fields that its answers share.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use rustix::io::Errno;

use super::{entity::Entity, path::RelPath};

/// The methods that the store knows.
pub(super) const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, DELETE, OPTIONS");

/// An answer that changes nothing and gives nothing.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Refusal {
    status: StatusCode,
    reason: &'static str,
    cause: Option<Errno>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, reason: &'static str) -> Self {
        Self { status, reason, cause: None }
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "the file store has GET, HEAD, PUT and DELETE")
    }

    pub(super) fn condition_failed() -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, "a condition of the request does not hold")
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such file")
    }

    pub(super) fn directory() -> Self {
        Self::new(StatusCode::CONFLICT, "a directory has this name")
    }

    pub(super) fn not_a_file() -> Self {
        Self::new(StatusCode::FORBIDDEN, "only regular files are served, and no symlink followed")
    }

    /// What stood in the way of a read.
    pub(super) fn of_read(cause: Errno) -> Self {
        let refusal = match cause {
            Errno::NOENT | Errno::NOTDIR => Self::not_found(),
            // A socket, or a device without a driver.
            Errno::NXIO | Errno::NODEV => Self::not_a_file(),
            other => Self::of_any(other),
        };
        Self { cause: Some(cause), ..refusal }
    }

    /// What stood in the way of a write, which was not applied.
    pub(super) fn of_write(cause: Errno) -> Self {
        let refusal = match cause {
            Errno::NOTDIR => {
                Self::new(StatusCode::CONFLICT, "a file stands where the path needs a directory")
            }
            Errno::ISDIR => Self::directory(),
            other => Self::of_any(other),
        };
        Self { cause: Some(cause), ..refusal }
    }

    fn of_any(cause: Errno) -> Self {
        match cause {
            // EXDEV: the kernel's word for a way out of the root.
            Errno::LOOP | Errno::XDEV => Self::not_a_file(),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => {
                Self::new(StatusCode::FORBIDDEN, "the directory's permissions forbid it")
            }
            Errno::NAMETOOLONG => {
                Self::new(StatusCode::URI_TOO_LONG, "a name in the path is too long")
            }
            Errno::NOSPC | Errno::DQUOT => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "no space is left")
            }
            Errno::FBIG => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the file system takes no file of this size",
            ),
            _ => Self::internal(),
        }
    }

    pub(super) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the file store failed; its log says why")
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// The answer; a failure of ours is logged here, once.
    pub(super) fn into_response<B: From<Bytes>>(self, path: &[u8]) -> Response<B> {
        if self.status.is_server_error() {
            let path = String::from_utf8_lossy(path);
            let cause = self.cause.map(tracing::field::display);
            tracing::warn!(%path, cause, status = self.status.as_u16(), "the file store refuses");
        }
        let text = Bytes::from(format!("{}\n", self.reason));
        let mut response = Response::new(B::from(text));
        *response.status_mut() = self.status;
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, ALLOW);
        }
        response
    }
}

/// The path of a request that may touch what it names.
pub(super) fn visible(path: &[u8], hidden: StatusCode) -> Result<RelPath, Refusal> {
    let path = RelPath::parse(path)?;
    if path.is_hidden() {
        return Err(Refusal::new(hidden, "this name belongs to the file store itself"));
    }
    Ok(path)
}

/// An answer without content.
pub(super) fn empty<B: From<Bytes>>(status: StatusCode) -> Response<B> {
    let mut response = Response::new(B::from(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// Says which version of a file an answer speaks of.
pub(super) fn validators<B>(response: &mut Response<B>, entity: &Entity) {
    response.headers_mut().insert(header::ETAG, entity.etag());
    if let Some(date) = entity.last_modified() {
        response.headers_mut().insert(header::LAST_MODIFIED, date);
    }
}
