//! What would be done with a request, from its head alone: for people who ask, not for traffic.
//!
//! It owns no rule: it reads a head as the service does, and keeps what was found on the way even
//! where the head is refused. It never asks the gate, opens no store and sends nothing.

use std::sync::Arc;

use http::{header, request::Parts};

use super::{
    Found, RouteTable, Shared,
    authority::Addressed,
    call::Call,
    classify::Action,
    hop::Hop,
    lines::{Fields, Lines},
    plan::{Plan, Source},
    refusal::Refusal,
    target::Target,
};
use crate::fence::{Key, Token};

/// What a head says, and what is refused of it.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The place of the route that takes it; `None` where none does.
    pub route: Option<usize>,
    /// The other routes that match its path, and why each does not take it; as they are tried.
    pub beside: Vec<(usize, Beside)>,
    /// `UPSTREAM:KEY`; `None` where it has no key for certain.
    pub key: Option<String>,
    /// What it is; `None` where it was refused before that was known.
    pub action: Option<Action>,
    /// The token that it carries.
    pub token: Option<Token>,
    /// Why it is refused; `None`: it is read, or offered to the fence.
    pub refusal: Option<Refusal>,
    /// On a route that does not enforce: why its token field would have been refused.
    pub would_refuse: Option<Refusal>,
}

/// Why a route that matches the path does not take a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Beside {
    /// It is for other hosts.
    OtherHost,
    /// It is for other methods.
    OtherMethod,
    /// Another route is tried before it.
    TriedLater,
}

impl Preview {
    /// Reads a head; `ended` where no body follows it. Only the routes and the gate's names are
    /// looked at.
    pub fn of(shared: &Arc<Shared>, head: &Parts, ended: bool) -> Self {
        let fields = Fields::of(&head.headers);
        let mut call = Call::new(Arc::clone(shared), None, head.version, fields.unusual);
        let (refusal, would_refuse) = match Plan::of(shared, head, &fields, ended, &mut call) {
            Ok(plan) => (None, plan.intent.would_refuse),
            Err(refusal) => (Some(refusal), None),
        };
        let key = match refusal {
            Some(Refusal::TargetAmbiguous(_) | Refusal::NotFenceable(_)) => None,
            _ => call.key.clone().or_else(|| key(head, &call)),
        };
        Self {
            route: call.route,
            beside: beside(&shared.routes, head, call.route),
            key: key.map(|key| shared.gate.display(&key)),
            action: call.action,
            token: call.token,
            refusal,
            would_refuse,
        }
    }
}

/// The key that a request has even where the service had no need of it: a read without a token, or
/// a write that was refused for its token field.
fn key(head: &Parts, call: &Call) -> Option<Key> {
    let (target, addressed) = read(head)?;
    let routes = &call.shared.routes;
    let found = routes.find(addressed.host(), &head.method, target.path());
    let Found::Route(at, captures) = found else { return None };
    let source = Source { target: &target, addressed: &addressed, headers: &head.headers };
    source.key(routes.get(at)?, &captures, call).ok().flatten()
}

fn beside(routes: &RouteTable, head: &Parts, taken: Option<usize>) -> Vec<(usize, Beside)> {
    let Some((target, addressed)) = read(head) else { return Vec::new() };
    let others = routes.order().iter().filter(|at| Some(**at) != taken);
    let why = |at: &usize| {
        let route = routes.get(*at)?;
        route.pattern.matches(target.path())?;
        let why = if !route.takes_host(addressed.host()) {
            Beside::OtherHost
        } else if !route.takes(&head.method) {
            Beside::OtherMethod
        } else {
            Beside::TriedLater
        };
        Some((*at, why))
    };
    others.filter_map(why).collect()
}

fn read(head: &Parts) -> Option<(Target, Addressed)> {
    let target = Target::read(&head.uri).ok()?;
    let (host, hop) = (Lines::of(&head.headers, &header::HOST), Hop::default());
    let addressed = Addressed::read(host, &head.uri, head.version, hop).ok()?;
    Some((target, addressed))
}
