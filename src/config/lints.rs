//! What is allowed and should be known: the warnings of `check`, and of every start.

use super::{
    cross::ip_of, error::Warning, routes::RouteAt, upstreams::Upstream, url::written_address,
    values::written_duration,
};
use crate::{
    gate::Mode,
    proxy::{Route, RouteTable},
    upstream::Kind,
};

/// The lines of routes, kept while the routes themselves go into the table.
pub(super) fn lines(routes: &[RouteAt]) -> Vec<usize> {
    routes.iter().map(|route| route.line).collect()
}

/// All warnings, in the file's order; `certificates` are those of `[server] tls`, with their lines.
pub(super) fn warnings(
    file: &str,
    certificates: Vec<(usize, String)>,
    upstreams: &[Upstream],
    table: &RouteTable,
    lines: &[usize],
) -> Vec<Warning> {
    let mut found = certificates;
    for (at, upstream) in upstreams.iter().enumerate() {
        let unused = unused(upstream, at, table);
        let texts = [lifetime(upstream), settled(upstream), plain(upstream), unused];
        found.extend(texts.into_iter().flatten().map(|text| (upstream.line, text)));
    }
    let line = |at: usize| lines.get(at).copied().unwrap_or(1);
    for (at, route) in table.routes().iter().enumerate() {
        found.extend(unfenced(route).map(|text| (line(at), text)));
    }
    for at in table.shadowed() {
        found.extend(table.get(at).map(|route| (line(at), shadowed(route))));
    }
    found.sort_by_key(|(line, _)| *line);
    let warning = |(line, text)| Warning { file: file.to_owned(), line, text };
    found.into_iter().map(warning).collect()
}

fn unfenced(route: &Route) -> Option<String> {
    let why = match route.policy.mode {
        Mode::Off => "token = \"off\" fences nothing",
        _ if !route.policy.enforce => "enforce = false refuses nothing",
        Mode::Sticky => {
            return Some(format!(
                "the promise holds for keys of \"{}\" from their first token on only: token = \
                 \"sticky\"",
                route.path
            ));
        }
        Mode::Required => return None,
    };
    Some(format!("the promise does not hold for keys of \"{}\": {why}", route.path))
}

fn shadowed(route: &Route) -> String {
    format!(
        "no request reaches \"{}\": other routes of the same paths take each of its methods; remove it",
        route.path
    )
}

fn lifetime(upstream: &Upstream) -> Option<String> {
    let options = &upstream.options;
    let server = !matches!(options.kind, Kind::Files { .. });
    (server && options.max_write_lifetime < options.response_timeout).then(|| {
        format!(
            "upstream \"{}\": max_write_lifetime ({}) is shorter than response_timeout ({}); a store \
             that may take so long to answer may take as long to apply a write that was cut",
            options.name,
            written_duration(options.max_write_lifetime),
            written_duration(options.response_timeout),
        )
    })
}

/// A gateway in between says these while the store behind it still works on the write (R4).
fn settled(upstream: &Upstream) -> Option<String> {
    let risky = |status: &&u16| matches!(**status, 202 | 408 | 500 | 502..=504);
    let status = upstream.options.settled_statuses.iter().find(risky)?;
    Some(format!(
        "upstream \"{}\": settled_statuses has {status}, which a gateway may send while the store \
         still holds the write; keep it only if nothing stands in between",
        upstream.options.name
    ))
}

/// Writes and outcomes cross a network that may belong to others. A name may mean any machine.
fn plain(upstream: &Upstream) -> Option<String> {
    let Kind::Http { host, port } = &upstream.options.kind else { return None };
    let here = ip_of(host).is_some_and(|ip| ip.to_canonical().is_loopback());
    (upstream.options.tls.is_none() && !here).then(|| {
        format!(
            "upstream \"{}\": plain HTTP to {}: whoever is on the way can read and change writes, \
             and forge the answers that outcomes are told from; use https",
            upstream.options.name,
            written_address(host, *port).trim_start_matches("http://"),
        )
    })
}

fn unused(upstream: &Upstream, place: usize, table: &RouteTable) -> Option<String> {
    let used = table.routes().iter().any(|route| route.upstream == place);
    (!used).then(|| format!("upstream \"{}\": no route names it", upstream.options.name))
}
