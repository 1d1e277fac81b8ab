//! A refusal's problem document (RFC 9457).

use std::{borrow::Cow, fmt::Write as _};

use http::StatusCode;

use super::{Context, Refusal, seconds};

/// The document, with the status that it goes out under.
pub(super) fn document(refusal: &Refusal, status: StatusCode, context: &Context<'_>) -> String {
    let code = refusal.code();
    // Put together from its pieces: a machinery of formats would be half of a refusal's cost.
    let mut text = String::with_capacity(512);
    text.push_str(r#"{"type":"urn:palisade:problem:"#);
    text.push_str(code);
    text.push('"');
    member(&mut text, "title", refusal.title());
    text.push_str(r#","status":"#);
    text.push_str(status.as_str());
    member(&mut text, "detail", &refusal.detail(context));
    member(&mut text, "code", code);
    if let Some(key) = &context.key {
        member(&mut text, "key", key);
    }
    // Tokens are strings: a JSON number is exact to 2^53 only.
    for (name, token) in [("token", context.token), ("highest", context.highest)] {
        if let Some(token) = token {
            member(&mut text, name, &token.to_string());
        }
    }
    if let Some(outcome) = context.outcome {
        member(&mut text, "outcome", outcome.as_str());
    }
    if let Refusal::InDoubt(left) = refusal {
        let _ = write!(text, r#","retry_after":{}"#, seconds(*left));
    }
    member(&mut text, "request_id", context.request_id);
    text.push_str("}\n");
    text
}

/// The detail of a stale token.
pub(super) fn stale(context: &Context<'_>) -> Cow<'static, str> {
    let (Some(token), Some(highest)) = (context.token, context.highest) else {
        return "a higher token was seen for this key: the lock was lost".into();
    };
    let (token, highest) = (token.to_string(), highest.to_string());
    let seen = ", the highest one seen for this key: the lock was lost";
    ["token ", &token, " is below ", &highest, seen].concat().into()
}

/// A further member of the document.
fn member(text: &mut String, name: &str, value: &str) {
    text.push_str(",\"");
    text.push_str(name);
    text.push_str("\":");
    quote(text, value);
}

fn quote(text: &mut String, value: &str) {
    // What JSON asks to be escaped (RFC 8259 section 7).
    if !value.bytes().any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        text.push('"');
        text.push_str(value);
        text.push('"');
        return;
    }
    match serde_json::to_string(value) {
        Ok(quoted) => text.push_str(&quoted),
        Err(_) => text.push_str("\"\""),
    }
}
