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

/// Whatever is known of a request, the document has that and nothing else.
#[test]
fn a_document_has_what_is_known() {
    let refusals = [
        Refusal::StaleToken,
        Refusal::InDoubt(Duration::from_secs(7)),
        Refusal::UpstreamFailed("\"no\"\n".into()),
    ];
    let key = Key::new(UpstreamId(1), b"a").unwrap();
    for (refusal, known) in refusals.iter().flat_map(|one| (0..16).map(move |known| (one, known))) {
        let known = |bit: u8| known & bit != 0;
        let context = Context {
            key: known(1).then_some(("files", &key)),
            token: known(2).then_some(Token::new(4)),
            highest: known(4).then_some(Token::new(5)),
            outcome: known(8).then_some(WriteOutcome::NotApplied),
            request_id: "r1",
            ..Context::default()
        };
        let response = refusal.response(&context);
        let code = refusal.code();
        let detail = if matches!(refusal, Refusal::StaleToken) && known(2) && known(4) {
            "token 4 is below 5, the highest one seen for this key: the lock was lost".into()
        } else {
            refusal.detail()
        };
        let mut expected = serde_json::json!({
            "type": format!("urn:palisade:problem:{code}"),
            "title": refusal.title(),
            "status": refusal.status().as_u16(),
            "detail": detail,
            "code": code,
            "request_id": "r1",
        });
        let members = [(1, "key", "files:a"), (2, "token", "4"), (4, "highest", "5")];
        for (bit, name, value) in members.into_iter().chain([(8, "outcome", "not-applied")]) {
            if known(bit) {
                expected[name] = value.into();
            }
        }
        if matches!(refusal, Refusal::InDoubt(_)) {
            expected["retry_after"] = 7.into();
        }
        let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(document, expected);
    }
}

#[test]
fn a_tokens_field_is_its_one_spelling() {
    let generation = Token { generation: 2, counter: 0 };
    for token in [Token::new(0), Token::new(u64::MAX), generation] {
        assert_eq!(token_value(token), token.to_string());
    }
}
