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
    text.push_str(r#"{"type":"urn:palisade:problem:"#);
    text.push_str(code);
    member(&mut text, r#"","title":""#, refusal.title());
    member(&mut text, r#"","status":"#, status.as_str());
    if let (Refusal::StaleToken, Some(token), Some(highest)) = (refusal, &token, highest) {
        member(&mut text, r#","detail":"token "#, token);
        member(&mut text, " is below ", highest);
        text.push_str(", the highest one seen for this key: the lock was lost");
    } else {
        text.push_str(r#","detail":""#);
        escaped(&mut text, &refusal.detail());
    }
    member(&mut text, r#"","code":""#, code);
    if let Some((upstream, key)) = context.key {
        text.push_str(r#"","key":""#);
        escaped(&mut text, upstream);
        text.push(':');
        escaped(&mut text, &String::from_utf8_lossy(key.path()));
    }
    if let Some(token) = &token {
        member(&mut text, r#"","token":""#, token);
    }
    if let Some(highest) = highest {
        member(&mut text, r#"","highest":""#, highest);
    }
    if let Some(outcome) = context.outcome {
        member(&mut text, r#"","outcome":""#, WriteOutcome::as_str(outcome));
    }
    text.push('"');
    if let Refusal::InDoubt(left) = refusal {
        let _ = write!(text, r#","retry_after":{}"#, seconds(*left));
    }
    member(&mut text, r#","request_id":""#, context.request_id);
    text.push_str("\"}\n");
    text
}

/// The end of the member before with a member's name, and its value up to its end. In it there is
/// nothing to escape: it is of our own words, a number, or a
/// [`RequestId`](super::super::request_id::RequestId).
fn member(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push_str(value);
}

/// A part of a string's value, escaped.
fn escaped(text: &mut String, value: &str) {
    if !value.bytes().any(|byte| ESCAPED.has(byte)) {
        text.push_str(value);
        return;
    }
    let quoted = serde_json::to_string(value).unwrap_or_default();
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    text.push_str(inner.unwrap_or_default());
}
