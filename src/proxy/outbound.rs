//! A request as it goes upstream: HTTP/1.1, whatever it came by.
//!
//! It owns what goes on: the target byte by byte as it came, one Host, the client's fields in their
//! order, then what this proxy says of the client and of itself. The framing is made anew by the
//! draft (`upstream`). What came by HTTP/1.1 and by HTTP/2 goes on as the same bytes, but for
//! the version in `Via`.

#[cfg(test)]
mod tests;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Version, header, request::Parts, uri::PathAndQuery,
};

use super::{
    Forwarding, Rewrite,
    authority::Addressed,
    call::Call,
    forwarding::{Place, tells_of_client, via},
    headers::{emptied, is_hop_by_hop, nominated},
    hop::{Hop, Remote},
    plan::Plan,
    request_id::{self, RequestId},
    route::Route,
};
use crate::upstream::http::{Draft, Outgoing, Request};

/// The most fields that this proxy adds by itself.
const OWN_FIELDS: usize = 8;

/// The request as it goes upstream; `host` is the upstream's own Host, where it has one.
pub(super) fn outgoing(
    head: Parts,
    plan: &Plan,
    call: &Call,
    route: &Route,
    host: Option<&HeaderValue>,
    body: Outgoing,
) -> Box<Request> {
    let outbound = Outbound {
        target: plan.target.raw(),
        addressed: &plan.addressed,
        host: host.unwrap_or(&plan.addressed.field),
        kept: &route.token_headers,
        rewrite: &route.rewrite,
        forwarding: &call.shared.forwarding,
        id: &call.id,
        version: head.version,
        usual: plan.usual,
        peer: Hop::of(call.peer.as_ref()).remote,
    };
    outbound.request(head.method, head.headers, body)
}

/// Everything that decides what a request looks like.
#[derive(Clone, Copy)]
struct Outbound<'a> {
    target: &'a PathAndQuery,
    addressed: &'a Addressed,
    host: &'a HeaderValue,
    /// The token fields, which go on whatever `Connection` says.
    kept: &'a [HeaderName],
    rewrite: &'a Rewrite,
    forwarding: &'a Forwarding,
    id: &'a RequestId,
    /// It came by.
    version: Version,
    /// With none but usual fields, of which each goes on, and none is this proxy's.
    usual: bool,
    peer: Option<Remote<'a>>,
}

impl Outbound<'_> {
    /// Host stands first (RFC 9110 section 7.2). Where nothing is to be taken out of the client's
    /// fields or put into them, as with most, they go as they are.
    fn request(&self, method: Method, came: HeaderMap, body: Outgoing) -> Box<Request> {
        let mut draft = Draft::new(method, self.target.as_str(), body);
        draft.field(&header::HOST, self.host);
        let as_they_are = self.usual && self.rewrite.is_empty();
        let fields = if as_they_are { came } else { self.changed(came) };
        for (name, value) in fields.iter().filter(|(name, _)| **name != header::HOST) {
            draft.field(name, value);
        }
        if as_they_are {
            self.own(|name, value, _| draft.field(name, value));
        }
        draft.end(emptied(fields))
    }

    /// The fields that go, with this proxy's own among them.
    fn changed(&self, came: HeaderMap) -> HeaderMap {
        let mut fields = self.what_goes(came);
        self.own(|name, value, place| place.put(&mut fields, name, value));
        self.rewrite.apply(&mut fields);
        fields
    }

    fn what_goes(&self, came: HeaderMap) -> HeaderMap {
        let trusted = self.forwarding.trusts(self.peer.map(|peer| peer.ip));
        let named = nominated(&came, self.kept);
        let goes = |name: &HeaderName| {
            !is_hop_by_hop(name)
                && !is_built_anew(name)
                && !named.contains(name)
                && !is_answer_of_ours(name)
                && (trusted || !tells_of_client(name))
        };
        let mut others = came.keys().filter(|name| **name != header::HOST);
        if others.all(goes) { came } else { only(came, goes) }
    }

    /// What this proxy adds.
    fn own(&self, mut put: impl FnMut(&HeaderName, &HeaderValue, Place)) {
        self.forwarding.own(self.peer, self.addressed, &mut put);
        put(&header::VIA, &via(self.version), Place::AtEnd);
        // The client's own is this one, or is not taken over.
        put(&request_id::FIELD, &self.id.value(), Place::Instead);
    }
}

/// What is left of fields, in their order.
fn only(came: HeaderMap, goes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let room = came.keys_len() + OWN_FIELDS;
    let mut fields = HeaderMap::try_with_capacity(room).unwrap_or_default();
    let mut line_of = None;
    for (name, value) in came {
        // A further line of the same field comes without its name.
        if let Some(name) = name {
            line_of = Some(name).filter(|name| goes(name));
        }
        if let Some(name) = &line_of {
            fields.append(name, value);
        }
    }
    fields
}

/// Fields that are this proxy's own, whatever the client sent.
fn is_built_anew(name: &HeaderName) -> bool {
    [header::HOST, header::EXPECT, request_id::FIELD].contains(name)
}

/// What this proxy says to clients of the fence, which a client does not say to a store.
fn is_answer_of_ours(name: &HeaderName) -> bool {
    ["fencing-result", "fencing-highest", "fencing-outcome"].contains(&name.as_str())
}

/// Fields of which the store is not sent what the client sent: no key can be made of them.
pub(super) fn is_rewritten(name: &HeaderName) -> bool {
    [header::VIA, header::CONTENT_LENGTH].contains(name)
        || is_built_anew(name)
        || is_hop_by_hop(name)
        || tells_of_client(name)
}
