//! GET, HEAD and OPTIONS.

use std::{fs::File, ops::Range, sync::Arc};

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use http_body::Body as _;
use tokio::task::spawn_blocking;

use super::{
    Inner,
    answer::{self, Refusal},
    body::{self, FileBody},
    conditions::{self, Conditions, Verdict},
    entity::{Entity, Kind},
    path::RelPath,
    range::{self, Selection},
    tree::errno,
};

/// Answers a request that changes nothing.
pub(super) async fn respond(inner: &Arc<Inner>, parts: &Parts, path: &[u8]) -> Response<FileBody> {
    match parts.method {
        Method::GET => fetch(inner, parts, path).await,
        Method::HEAD => without_body(fetch(inner, parts, path).await),
        Method::OPTIONS => options(path),
        _ => Refusal::method_not_allowed().into_response(path),
    }
}

fn options(path: &[u8]) -> Response<FileBody> {
    if let Err(refusal) = RelPath::parse(path) {
        return refusal.into_response(path);
    }
    let mut response = answer::empty(StatusCode::NO_CONTENT);
    response.headers_mut().insert(header::ALLOW, answer::ALLOW);
    response
}

/// HEAD is GET without its body, but with the length that it would have (RFC 9110, 9.3.2).
fn without_body(response: Response<FileBody>) -> Response<FileBody> {
    let (mut parts, body) = response.into_parts();
    let length = body.size_hint().exact().filter(|_| parts.status != StatusCode::NOT_MODIFIED);
    if let Some(length) = length {
        parts.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    Response::from_parts(parts, FileBody::empty())
}

async fn fetch(inner: &Arc<Inner>, parts: &Parts, path: &[u8]) -> Response<FileBody> {
    let lookup = match Lookup::of(parts, path) {
        Ok(lookup) => lookup,
        Err(refusal) => return refusal.into_response(path),
    };
    let inner = Arc::clone(inner);
    let answered = spawn_blocking(move || lookup.run(&inner)).await;
    answered
        .unwrap_or_else(|_| Err(Refusal::internal()))
        .unwrap_or_else(|refusal| refusal.into_response(path))
}

/// A GET or HEAD, ready for a thread that may block.
struct Lookup {
    path: RelPath,
    conditions: Conditions,
    /// `Range` counts for GET alone (RFC 9110, 14.2).
    headers: Option<HeaderMap>,
    body: bool,
}

impl Lookup {
    fn of(parts: &Parts, path: &[u8]) -> Result<Self, Refusal> {
        let get = parts.method == Method::GET;
        let ranged = get && parts.headers.contains_key(header::RANGE);
        Ok(Self {
            path: answer::visible(path, StatusCode::NOT_FOUND)?,
            conditions: Conditions::of(&parts.headers),
            headers: ranged.then(|| parts.headers.clone()),
            body: get,
        })
    }

    fn run(&self, inner: &Inner) -> Result<Response<FileBody>, Refusal> {
        if self.path.is_root() {
            return Err(Refusal::not_found());
        }
        let file = inner.tree.open_to_read(&self.path).map_err(Refusal::of_read)?;
        let entity = match Kind::of(&file).map_err(Refusal::of_read)? {
            Kind::File(entity) => entity,
            Kind::Directory => return Err(Refusal::not_found()),
            Kind::Other => return Err(Refusal::not_a_file()),
        };
        match self.conditions.judge_read(&entity) {
            Verdict::Fail => return Err(Refusal::condition_failed()),
            Verdict::NotModified => {
                let mut response = answer::empty(StatusCode::NOT_MODIFIED);
                answer::validators(&mut response, &entity);
                return Ok(response);
            }
            Verdict::Proceed => {}
        }
        match self.select(&entity) {
            Selection::Whole => self.give(file, &entity, 0..entity.size, StatusCode::OK),
            Selection::Part(part) => self.give(file, &entity, part, StatusCode::PARTIAL_CONTENT),
            Selection::Unsatisfiable => Ok(unsatisfiable(&entity)),
        }
    }

    fn select(&self, entity: &Entity) -> Selection {
        match &self.headers {
            Some(headers) if conditions::range_stands(headers, entity) => {
                range::select(headers, entity.size)
            }
            Some(_) | None => Selection::Whole,
        }
    }

    fn give(
        &self,
        file: File,
        entity: &Entity,
        stretch: Range<u64>,
        status: StatusCode,
    ) -> Result<Response<FileBody>, Refusal> {
        let content_range = content_range(&stretch, entity.size);
        // What fits one chunk is read here, without another trip to a blocking thread.
        let body = if self.body && stretch.end - stretch.start <= body::CHUNK {
            let bytes =
                body::read_chunk(&file, stretch).map_err(|e| Refusal::of_read(errno(&e)))?;
            FileBody::from(bytes)
        } else {
            FileBody::stretch(file, stretch)
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let length = response.body().size_hint().exact().unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, length.into());
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        let octets = HeaderValue::from_static("application/octet-stream");
        headers.insert(header::CONTENT_TYPE, octets);
        if status == StatusCode::PARTIAL_CONTENT {
            headers.extend(content_range.map(|range| (header::CONTENT_RANGE, range)));
        }
        answer::validators(&mut response, entity);
        Ok(response)
    }
}

fn content_range(stretch: &Range<u64>, size: u64) -> Option<HeaderValue> {
    let last = stretch.end.checked_sub(1)?;
    format!("bytes {}-{last}/{size}", stretch.start).try_into().ok()
}

fn unsatisfiable(entity: &Entity) -> Response<FileBody> {
    let mut response = answer::empty(StatusCode::RANGE_NOT_SATISFIABLE);
    let range = HeaderValue::try_from(format!("bytes */{}", entity.size)).ok();
    response.headers_mut().extend(range.map(|range| (header::CONTENT_RANGE, range)));
    answer::validators(&mut response, entity);
    response
}
