//! `palisade man`: the manual pages, made from what the commands themselves say.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use super::{Exit, Palisade, operate::reason, say, terminal::Terminal};

#[derive(clap::Args, Debug)]
pub(super) struct Arguments {
    /// Write a page for each command into this directory, instead of the first one to the output
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(super) fn command(arguments: &Arguments, terminal: &mut Terminal<'_>) -> Exit {
    let pages = pages();
    let Some(directory) = &arguments.directory else {
        say(terminal.out, pages.first().map_or("", |page| page.text.as_str()));
        return Exit::Done;
    };
    match write(directory, &pages) {
        Ok(()) => Exit::Done,
        Err(error) => {
            let (place, why) = (directory.display(), reason(&error));
            let remedy = "name a directory that exists and may be written to";
            terminal.error(&format!("no pages in {place}: {why}; {remedy}"));
            Exit::Failed
        }
    }
}

struct Page {
    name: String,
    text: String,
}

/// The page of the program, then one for each command.
fn pages() -> Vec<Page> {
    let mut palisade = Palisade::command().disable_help_subcommand(true);
    palisade.build();
    let commands: Vec<Command> = palisade.get_subcommands().cloned().collect();
    std::iter::once(palisade).chain(commands).map(page).collect()
}

fn page(command: Command) -> Page {
    let name = command.get_display_name().unwrap_or("palisade").to_owned();
    let main = name == "palisade";
    let man = Man::new(command).manual("Palisade").source(source());
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = render(&man, main, &mut text);
    Page { name: format!("{name}.1"), text: String::from_utf8_lossy(&text).into_owned() }
}

fn source() -> String {
    format!("palisade {}", env!("CARGO_PKG_VERSION"))
}

fn render(man: &Man, main: bool, to: &mut dyn io::Write) -> io::Result<()> {
    man.render_title(to)?;
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    man.render_options_section(to)?;
    if main {
        man.render_subcommands_section(to)?;
        section("FILES", &FILES).to_writer(to)?;
        section("ENVIRONMENT", &ENVIRONMENT).to_writer(to)?;
        section("SIGNALS", &SIGNALS).to_writer(to)?;
    }
    section("EXIT STATUS", &EXITS).to_writer(to)
}

/// A list of terms, each with what it means.
fn section(title: &str, terms: &[(&str, &str)]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (term, meaning) in terms {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*meaning)]);
    }
    roff
}

const FILES: [(&str, &str); 3] = [
    (
        "config/palisade.toml",
        "the configuration that is read where --config names none; without it, a built-in one: a \
         file store in ./data",
    ),
    (
        "[store] path",
        "a directory with the highest token of each key. Who loses it loses the promise: back it \
         up with the process stopped, and never bring an older copy back",
    ),
    (
        "[admin] token_file",
        "the bearer token of the admin listener; needed where that listens beyond loopback",
    ),
];

const ENVIRONMENT: [(&str, &str); 6] = [
    ("PALISADE_ADMIN_TOKEN", "the bearer token that the operator's commands send"),
    (
        "PALISADE_LOG",
        "what serve logs: error, warn, info (the default), debug, trace, or a filter of several by \
         module: info,palisade::gate=trace",
    ),
    ("PALISADE_LOG_FORMAT", "json: one object a line; without it, text"),
    ("NO_COLOR", "no colour, if it is set and not empty"),
    ("CLICOLOR_FORCE", "colour in a pipe or a file too, if it is set and not 0"),
    ("COLUMNS", "how wide a terminal is that does not tell"),
];

const SIGNALS: [(&str, &str); 2] = [
    ("SIGTERM, SIGINT", "serve stops: no new writes, open ones end, at most stop_timeout; then 0"),
    ("SIGKILL", "loses nothing that was acknowledged; the next start is a quarantine"),
];

const EXITS: [(&str, &str); 3] =
    [("0", "done"), ("1", "refused or failed"), ("2", "the command line is wrong")];

fn write(directory: &Path, pages: &[Page]) -> io::Result<()> {
    pages.iter().try_for_each(|page| fs::write(directory.join(&page.name), &page.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_every_command_and_it_names_every_option() {
        let pages = pages();
        let text = |name: &str| {
            let page = pages.iter().find(|page| page.name == name);
            page.unwrap_or_else(|| panic!("there is no {name}")).text.replace("\\-", "-")
        };
        let main = text("palisade.1");
        let palisade = Palisade::command();
        assert_eq!(pages.len(), 1 + palisade.get_subcommands().count());
        for command in palisade.get_subcommands() {
            let name = format!("palisade-{}", command.get_name());
            assert!(main.contains(&format!("{name}(1)")), "{name} is not on the first page");
            let page = text(&format!("{name}.1"));
            assert!(page.contains(&format!("{name} - ")), "{page}");
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("--{option}")), "{name} --{option}");
            }
        }
    }

    #[test]
    fn the_first_page_says_what_no_help_says() {
        let text = &pages()[0].text;
        for title in ["NAME", "SYNOPSIS", "FILES", "ENVIRONMENT", "SIGNALS", "EXIT STATUS"] {
            assert!(
                text.contains(&format!(".SH {title}"))
                    || text.contains(&format!(".SH \"{title}\""))
            );
        }
        assert!(!text.contains("palisade\\-help"), "there is no such page");
    }
}
