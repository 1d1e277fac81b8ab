//! A request as it goes to the store: HTTP/1.1, in origin form, its head in the bytes that are sent.

use std::{fmt, mem};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
};

use super::Outgoing;

/// Room for a usual head.
const USUAL_HEAD: usize = 512;

/// A request for the store.
pub struct Request {
    pub(super) method: Method,
    pub(super) head: Vec<u8>,
    pub(super) body: Outgoing,
    /// Without a field: the answer's go into it, so that no map is made for them.
    pub(super) spare: HeaderMap,
}

/// Without the head: it holds credentials.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

impl Request {
    /// Its head, as it goes out.
    #[cfg(test)]
    pub fn head(&self) -> &[u8] {
        &self.head
    }
}

/// A request whose head is being written.
///
/// The framing is its own, made from the body alone: no field of the client's may contradict it
/// (RFC 9112 section 6).
#[derive(Debug)]
pub struct Draft {
    request: Box<Request>,
    framed: bool,
}

impl Draft {
    /// A request line. The target goes out as it is, and should be in origin form; `Host` should be
    /// the first field (RFC 9110 section 7.2).
    pub fn new(method: Method, target: &str, body: Outgoing) -> Self {
        let mut head = Vec::with_capacity(USUAL_HEAD);
        for part in [method.as_str(), " ", target, " HTTP/1.1\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        let spare = HeaderMap::new();
        Self { request: Box::new(Request { method, head, body, spare }), framed: false }
    }

    /// A field's line. Of a framing field only the place counts.
    pub fn field(&mut self, name: &HeaderName, value: &HeaderValue) {
        if *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING {
            return self.frame();
        }
        let head = &mut self.request.head;
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }

    /// The head is whole. `spare` is an empty map.
    pub fn end(mut self, spare: HeaderMap) -> Box<Request> {
        debug_assert!(spare.is_empty(), "its fields would go into the answer");
        self.frame();
        self.request.head.extend_from_slice(b"\r\n");
        self.request.spare = spare;
        self.request
    }

    /// Says once how long the body is. A bare write says that it has none (RFC 9110 section 8.6);
    /// other methods say nothing.
    fn frame(&mut self) {
        if mem::replace(&mut self.framed, true) {
            return;
        }
        let Request { method, head, body, .. } = &mut *self.request;
        let writes = matches!(*method, Method::PUT | Method::POST | Method::PATCH);
        match body.length() {
            None => head.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            Some(0) if !writes => {}
            Some(length) => {
                for part in ["content-length: ", &length.to_string(), "\r\n"] {
                    head.extend_from_slice(part.as_bytes());
                }
            }
        }
    }
}
