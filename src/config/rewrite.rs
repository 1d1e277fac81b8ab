//! `set_headers` and `remove_headers` of a route.

use http::{HeaderName, HeaderValue};

use super::{
    error::Wrong,
    raw::{Placed, Section},
    upstreams::Upstream,
};
use crate::{proxy::Rewrite, upstream::Kind};

/// Fields that a route may set, and that it may remove.
const MOST: usize = 32;

/// `token_headers` are the route's.
pub(super) fn read(
    section: &mut Section<'_>,
    upstream: Option<&Upstream>,
    token_headers: &[HeaderName],
) -> Rewrite {
    if upstream.is_some_and(|up| matches!(up.options.kind, Kind::Files { .. })) {
        section.refuse(&["remove_headers", "set_headers"], "for a directory");
    }
    let name = |text: &str| {
        let name = field_name(text)?;
        if token_headers.contains(&name) {
            return Err(taken(text, "carries the token"));
        }
        let part = format!("header.{name}");
        if upstream.is_some_and(|upstream| upstream.honours.contains(&part)) {
            return Err(taken(text, "tells the store's objects apart (store_honours)"));
        }
        Ok(name)
    };
    let set = section.pairs("set_headers", |text, value| Ok((name(text)?, field_value(value)?)));
    let remove = section.texts("remove_headers", name).map(names).unwrap_or_default();
    let set = set.map(names).unwrap_or_default();
    check_once(section, "set_headers", set.iter().map(|(name, _)| name), &[]);
    check_once(section, "remove_headers", remove.iter(), &set);
    Rewrite::new(set, remove)
}

fn field_name(text: &str) -> Result<HeaderName, Wrong> {
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
        Wrong::new(format!("\"{text}\" is no field name"), "write it like \"X-Store-Key\"")
    })?;
    match Rewrite::forbids(&name) {
        Some(why) => Err(taken(text, why)),
        None => Ok(name),
    }
}

fn taken(text: &str, why: &str) -> Wrong {
    Wrong::new(format!("\"{text}\" {why}"), "leave it as it is; no route may change it")
}

/// Not repeated in a mistake: it may be a credential.
fn field_value(text: &str) -> Result<HeaderValue, Wrong> {
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    match HeaderValue::from_str(text) {
        Ok(value) if plain && !text.is_empty() && text.trim() == text => Ok(value),
        _ => Err(Wrong::new(
            "its value is no field value",
            "write visible ASCII, with blanks only in between",
        )),
    }
}

fn names<T>(found: Vec<Placed<T>>) -> Vec<T> {
    found.into_iter().map(|found| found.value).collect()
}

fn check_once<'n>(
    section: &mut Section<'_>,
    key: &'static str,
    names: impl Iterator<Item = &'n HeaderName>,
    set: &[(HeaderName, HeaderValue)],
) {
    let names: Vec<_> = names.collect();
    if names.len() > MOST {
        section.error(key, Wrong::new("it has more than 32 names", "keep 32 of them"));
    }
    let twice = |at: &usize| {
        names[..*at].contains(&names[*at]) || set.iter().any(|(name, _)| name == names[*at])
    };
    if let Some(at) = (0..names.len()).find(twice) {
        let what = format!("\"{}\" stands twice", names[at]);
        section.error(key, Wrong::new(what, "set or remove each field once"));
    }
}
