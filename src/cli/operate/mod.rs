//! The operator's commands: they ask a running palisade through its admin listener.
//!
//! Each change is sent only to what has shown itself to be an admin listener: sent to the proxy's
//! own listener by mistake, it would be a write to the store.

mod change;
mod client;
mod document;
mod fault;
mod keys;
mod print;
mod target;
#[cfg(test)]
mod tests;

use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

pub(super) use change::{
    AdvanceArguments, ReleaseArguments, ResetArguments, advance, release, reset,
};
pub(super) use fault::reason;
pub(super) use keys::{KeysArguments, command as keys};

use self::{client::Client, document::Key, fault::Fault, target::Target};
use super::{ConfigArgument, Exit, terminal::Terminal};

/// Which admin listener, and what is printed.
#[derive(clap::Args, Debug)]
pub(super) struct Listener {
    /// The admin listener, http://HOST:PORT; without it the one of the configuration
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    admin: Option<String>,
    #[command(flatten)]
    config: ConfigArgument,
    /// A file with the bearer token; without it the variable `PALISADE_ADMIN_TOKEN`, else the
    /// configuration's `token_file`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON: the admin listener's own document
    #[arg(long)]
    json: bool,
}

/// `palisade status`.
#[derive(clap::Args, Debug)]
pub(super) struct StatusArguments {
    #[command(flatten)]
    listener: Listener,
}

/// `palisade show`.
#[derive(clap::Args, Debug)]
pub(super) struct ShowArguments {
    /// The key, written UPSTREAM:KEY
    #[arg(value_name = "UPSTREAM:KEY")]
    key: OsString,
    #[command(flatten)]
    listener: Listener,
}

pub(super) fn status(arguments: &StatusArguments, terminal: &mut Terminal<'_>) -> Exit {
    run(&arguments.listener, terminal, |client, terminal| {
        let answer = client.get("/v1/status")?;
        let status: document::Status = answer.read()?;
        let text = print::status(&status, client.target(), terminal.screen);
        shown(&arguments.listener, terminal, &answer, &text);
        Ok(())
    })
}

pub(super) fn show(arguments: &ShowArguments, terminal: &mut Terminal<'_>) -> Exit {
    run(&arguments.listener, terminal, |client, terminal| {
        let answer = client.get(&key_path(&arguments.key)?)?;
        let key: Key = answer.read()?;
        shown(&arguments.listener, terminal, &answer, &print::key(&key, terminal.screen));
        Ok(())
    })
}

/// Finds the listener, lets a command ask it, and says what went wrong.
fn run(
    listener: &Listener,
    terminal: &mut Terminal<'_>,
    command: impl FnOnce(&Client, &mut Terminal<'_>) -> Result<(), Fault>,
) -> Exit {
    let client = match Target::find(listener).and_then(Client::new) {
        Ok(client) => client,
        Err(fault) => return failed(listener, terminal, &fault, None),
    };
    match command(&client, terminal) {
        Ok(()) => Exit::Done,
        Err(fault) => failed(listener, terminal, &fault, Some(client.target())),
    }
}

fn failed(
    listener: &Listener,
    terminal: &mut Terminal<'_>,
    fault: &Fault,
    target: Option<&Target>,
) -> Exit {
    if let (true, Fault::Refused(refused)) = (listener.json, fault) {
        terminal.say(&refused.document);
    }
    terminal.error(&fault.words(target));
    fault.exit()
}

fn shown(listener: &Listener, terminal: &mut Terminal<'_>, answer: &client::Answer, text: &str) {
    terminal.say(if listener.json { &answer.body } else { text });
}

/// The path of a key, checked as far as it can be without asking.
fn key_path(key: &OsStr) -> Result<String, Fault> {
    if !key.as_bytes().contains(&b':') {
        let what = format!("{}: a key is written UPSTREAM:KEY", key.display());
        return Err(Fault::usage(what, "`palisade status` names the upstreams"));
    }
    Ok(format!("/v1/keys/{}", encoded(key.as_bytes())))
}

/// Percent-encoded, so that it is one segment of a path, and one value of a query.
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}
