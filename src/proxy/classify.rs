//! What a request asks for: a read, a claim or a write. The unknown is refused, not guessed.

use http::{HeaderMap, HeaderName, Method, header};

use super::{
    fields::Credentials,
    headers::{BodyLength, check_connection},
    lines::{Fields, USUAL},
    refusal::Refusal,
    route::Route,
    target::{Ambiguity, Target},
};
use crate::{
    fence::{Holder, Token},
    gate::Mode,
};

/// What the route does with a request.
#[derive(Clone, Debug)]
pub struct Intent {
    /// What it is.
    pub action: Action,
    /// The token it carries.
    pub token: Option<Token>,
    /// The holder it names.
    pub holder: Option<Holder>,
    /// On a route that does not enforce: why its token field would have been refused. The write
    /// raises nothing.
    pub would_refuse: Option<Refusal>,
}

/// The three kinds of request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Goes through the fence untouched, unless `reads = "check"` and it carries a token.
    Read,
    /// Raises the mark and drains, then reads.
    Claim,
    /// Is fenced.
    Write,
}

/// Fields by which a request asks for another method than its own.
const METHOD_OVERRIDES: [&str; 5] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "tus-method-override",
    "x-original-method",
];

/// `Early-Data`: a hop before us took the request in TLS early data.
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// The same in the query.
const METHOD_PARAMETERS: [&str; 4] =
    ["_method", "x-http-method-override", "x-http-method", "x-method-override"];

/// Fields that name a second object, in several stores' protocols.
const SECOND_OBJECTS: [&str; 3] = ["destination", "x-copy-from", "upload-concat"];

/// Fields that some frameworks take for the path.
const OTHER_PATHS: [&str; 2] = ["x-original-url", "x-rewrite-url"];

/// Refuses what no dialect here understands, whatever the method and the route (R6).
///
/// # Errors
/// [`Refusal::NotFenceable`].
pub fn check_fenceable(
    method: &Method,
    unusual: Option<&HeaderMap>,
    target: &Target,
) -> Result<(), Refusal> {
    let names = unusual.into_iter().flat_map(HeaderMap::keys).filter(|name| !USUAL.contains(name));
    if let Some(why) = names.map(HeaderName::as_str).find_map(meaning_changer) {
        return Err(Refusal::NotFenceable(why));
    }
    if target.asks_for(&METHOD_PARAMETERS) {
        return Err(Refusal::NotFenceable(OTHER_METHOD));
    }
    // An S3 batch names its objects in the body; WebHDFS names the second one in the query.
    let batch = *method == Method::POST && target.asks_for(&["delete"]);
    if batch || target.asks_for(&["destination"]) {
        return Err(Refusal::NotFenceable("it touches objects that its path does not name"));
    }
    Ok(())
}

const OTHER_METHOD: &str = "it asks for another method than its own";

/// Why a request with this field touches another object, or in another way, than its path and
/// method say; `None` where it does not. `_` counts as `-`, since what runs behind a gateway may
/// see one as the other.
pub(super) fn meaning_changer(name: &str) -> Option<&'static str> {
    if name.contains('_') {
        return meaning_changer(&name.replace('_', "-"));
    }
    let second = ["copy-source", "rename-source"].iter().any(|object| name.contains(object));
    if second || SECOND_OBJECTS.contains(&name) {
        return Some("it touches a second object, named in a field");
    }
    if OTHER_PATHS.contains(&name) {
        return Some("it asks for another path than its own");
    }
    METHOD_OVERRIDES.contains(&name).then_some(OTHER_METHOD)
}

/// Checks what HTTP itself demands of a head before any of it is acted on.
///
/// # Errors
/// [`Refusal::BadRequest`].
pub fn check_head(unusual: Option<&HeaderMap>) -> Result<(), Refusal> {
    let Some(unusual) = unusual else { return Ok(()) };
    check_connection(unusual)?;
    let mut expects = unusual.get_all(header::EXPECT).iter();
    if let Some(expect) = expects.next() {
        let known = expect.as_bytes().eq_ignore_ascii_case(b"100-continue");
        if !known || expects.next().is_some() {
            return Err(Refusal::ExpectationFailed);
        }
    }
    Ok(())
}

/// Classifies a request on its route.
///
/// # Errors
/// The refusal that the head alone deserves; it raises nothing (R9).
pub fn classify(
    route: &Route,
    method: &Method,
    fields: &Fields<'_>,
    target: &Target,
    length: BodyLength,
) -> Result<Intent, Refusal> {
    let action = match (route.reads.contains(method), route.writes.contains(method)) {
        (true, _) => Action::Read,
        (false, true) => Action::Write,
        (false, false) => return Err(Refusal::MethodNotAllowed(allow(route))),
    };
    let names = &route.token_headers;
    let credentials = Credentials::read(fields, names, route.policy.generations)?;
    let action = if credentials.claim { claim(route, method, action)? } else { action };
    // RFC 8470: it may be a replay. A read of one does no harm, and says so upstream.
    let early = || fields.unusual.is_some_and(|all| all.contains_key(EARLY_DATA));
    if action != Action::Read && early() {
        return Err(Refusal::TooEarly);
    }
    if action != Action::Write && !matches!(length, BodyLength::None | BodyLength::Exact(0)) {
        return Err(Refusal::BadRequest("a read has no body"));
    }
    if action != Action::Read && target.has_trailing_slash() {
        return Err(Refusal::TargetAmbiguous(Ambiguity::TrailingSlash));
    }
    if let (BodyLength::Exact(length), Some(most)) = (length, route.max_body)
        && length > most
    {
        return Err(Refusal::BodyTooLarge);
    }
    let holder = credentials.holder;
    match token(route, action, credentials.token) {
        Ok(token) => Ok(Intent { action, token, holder, would_refuse: None }),
        Err(refusal) if action == Action::Write && !route.policy.enforce => {
            Ok(Intent { action, token: None, holder, would_refuse: Some(refusal) })
        }
        Err(refusal) => Err(refusal),
    }
}

/// `Fencing-Claim: true` on a request whose method the route knows as `action`.
fn claim(route: &Route, method: &Method, action: Action) -> Result<Action, Refusal> {
    if route.policy.mode == Mode::Off {
        return Err(Refusal::BadRequest(
            "this route takes no tokens, so there is nothing to claim",
        ));
    }
    if action != Action::Read || !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Refusal::BadRequest("a claim is made with GET or HEAD"));
    }
    Ok(Action::Claim)
}

fn token(
    route: &Route,
    action: Action,
    read: Result<Option<Token>, super::fields::TokenFault>,
) -> Result<Option<Token>, Refusal> {
    if route.policy.mode == Mode::Off {
        return Ok(None);
    }
    let token = read.map_err(Refusal::TokenMalformed)?;
    let needed = match action {
        Action::Read => false,
        Action::Claim => true,
        Action::Write => route.policy.mode == Mode::Required,
    };
    if needed && token.is_none() {
        return Err(Refusal::TokenMissing);
    }
    Ok(token)
}

fn allow(route: &Route) -> String {
    let names: Vec<&str> = route.reads.iter().chain(&route.writes).map(Method::as_str).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_fields_change_no_meaning() {
        for name in USUAL {
            assert_eq!(meaning_changer(name.as_str()), None, "{name}");
        }
    }
}
