//! A request as it goes upstream: HTTP/1.1, whatever it came by.
//!
//! It owns what goes on: the target byte by byte as it came, one Host, the client's fields in their
//! order, then what this proxy says of the client and of itself. The framing is made anew by the
//! connection (`upstream`). What came by HTTP/1.1 and by HTTP/2 goes on as the same bytes, but for
//! the version in `Via`.

#[cfg(test)]
mod tests;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header,
    request::Parts,
    uri::{self, PathAndQuery},
};

use super::{
    Forwarding, Rewrite,
    authority::Addressed,
    call::Call,
    forwarding::{add_via, tells_of_client},
    headers::{is_hop_by_hop, nominated},
    hop::{Hop, Remote},
    plan::Plan,
    request_id::{self, RequestId},
    route::Route,
};

/// The most fields that this proxy adds by itself.
const OWN_FIELDS: usize = 8;

/// The request as it goes upstream; `host` is the upstream's own Host, where it has one.
pub(super) fn outgoing<B>(
    head: Parts,
    plan: &Plan,
    call: &Call,
    route: &Route,
    host: Option<&HeaderValue>,
    body: B,
) -> Request<B> {
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
    /// With none but usual fields, of which each goes on.
    usual: bool,
    peer: Option<Remote<'a>>,
}

impl Outbound<'_> {
    fn request<B>(&self, method: Method, came: HeaderMap, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.origin_form();
        *request.headers_mut() = self.fields(came);
        request
    }

    fn origin_form(&self) -> Uri {
        let mut parts = uri::Parts::default();
        parts.path_and_query = Some(self.target.clone());
        // A path and a query alone are always a URI.
        Uri::from_parts(parts).unwrap_or_default()
    }

    /// The client's own map, where nothing is to be taken out of it, as with most.
    fn fields(&self, came: HeaderMap) -> HeaderMap {
        let host_first = came.keys().next() == Some(&header::HOST);
        let mut fields = if self.usual && host_first { came } else { self.what_goes(came) };
        fields.insert(header::HOST, self.host.clone());
        self.add_own(&mut fields);
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
        let mut names = came.keys();
        let whole = names.next() == Some(&header::HOST) && names.all(goes);
        if whole { came } else { only(came, goes) }
    }

    fn add_own(&self, fields: &mut HeaderMap) {
        self.forwarding.add(fields, self.peer, self.addressed);
        add_via(fields, self.version);
        fields.insert(request_id::FIELD, self.id.value());
        self.rewrite.apply(fields);
    }
}

/// What is left of fields, in their order.
fn only(came: HeaderMap, goes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let room = came.keys_len() + OWN_FIELDS;
    let mut fields = HeaderMap::try_with_capacity(room).unwrap_or_default();
    // Its place: it stands first (RFC 9110 section 7.2).
    fields.insert(header::HOST, HeaderValue::from_static(""));
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
