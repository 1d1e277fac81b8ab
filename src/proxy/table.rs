//! Which route a request takes.
//!
//! It owns the order in which routes are tried and the rules that hold among them: none like
//! another, and one path, one key (R11). A table that breaks them cannot be made. It never looks at
//! tokens or bodies.

use std::cmp::Ordering;

use http::Method;

use super::{Captures, Route};

#[cfg(test)]
pub(super) mod tests;

/// All routes, in an order that is checked to be sound.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    routes: Vec<Route>,
    order: Vec<usize>,
}

/// What a table has for a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    /// The route's place, as [`RouteTable::get`] takes it, and what its pattern captured.
    Route(usize, Captures),
    /// Routes match path and host, and every one narrows its methods to others: those they serve.
    MethodNotAllowed {
        /// For `Allow`, each once.
        allow: Vec<Method>,
    },
    /// No route names the path.
    NoRoute,
}

/// Two routes, by their places in the configuration, that cannot stand beside each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TableError {
    /// Same pattern, a host and a method in common: neither goes before the other.
    Alike(usize, usize),
    /// R11: a path of one upstream could get two keys.
    KeysDiffer(usize, usize),
}

impl RouteTable {
    /// Puts routes, given in the configuration's order, in the order in which they are tried: the
    /// most specific pattern, then narrowed by host before not, then narrowed by methods before
    /// not, then as given.
    ///
    /// # Errors
    /// Every pair of routes that breaks a rule.
    pub fn new(routes: Vec<Route>) -> Result<Self, Vec<TableError>> {
        let errors = conflicts(&routes);
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut order: Vec<usize> = (0..routes.len()).collect();
        order.sort_by(|one, two| first(&routes[*one], &routes[*two]));
        Ok(Self { routes, order })
    }

    /// The route of a request: `host` as [`host_name`] gives it, `path` decoded and starting with a
    /// slash.
    pub fn find(&self, host: &[u8], method: &Method, path: &[u8]) -> Found {
        let mut allow: Option<Vec<Method>> = None;
        for &at in &self.order {
            let route = &self.routes[at];
            let Some(captures) = route.pattern.matches(path).filter(|_| route.takes_host(host))
            else {
                continue;
            };
            if route.takes(method) {
                return Found::Route(at, captures);
            }
            let known = allow.get_or_insert_default();
            let more: Vec<Method> = route.allow().filter(|m| !known.contains(m)).cloned().collect();
            known.extend(more);
        }
        allow.map_or(Found::NoRoute, |allow| Found::MethodNotAllowed { allow })
    }

    /// The route at a place, `None` where there is none.
    pub fn get(&self, at: usize) -> Option<&Route> {
        self.routes.get(at)
    }

    /// All routes in the configuration's order.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The places of routes in the order in which they are tried.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Routes that no request can reach: others of the same pattern take each of their methods.
    pub fn shadowed(&self) -> Vec<usize> {
        let is_shadowed = |place: usize| {
            let route = &self.routes[self.order[place]];
            let earlier = || self.order[..place].iter().map(|at| &self.routes[*at]);
            let taken = |method: &Method| earlier().any(|other| covers(other, route, method));
            route.allow().all(taken)
        };
        let mut places: Vec<usize> = (0..self.order.len())
            .filter(|place| is_shadowed(*place))
            .map(|at| self.order[at])
            .collect();
        places.sort_unstable();
        places
    }
}

/// A host as sent by a client, without its port, the brackets of an IPv6 address kept.
pub fn host_name(host: &str) -> &str {
    let name = match host.rfind(':') {
        Some(colon) if !host[colon..].contains(']') => &host[..colon],
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn conflicts(routes: &[Route]) -> Vec<TableError> {
    let forms: Vec<_> = routes.iter().map(Route::key_form).collect();
    let mut errors = Vec::new();
    for (two, later) in routes.iter().enumerate() {
        for (one, earlier) in routes[..two].iter().enumerate() {
            if alike(earlier, later) {
                errors.push(TableError::Alike(one, two));
            } else if earlier.upstream == later.upstream && !forms[one].agrees(&forms[two]) {
                errors.push(TableError::KeysDiffer(one, two));
            }
        }
    }
    errors
}

fn alike(one: &Route, two: &Route) -> bool {
    one.pattern.by_specificity(&two.pattern) == Ordering::Equal
        && share(&one.hosts, &two.hosts)
        && share(&one.methods, &two.methods)
}

/// Whether two narrowings meet on one level: both absent, or with a member in common.
fn share<T: PartialEq>(one: &[T], two: &[T]) -> bool {
    one.is_empty() && two.is_empty() || one.iter().any(|member| two.contains(member))
}

fn first(one: &Route, two: &Route) -> Ordering {
    one.pattern
        .by_specificity(&two.pattern)
        .then(one.hosts.is_empty().cmp(&two.hosts.is_empty()))
        .then(one.methods.is_empty().cmp(&two.methods.is_empty()))
}

fn covers(earlier: &Route, route: &Route, method: &Method) -> bool {
    let hosts = earlier.hosts.is_empty()
        || !route.hosts.is_empty()
            && route.hosts.iter().all(|host| earlier.takes_host(host.as_bytes()));
    let paths = earlier.pattern.by_specificity(&route.pattern) == Ordering::Equal;
    paths && hosts && earlier.takes(method)
}
