//! What is to be done with a request, from its head alone: whatever is wrong with it is found here.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, Method, request::Parts};

use super::{
    Captures, Found, KeyParts, PartError, Shared,
    authority::Addressed,
    call::Call,
    classify::{Action, Intent, check_fenceable, check_head, classify},
    headers::{BodyLength, body_length, nominated},
    hop::Hop,
    lines::{Fields, Lines},
    refusal::Refusal,
    route::Route,
    target::{Ambiguity, Target},
};
use crate::fence::Key;

/// What is to be done with a request, from its head alone.
pub(super) struct Plan {
    pub(super) route: usize,
    pub(super) target: Target,
    pub(super) addressed: Addressed,
    pub(super) length: BodyLength,
    pub(super) intent: Intent,
    /// No field is there but usual ones ([`Fields`]).
    pub(super) usual: bool,
}

impl Plan {
    /// Reads a head. Whatever is wrong with it is found here, before anything waits or is raised.
    /// `fields` are the head's.
    pub(super) fn of(
        shared: &Shared,
        head: &Parts,
        fields: &Fields<'_>,
        ended: bool,
        call: &mut Call,
    ) -> Result<Self, Refusal> {
        // Until the route says what the method is, so that a refusal tells a writer the outcome.
        if !head.method.is_safe() {
            call.action = Some(Action::Write);
        }
        if head.method == Method::CONNECT {
            // What comes behind it was meant for a tunnel.
            call.close = true;
            return Err(Refusal::MethodNotAllowed("GET, HEAD, PUT, DELETE".into()));
        }
        if head.headers.len() > shared.max_headers {
            return Err(Refusal::HeadersTooLarge);
        }
        let target = Target::read(&head.uri).map_err(Refusal::TargetAmbiguous)?;
        let hop = Hop::of(call.peer.as_ref());
        let addressed = Addressed::read(fields.host, &head.uri, head.version, hop)?;
        check_head(fields.unusual)?;
        let length = body_length(fields, head.version, ended)?;
        let (at, captures) = match shared.routes.find(addressed.host(), &head.method, target.path())
        {
            Found::Route(at, captures) => (at, captures),
            Found::MethodNotAllowed { allow } => {
                let allow: Vec<&str> = allow.iter().map(Method::as_str).collect();
                return Err(Refusal::MethodNotAllowed(allow.join(", ")));
            }
            Found::NoRoute => return Err(Refusal::NoRoute),
        };
        let route = shared.routes.get(at).ok_or(Refusal::NoRoute)?;
        call.route = Some(at);
        check_fenceable(&head.method, fields.unusual, &target)?;
        if route.reads.contains(&head.method) {
            call.action = None;
        }
        let intent = classify(route, &head.method, fields, &target, length)?;
        call.action = Some(intent.action);
        call.token = intent.token;
        if intent.action != Action::Read || intent.token.is_some() {
            let source = Source { target: &target, addressed: &addressed, headers: &head.headers };
            call.key = source.key(route, &captures, call)?;
        }
        let usual = fields.unusual.is_none();
        Ok(Self { route: at, target, addressed, length, intent, usual })
    }
}

/// What of a request a key can be made of.
pub(super) struct Source<'a> {
    pub(super) target: &'a Target,
    pub(super) addressed: &'a Addressed,
    pub(super) headers: &'a HeaderMap,
}

impl Source<'_> {
    /// The key; a read whose path has none is not fenced, and passes without.
    pub(super) fn key(
        &self,
        route: &Route,
        captures: &Captures,
        call: &Call,
    ) -> Result<Option<Key>, Refusal> {
        let key = route.key(captures, self.target.path(), self).map_err(Ambiguity::from).and_then(
            |key| call.shared.gate.key(route.upstream, &key).ok_or(Ambiguity::KeyTooLong),
        );
        match key {
            Ok(key) => Ok(Some(key)),
            Err(_) if call.action == Some(Action::Read) => Ok(None),
            Err(ambiguity) => Err(Refusal::TargetAmbiguous(ambiguity)),
        }
    }
}

impl KeyParts for Source<'_> {
    fn host(&self) -> Result<Cow<'_, [u8]>, PartError> {
        Ok(self.addressed.host().into())
    }

    fn query(&self, name: &str) -> Result<Cow<'_, [u8]>, PartError> {
        match self.target.query_value(name) {
            Ok(Some(value)) => Ok(value.into()),
            Ok(None) => Err(PartError::Missing),
            Err(_) => Err(PartError::Malformed),
        }
    }

    fn header(&self, name: &HeaderName) -> Result<Cow<'_, [u8]>, PartError> {
        // What `Connection` takes away does not reach the store.
        if nominated(self.headers, &[]).contains(name) {
            return Err(PartError::Malformed);
        }
        match Lines::of(self.headers, name) {
            Lines::None => Err(PartError::Missing),
            Lines::One(line) => Ok(line.as_bytes().into()),
            Lines::More => Err(PartError::Doubled),
        }
    }
}
