//! COMMAND LINE. Words in, an exit code out.
//!
//! It owns the commands and what they print; each family has a file of its own. It decides
//! nothing: it loads the configuration and calls the rooms. Output goes through a writer, and a
//! reader that leaves early (`palisade check | head`) is no error.

mod check;
mod completions;
mod control;
mod demo;
mod explain;
mod man;
mod operate;
mod run;
mod serve;
mod style;
mod table;

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use self::{operate::Terminal, style::Style};

/// How a command ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Refused or failed.
    Failed = 1,
    /// The command line itself is wrong.
    Usage = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Runs the command that the arguments name, the program's own name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let terminal = Terminal {
        out: &mut io::stdout().lock(),
        err: &mut io::stderr(),
        style: Style::of_stdout(),
    };
    run_on(arguments, terminal).into()
}

/// The same, with the two streams given, and without colour.
pub fn run_with(
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Exit {
    run_on(arguments, Terminal { out, err, style: Style::Plain })
}

fn run_on(arguments: impl IntoIterator<Item = OsString>, mut terminal: Terminal<'_>) -> Exit {
    let (out, err) = (&mut *terminal.out, &mut *terminal.err);
    let command = match Palisade::try_parse_from(arguments) {
        Ok(palisade) => palisade.command,
        Err(error) => {
            let text = error.render().to_string();
            if error.use_stderr() {
                say(err, &text);
                return Exit::Usage;
            }
            say(out, &text);
            return Exit::Done;
        }
    };
    match command {
        Command::Serve(arguments) => serve::command(arguments, err),
        Command::Check(arguments) => check::command(&arguments, out, err),
        Command::Explain(arguments) => explain::command(&arguments, out, err),
        Command::Demo(arguments) => demo::command(&arguments, out, err),
        Command::Completions(arguments) => completions::command(&arguments, out),
        Command::Man(arguments) => man::command(&arguments, out, err),
        Command::Status(arguments) => operate::status(&arguments, &mut terminal),
        Command::Keys(arguments) => operate::keys(&arguments, &mut terminal),
        Command::Show(arguments) => operate::show(&arguments, &mut terminal),
        Command::Advance(arguments) => operate::advance(&arguments, &mut terminal),
        Command::Release(arguments) => operate::release(&arguments, &mut terminal),
        Command::Reset(arguments) => operate::reset(&arguments, &mut terminal),
    }
}

/// Writes a text. Whoever reads may have left; there is nobody to tell then.
fn say(stream: &mut dyn Write, text: &str) {
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

/// A fencing-aware storage proxy: refuses stale writes in front of a store that knows nothing of
/// fencing.
#[derive(Debug, Parser)]
#[command(name = "palisade", version)]
struct Palisade {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the proxy
    Serve(serve::Arguments),
    /// Read and validate the configuration; print the routes and what each fences
    Check(check::Arguments),
    /// Say what would be done with a request and why, without sending it
    Explain(explain::Arguments),
    /// Play the story of two writers, live, with and without the fence
    Demo(demo::Arguments),
    /// Ask a running palisade how it is, and how each upstream stands
    Status(operate::StatusArguments),
    /// List the keys that have a mark
    Keys(operate::KeysArguments),
    /// Show one key: its mark, and what is in flight, in doubt and waiting
    Show(operate::ShowArguments),
    /// Raise a key's mark: every lower token is refused from then on
    Advance(operate::AdvanceArguments),
    /// End the doubts and the quarantine of a key, on your word
    Release(operate::ReleaseArguments),
    /// Forget a key's token
    Reset(operate::ResetArguments),
    /// Print what a shell needs to complete these commands
    Completions(completions::Arguments),
    /// Print the manual page, or write those of all commands
    Man(man::Arguments),
}

/// What every command that reads the configuration takes.
#[derive(clap::Args, Debug)]
struct ConfigArgument {
    /// The configuration; without it config/palisade.toml, else the built-in default: a file store
    /// in ./data
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}
