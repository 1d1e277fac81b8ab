//! A refusal's problem document (RFC 9457).

use std::fmt::Write as _;

use http::StatusCode;

use super::{super::bytes::ByteSet, Context, Refusal, WriteOutcome, seconds};
use crate::fence::Token;

/// What JSON asks to be escaped (RFC 8259 section 7).
static ESCAPED: ByteSet = ByteSet::EMPTY.with_range(0, 0x1f).with(b"\"\\");

/// The document, with the status that it goes out under, and the mark as text.
///
/// Put together from its pieces: a machinery of formats would be half of a refusal's cost.
pub(super) fn document(
    refusal: &Refusal,
    status: StatusCode,
    context: &Context<'_>,
    highest: Option<&str>,
) -> String {
    let code = refusal.code();
    // Tokens are strings: a JSON number is exact to 2^53 only.
    let token = context.token.map(Token::text);
    let mut text = String::with_capacity(512);
    plain(&mut text, r#"{"type":"urn:palisade:problem:"#, code);
    plain(&mut text, r#","title":""#, refusal.title());
    text.push_str(r#","status":"#);
    text.push_str(status.as_str());
    if let (Refusal::StaleToken, Some(token), Some(highest)) = (refusal, &token, highest) {
        text.push_str(r#","detail":"token "#);
        text.push_str(token);
        text.push_str(" is below ");
        plain(&mut text, highest, ", the highest one seen for this key: the lock was lost");
    } else {
        text.push_str(r#","detail":"#);
        quote(&mut text, &[&refusal.detail()]);
    }
    plain(&mut text, r#","code":""#, code);
    if let Some((upstream, key)) = context.key {
        text.push_str(r#","key":"#);
        quote(&mut text, &[upstream, ":", &String::from_utf8_lossy(key.path())]);
    }
    if let Some(token) = &token {
        plain(&mut text, r#","token":""#, token);
    }
    if let Some(highest) = highest {
        plain(&mut text, r#","highest":""#, highest);
    }
    if let Some(outcome) = context.outcome {
        plain(&mut text, r#","outcome":""#, WriteOutcome::as_str(outcome));
    }
    if let Refusal::InDoubt(left) = refusal {
        let _ = write!(text, r#","retry_after":{}"#, seconds(*left));
    }
    plain(&mut text, r#","request_id":""#, context.request_id);
    text.push_str("}\n");
    text
}

/// The rest of a string that has nothing to escape, after what begins it: our own words, numbers,
/// and a [`RequestId`](super::super::request_id::RequestId).
fn plain(text: &mut String, start: &str, end: &str) {
    text.push_str(start);
    text.push_str(end);
    text.push('"');
}

/// A string in pieces.
fn quote(text: &mut String, pieces: &[&str]) {
    if !pieces.iter().any(|piece| piece.bytes().any(|byte| ESCAPED.has(byte))) {
        text.push('"');
        text.extend(pieces.iter().copied());
        text.push('"');
        return;
    }
    match serde_json::to_string(&pieces.concat()) {
        Ok(quoted) => text.push_str(&quoted),
        Err(_) => text.push_str("\"\""),
    }
}
