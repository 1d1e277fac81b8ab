//! `palisade advance`, `release` and `reset` (R12).

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use serde_json::json;

use super::{Fault, Listener, document, key_path, print, run, shown};
use crate::{
    cli::{Exit, say, terminal::Terminal},
    fence::Token,
};

/// `palisade advance`.
#[derive(clap::Args, Debug)]
pub(in crate::cli) struct AdvanceArguments {
    /// The key, written UPSTREAM:KEY
    #[arg(value_name = "UPSTREAM:KEY")]
    key: OsString,
    /// The token that becomes the highest one seen
    token: String,
    #[command(flatten)]
    reason: Reason,
    /// Set the routes' `max_jump` and `max_token` aside
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    listener: Listener,
}

/// `palisade release`.
#[derive(clap::Args, Debug)]
pub(in crate::cli) struct ReleaseArguments {
    /// The key, written UPSTREAM:KEY
    #[arg(value_name = "UPSTREAM:KEY")]
    key: OsString,
    /// You vouch for it: if the store applies a write that is in doubt, the promise is broken
    #[arg(long = "i-know-the-store-will-not-apply-it", required = true)]
    confirmed: bool,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    listener: Listener,
}

/// `palisade reset`.
#[derive(clap::Args, Debug)]
pub(in crate::cli) struct ResetArguments {
    /// The key, written UPSTREAM:KEY
    #[arg(value_name = "UPSTREAM:KEY")]
    key: OsString,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    listener: Listener,
}

#[derive(clap::Args, Debug)]
struct Reason {
    /// Why: it goes into the log with who and what
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Reason {
    fn text(&self) -> Result<&str, Fault> {
        match self.reason.trim() {
            "" => Err(Fault::usage("--reason is empty", "say why: it goes into the log")),
            text => Ok(text),
        }
    }
}

pub(in crate::cli) fn advance(arguments: &AdvanceArguments, terminal: &mut Terminal<'_>) -> Exit {
    run(&arguments.listener, terminal, |client, terminal| {
        let path = key_path(&arguments.key)? + "/advance";
        let token = Token::parse(arguments.token.as_bytes(), true).map_err(|error| {
            let what = format!("{}: {error}", arguments.token);
            Fault::usage(what, "a token is a number as the lock service hands it out")
        })?;
        let document = json!({
            "token": token.to_string(),
            "reason": arguments.reason.text()?,
            "force": arguments.force,
        });
        let answer = client.post(&path, document.to_string())?;
        let done: document::Advanced = answer.read()?;
        shown(&arguments.listener, terminal, &answer, &print::advanced(&done, terminal.screen));
        if !may_be_a_path(arguments.key.as_bytes()) {
            let text = "no path has this key: a path's key is written decoded and without its first \
                        slash; `palisade explain PUT URL` prints the key of a request";
            say(terminal.err, &(terminal.err_screen.warning(text) + "\n"));
        }
        Ok(())
    })
}

/// Whether a path can be all of a key. A route's own template may make others, so that this is no
/// more than a hint; but a key that is advanced by mistake leaves the right one as it was.
fn may_be_a_path(key: &[u8]) -> bool {
    let colon = key.iter().position(|byte| *byte == b':').unwrap_or_default();
    let path = key.get(colon + 1..).unwrap_or_default();
    let escapes = |three: &[u8]| three[0] == b'%' && three[1..].iter().all(u8::is_ascii_hexdigit);
    let segment = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    path.split(|byte| *byte == b'/').all(segment) && !path.windows(3).any(escapes)
}

pub(in crate::cli) fn release(arguments: &ReleaseArguments, terminal: &mut Terminal<'_>) -> Exit {
    run(&arguments.listener, terminal, |client, terminal| {
        let path = key_path(&arguments.key)? + "/release";
        let document = json!({
            "reason": arguments.reason.text()?,
            "i_know_the_store_will_not_apply_it": arguments.confirmed,
        });
        let answer = client.post(&path, document.to_string())?;
        let done: document::Released = answer.read()?;
        shown(&arguments.listener, terminal, &answer, &print::released(&done));
        Ok(())
    })
}

pub(in crate::cli) fn reset(arguments: &ResetArguments, terminal: &mut Terminal<'_>) -> Exit {
    run(&arguments.listener, terminal, |client, terminal| {
        let path = key_path(&arguments.key)? + "/reset";
        let document = json!({"reason": arguments.reason.text()?});
        let answer = client.post(&path, document.to_string())?;
        let done: document::Reset = answer.read()?;
        shown(&arguments.listener, terminal, &answer, &print::reset(&done));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_no_path_has_is_known_by_its_looks() {
        for key in ["a:b", "a:reports/july.txt", "a:100%", "a:b:c", "a:%zz", "a:\u{fc}/ x"] {
            assert!(may_be_a_path(key.as_bytes()), "{key}");
        }
        for key in ["a:", "a:/b", "a:b/", "a:b//c", "a:../b", "a:b/./c", "a:b%2fc", "a:%FF"] {
            assert!(!may_be_a_path(key.as_bytes()), "{key}");
        }
    }
}
