use super::*;
use crate::fence::UpstreamId;

#[test]
fn a_stale_write_is_told_everything() {
    let key = Key::new(UpstreamId(1), b"a\"b").unwrap();
    let context = Context {
        fencing: true,
        key: Some(("files", &key)),
        token: Some(Token::new(9_007_199_254_740_992)),
        highest: Some(Token::new(9_007_199_254_740_993)),
        outcome: Some(WriteOutcome::NotApplied),
        request_id: "r1",
        ..Context::default()
    };
    let response = Refusal::StaleToken.response(&context);
    assert_eq!(response.status(), 412);
    assert_eq!(response.headers()["fencing-result"], "stale-token");
    assert_eq!(response.headers()["fencing-highest"], "9007199254740993");
    assert_eq!(response.headers()["fencing-outcome"], "not-applied");
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(document["type"], "urn:palisade:problem:stale-token");
    assert_eq!(document["status"], 412);
    assert_eq!(document["key"], "files:a\"b");
    assert_eq!(document["token"], "9007199254740992");
    assert_eq!(document["highest"], "9007199254740993");
    assert_eq!(document["request_id"], "r1");
    let status = Some(StatusCode::LOCKED);
    let response = Refusal::StaleToken.response(&Context { stale_status: status, ..context });
    assert_eq!(response.status(), 423);
}

#[test]
fn retry_after_is_capped_in_the_field_and_exact_in_the_document() {
    let context = Context { fencing: true, ..Context::default() };
    let response = Refusal::InDoubt(Duration::from_millis(90_001)).response(&context);
    assert_eq!(response.headers()["retry-after"], "30");
    let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(document["retry_after"], 91);
    let response = Refusal::InDoubt(Duration::from_micros(1)).response(&context);
    assert_eq!(response.headers()["retry-after"], "1");
}

#[test]
fn off_routes_and_admitted_requests_keep_their_fields() {
    let refusal = Refusal::UpstreamTimeout;
    let off = refusal.response(&Context::default());
    assert!(!off.headers().contains_key("fencing-result"));
    let admitted = Context { fencing: true, admitted: Some("admitted"), ..Context::default() };
    let response = refusal.response(&admitted);
    assert_eq!(response.headers()["fencing-result"], "admitted");
    let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(document["code"], "upstream-timeout");
    let allow = Refusal::MethodNotAllowed("GET, PUT".into()).response(&admitted);
    assert_eq!(allow.headers()["allow"], "GET, PUT");
}

#[test]
fn early_and_misdirected_requests_have_their_own_statuses() {
    for (refusal, status, code) in
        [(Refusal::TooEarly, 425, "too-early"), (Refusal::Misdirected, 421, "misdirected-request")]
    {
        let response = refusal.response(&Context::default());
        let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(document["code"], code);
    }
}

/// Every byte that a key may have is read back as it was.
#[test]
fn a_document_is_json_whatever_the_key_is() {
    let ascii: String = (0..0x80_u8).map(char::from).collect();
    for text in ["a", "", "\"", "\\", "\u{1f}", "\u{7f}", "caf\u{e9} \u{1f512}", &ascii] {
        let key = Key::new(UpstreamId(1), text.as_bytes()).unwrap();
        let context = Context { key: Some(("files", &key)), ..Context::default() };
        let response = Refusal::StaleToken.response(&context);
        let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(document["key"], format!("files:{text}"));
    }
}

#[test]
fn a_tokens_field_is_its_one_spelling() {
    let generation = Token { generation: 2, counter: 0 };
    for token in [Token::new(0), Token::new(u64::MAX), generation] {
        assert_eq!(token_value(token), token.to_string());
    }
}
