//! `palisade keys`: page by page, so that millions of keys need no more memory than a page.

use std::{
    ffi::OsString,
    io::{self, Write},
    os::unix::ffi::OsStrExt,
};

use serde::Deserialize;
use serde_json::Value;

use super::{
    Fault, Listener,
    client::Client,
    document::{Page, Record},
    encoded,
    print::{counted, yes_or_no},
    run,
};
use crate::cli::{
    Exit, say,
    style::harmless,
    table::Table,
    terminal::{Screen, Terminal},
};

/// Most keys of one page of the admin listener.
const PAGE: u64 = 1000;

/// `palisade keys`.
#[derive(clap::Args, Debug)]
pub(in crate::cli) struct KeysArguments {
    /// What the keys start with, written UPSTREAM:KEY; all keys without it
    prefix: Option<OsString>,
    /// Most keys that are printed
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Print every key
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    #[command(flatten)]
    listener: Listener,
}

pub(in crate::cli) fn command(arguments: &KeysArguments, terminal: &mut Terminal<'_>) -> Exit {
    run(&arguments.listener, terminal, |client, terminal| {
        let mut printer = Printer::new(arguments.listener.json, terminal.screen);
        let mut left = if arguments.all { u64::MAX } else { arguments.limit };
        let mut after = None;
        loop {
            let page = page(client, arguments, left.min(PAGE), after.as_deref())?;
            left = left.saturating_sub(page.keys.len() as u64);
            after = page.next;
            let written = printer.page(terminal.out, &page.keys)?;
            if written.is_err() {
                // Whoever read has left.
                return Ok(());
            }
            if after.is_none() || left == 0 {
                break;
            }
        }
        printer.end(terminal, after.as_deref());
        Ok(())
    })
}

fn page(
    client: &Client,
    arguments: &KeysArguments,
    limit: u64,
    after: Option<&str>,
) -> Result<Page, Fault> {
    let mut path = format!("/v1/keys?limit={limit}");
    if let Some(prefix) = &arguments.prefix {
        path.push_str("&prefix=");
        path.push_str(&encoded(prefix.as_bytes()));
    }
    if let Some(after) = after {
        path.push_str("&after=");
        path.push_str(&encoded(after.as_bytes()));
    }
    client.get(&path)?.read()
}

/// Prints what it is given at once.
pub(super) struct Printer {
    json: bool,
    table: Table,
    printed: u64,
}

impl Printer {
    pub(super) fn new(json: bool, screen: Screen) -> Self {
        let table = Table::new(["KEY", "TOKEN", "CONTESTED", "HOLDER"], screen);
        Self { json, table, printed: 0 }
    }

    pub(super) fn page(
        &mut self,
        out: &mut dyn Write,
        keys: &[Value],
    ) -> Result<io::Result<()>, Fault> {
        let text = if self.json { self.members(keys) } else { self.rows(keys)? };
        self.printed += keys.len() as u64;
        Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
    }

    /// The one document that all pages make.
    fn members(&self, keys: &[Value]) -> String {
        let mut text = String::new();
        for (place, key) in keys.iter().enumerate() {
            let first = self.printed == 0 && place == 0;
            text.push_str(if first { "{\"keys\":[" } else { "," });
            text.push_str(&key.to_string());
        }
        text
    }

    fn rows(&mut self, keys: &[Value]) -> Result<String, Fault> {
        if keys.is_empty() {
            return Ok(String::new());
        }
        let mut rows = Vec::with_capacity(keys.len());
        for key in keys {
            let record =
                Record::deserialize(key).map_err(|error| Fault::NotOurs(error.to_string()))?;
            rows.push(row(&record));
        }
        Ok(self.table.lines(&rows))
    }

    /// What is no part of the listing goes to the other stream.
    pub(super) fn end(&self, terminal: &mut Terminal<'_>, next: Option<&str>) {
        if self.json {
            let start = if self.printed == 0 { "{\"keys\":[" } else { "" };
            terminal.say(&format!("{start}],\"next\":{}}}\n", Value::from(next)));
        } else if self.printed == 0 {
            say(terminal.err, "no keys\n");
        } else if next.is_some() {
            let note = "more follow: --limit N prints more, --all every one";
            let note = format!("{}; {note}\n", counted(self.printed, "key"));
            say(terminal.err, &terminal.err_screen.message(&note));
        }
    }
}

fn row(record: &Record) -> Vec<String> {
    let word = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), harmless);
    vec![
        harmless(&record.key),
        word(&record.mark.token),
        yes_or_no(record.mark.contested),
        word(&record.mark.holder),
    ]
}
