//! Reading a request's body within limits of size and time.

use std::{pin::pin, time::Duration};

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::timeout;

use super::problem::{Code, Problem};

/// Most bytes of a change's document.
const LIMIT: usize = 64 * 1024;

/// Most bytes that are read and thrown away so that a client can read its refusal.
const DISCARD: usize = 1024 * 1024;

/// From a request's head to the end of its body.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a body is thrown away for.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// The whole body.
pub(super) async fn read<B: Body<Data = Bytes>>(body: B) -> Result<Vec<u8>, Problem> {
    match timeout(TIMEOUT, collect(body)).await {
        Ok(answer) => answer,
        Err(_) => Err(Problem::new(Code::RequestTimeout, "the body did not end in 10 seconds")),
    }
}

/// Throws a body away, up to a limit: closing with bytes unread would reset the connection, and
/// the client would not see why it was refused.
pub(super) async fn discard<B: Body<Data = Bytes>>(body: B) {
    let all = async {
        let mut body = pin!(body);
        let mut left = DISCARD;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Buf::remaining);
            match left.checked_sub(length) {
                Some(less) => left = less,
                None => break,
            }
        }
    };
    _ = timeout(DISCARD_TIMEOUT, all).await;
}

async fn collect<B: Body<Data = Bytes>>(body: B) -> Result<Vec<u8>, Problem> {
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Err(Problem::new(Code::BadRequest, "the body broke off"));
        };
        let data = frame.into_data().unwrap_or_default();
        if bytes.len() + data.len() > LIMIT {
            discard(body).await;
            return Err(Problem::new(Code::BodyTooLarge, format!("at most {LIMIT} bytes")));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
