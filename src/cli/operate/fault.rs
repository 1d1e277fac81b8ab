//! Why a command failed: what happened, where, and what to do.

use std::io;

use http::StatusCode;
use serde::Deserialize;

use super::{
    super::{Exit, style::harmless},
    Target,
};

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// Found wrong before anybody was asked.
    Own { exit: Exit, what: String, remedy: String },
    /// No connection.
    Unreachable(io::Error),
    /// No whole answer in time.
    Silent,
    /// Whoever answers is no admin listener; what it answers instead.
    NotOurs(String),
    /// The proxy's own listener answers.
    Proxy,
    /// The admin listener refuses.
    Refused(Box<Refused>),
}

/// A problem document of the admin listener.
#[derive(Debug)]
pub(super) struct Refused {
    /// As it came.
    pub(super) document: String,
    problem: Problem,
}

#[derive(Debug, Deserialize)]
struct Problem {
    r#type: String,
    title: String,
    detail: String,
    code: String,
    key: Option<String>,
}

impl Refused {
    /// `None` where it is not one of ours.
    pub(super) fn read(document: String) -> Option<Box<Self>> {
        let problem: Problem = serde_json::from_str(&document).ok()?;
        let ours = problem.r#type.strip_prefix("urn:palisade:problem:")? == problem.code;
        ours.then(|| Box::new(Self { document, problem }))
    }
}

impl Fault {
    /// The command line is wrong.
    pub(super) fn usage(what: impl Into<String>, remedy: &str) -> Self {
        Self::Own { exit: Exit::Usage, what: what.into(), remedy: remedy.into() }
    }

    /// Something that is needed is not there.
    pub(super) fn failed(what: impl Into<String>, remedy: &str) -> Self {
        Self::Own { exit: Exit::Failed, what: what.into(), remedy: remedy.into() }
    }

    pub(super) fn not_ours(status: StatusCode) -> Self {
        Self::NotOurs(format!("it answers {status}, without a document of palisade's"))
    }

    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Own { exit, .. } => *exit,
            Self::Unreachable(_)
            | Self::Silent
            | Self::NotOurs(_)
            | Self::Proxy
            | Self::Refused(_) => Exit::Failed,
        }
    }

    /// For the operator, behind "error: ": two lines, or one where there is nothing to do.
    pub(super) fn words(&self, target: Option<&Target>) -> String {
        let place = target.map(|target| format!("{} ({})", target.url(), target.origin));
        let place = place.unwrap_or_default();
        let (what, remedy) = match self {
            Self::Own { what, remedy, .. } => (what.clone(), remedy.clone()),
            Self::Unreachable(error) => (
                format!("nothing answers at {place}: {}", reason(error)),
                "start `palisade serve`, or name its admin listener with --admin http://HOST:PORT"
                    .into(),
            ),
            Self::Silent => (
                format!("no whole answer within 30s from {place}"),
                "a change may have been made all the same: `palisade show UPSTREAM:KEY` tells"
                    .into(),
            ),
            Self::NotOurs(why) => (
                format!("{place} is no admin listener of palisade: {}", harmless(why)),
                "name it with --admin http://HOST:PORT; `serve` logs it as \"admin listening on\""
                    .into(),
            ),
            Self::Proxy => (
                format!("{place} is palisade's own proxy listener, not its admin listener"),
                "name that with --admin http://HOST:PORT; `serve` logs it as \"admin listening on\""
                    .into(),
            ),
            Self::Refused(refused) => refused.words(&place, target),
        };
        if remedy.is_empty() { what } else { format!("{what}\n  {remedy}") }
    }
}

/// What the system says, short and without its number.
pub(in crate::cli) fn reason(error: &io::Error) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the system has words for the others")]
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "no connection in time".to_owned(),
        _ => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            // A name that is not known has two sentences, the second one says it.
            let text = text.rsplit(": ").next().unwrap_or_default();
            let mut letters = text.chars();
            let first = letters.next().map(|first| first.to_ascii_lowercase());
            first.into_iter().chain(letters).collect()
        }
    }
}

impl Refused {
    fn words(&self, place: &str, target: Option<&Target>) -> (String, String) {
        let Problem { title, detail, code, key, .. } = &self.problem;
        let (title, detail) = (harmless(title), harmless(detail));
        let about = key.as_ref().map(|key| format!("{}: ", harmless(key))).unwrap_or_default();
        let what = match code.as_str() {
            "unauthenticated" => match target.and_then(|target| target.token.as_ref()) {
                Some(token) => format!("{place} does not take the token of {}", token.origin),
                None => format!("{place} wants a token, and none was given"),
            },
            // What the listener says of it is for who writes the request.
            "token-implausible" => format!("{about}the token is beyond what the routes allow"),
            "stale-token" => format!("{about}{detail}"),
            _ => format!("{about}{title}: {detail}"),
        };
        (format!("{what} ({code})"), remedy(code).to_owned())
    }
}

fn remedy(code: &str) -> &'static str {
    match code {
        "unauthenticated" => {
            "give the one of its [admin] token_file: --token-file FILE, or PALISADE_ADMIN_TOKEN"
        }
        "unknown-key" => "`palisade keys UPSTREAM:PREFIX` lists the keys that have a mark",
        "unknown-upstream" => "`palisade status` names the upstreams",
        "stale-token" => "a mark only goes up; `palisade reset` forgets it, once the key is quiet",
        "busy" => "`palisade show` says what is open; let it end, then try again",
        "token-implausible" => "if it is meant, --force sets max_jump and max_token aside",
        "shutting-down" => "nothing was changed; try again after the next start",
        "not-ready" => "nothing was changed; try again when it has started",
        "store-unavailable" => "look at palisade's log and at the disk under [store] path",
        "not-found" | "method-not-allowed" => {
            "is it of another version than this command? `palisade status` says which it is"
        }
        "internal-error" => "look at palisade's log, and please report it",
        _ => "",
    }
}
