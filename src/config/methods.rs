//! A route's `methods`, `reads` and `writes`.

use http::Method;

use super::{
    defaults,
    error::Wrong,
    raw::{Placed, Section},
};

/// What a route serves, and as what.
pub(super) struct Methods {
    /// Empty for every method.
    pub(super) narrowed: Vec<Method>,
    pub(super) reads: Vec<Method>,
    pub(super) writes: Vec<Method>,
    pub(super) check_reads: bool,
}

/// They change, or lock, more than their path names (R6), or give it another meaning.
const MANY: [&str; 19] = [
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKWORKSPACE",
    "MOVE",
    "REBIND",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
];

/// Writes by their own meaning: as reads they would pass every fence.
const ONLY_WRITES: [&str; 5] = ["DELETE", "MKCOL", "PATCH", "PROPPATCH", "PUT"];

/// Reads by their own meaning, and what a claim comes with.
const ONLY_READS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

pub(super) fn read(section: &mut Section<'_>) -> Methods {
    let methods = section.texts("methods", method).map(values);
    if methods.as_ref().is_some_and(Vec::is_empty) {
        let remedy = "leave it out for all methods, or name some";
        section.error("methods", Wrong::new("it is empty", remedy));
    }
    let check_reads = section.has("reads") && !section.is_list("reads");
    let default = |names: &[&str]| names.iter().filter_map(|name| method(name).ok()).collect();
    let reads = if check_reads {
        let words = [("check", ())];
        section.word("reads", &words, ());
        None
    } else {
        section.texts("reads", read_method).map(values)
    };
    let writes = section.texts("writes", write_method).map(values);
    let found = Methods {
        narrowed: methods.unwrap_or_default(),
        reads: reads.unwrap_or_else(|| default(&defaults::READS)),
        writes: writes.unwrap_or_else(|| default(&defaults::WRITES)),
        check_reads,
    };
    found.check(section);
    found
}

impl Methods {
    fn check(&self, section: &mut Section<'_>) {
        if let Some(both) = self.reads.iter().find(|method| self.writes.contains(method)) {
            let key = if section.has("reads") { "reads" } else { "writes" };
            let what = format!("\"{both}\" is among the route's reads and its writes");
            section.error(key, Wrong::new(what, "list both, each method in one of them"));
        }
        if self.reads.is_empty() && self.writes.is_empty() {
            let wrong =
                Wrong::new("the route has neither reads nor writes", "name some, or remove it");
            section.error("writes", wrong);
        }
        let served = |method: &&Method| self.reads.contains(method) || self.writes.contains(method);
        for method in self.narrowed.iter().filter(|method| !served(method)) {
            let what = format!("\"{method}\" is neither among the route's reads nor its writes");
            section.error("methods", Wrong::new(what, "add it to one of them, or remove it here"));
        }
    }
}

fn values(found: Vec<Placed<Method>>) -> Vec<Method> {
    let mut methods = Vec::new();
    for Placed { value, .. } in found {
        if !methods.contains(&value) {
            methods.push(value);
        }
    }
    methods
}

fn method(text: &str) -> Result<Method, Wrong> {
    let wrong = |what: &str, remedy: &str| Err(Wrong::new(format!("\"{text}\" {what}"), remedy));
    let method = match Method::from_bytes(text.as_bytes()) {
        Ok(method) if text.len() <= 32 => method,
        _ => return wrong("is no method", "write it like \"PUT\""),
    };
    match text {
        _ if text.bytes().any(|b| b.is_ascii_lowercase()) => {
            wrong("has small letters, and methods are told apart by them", "write it in capitals")
        }
        "CONNECT" | "TRACE" => wrong("is never served", "remove it"),
        _ if MANY.contains(&text) => wrong(
            "touches more than its path names",
            "remove it; this version has no dialect for it",
        ),
        _ => Ok(method),
    }
}

fn read_method(text: &str) -> Result<Method, Wrong> {
    if ONLY_WRITES.contains(&text) {
        let what = format!("\"{text}\" is a write, and as a read it would pass every fence");
        return Err(Wrong::new(what, "list it under writes"));
    }
    method(text)
}

fn write_method(text: &str) -> Result<Method, Wrong> {
    if ONLY_READS.contains(&text) {
        return Err(Wrong::new(format!("\"{text}\" is a read"), "list it under reads"));
    }
    method(text)
}
