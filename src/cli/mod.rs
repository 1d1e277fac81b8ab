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
mod terminal;

#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use self::{
    operate::reason,
    style::Style,
    terminal::{Screen, Terminal},
};

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
    let (screen, err_screen) = (Screen::of(&io::stdout()), Screen::of(&io::stderr()));
    let (mut out, mut err) = (Output::new(io::stdout().lock()), io::stderr());
    let mut terminal = Terminal { out: &mut out, err: &mut err, screen, err_screen };
    let exit = run_on(arguments, &mut terminal);
    let Some(lost) = out.lost else { return exit.into() };
    let mut terminal = Terminal { out: &mut io::sink(), err: &mut err, screen, err_screen };
    terminal.error(&format!("the output could not be written: {}", reason(&lost)));
    Exit::Failed.into()
}

/// The same, with the two streams given, as a pipe would get them.
pub fn run_with(
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Exit {
    let (screen, err_screen) = (Screen::PIPE, Screen::PIPE);
    run_on(arguments, &mut Terminal { out, err, screen, err_screen })
}

fn run_on(arguments: impl IntoIterator<Item = OsString>, terminal: &mut Terminal<'_>) -> Exit {
    let command = match Palisade::try_parse_from(arguments) {
        Ok(palisade) => palisade.command,
        Err(error) => {
            let text = |screen: Screen| match screen.style {
                Style::Plain => error.render().to_string(),
                Style::Coloured => error.render().ansi().to_string(),
            };
            if error.use_stderr() {
                say(terminal.err, &text(terminal.err_screen));
                return Exit::Usage;
            }
            say(terminal.out, &text(terminal.screen));
            return Exit::Done;
        }
    };
    match command {
        Command::Serve(arguments) => serve::command(arguments, terminal),
        Command::Check(arguments) => check::command(&arguments, terminal),
        Command::Explain(arguments) => explain::command(&arguments, terminal),
        Command::Demo(arguments) => demo::command(&arguments, terminal),
        Command::Completions(arguments) => completions::command(&arguments, terminal.out),
        Command::Man(arguments) => man::command(&arguments, terminal),
        Command::Status(arguments) => operate::status(&arguments, terminal),
        Command::Keys(arguments) => operate::keys(&arguments, terminal),
        Command::Show(arguments) => operate::show(&arguments, terminal),
        Command::Advance(arguments) => operate::advance(&arguments, terminal),
        Command::Release(arguments) => operate::release(&arguments, terminal),
        Command::Reset(arguments) => operate::reset(&arguments, terminal),
    }
}

/// An output that remembers why something was lost. That whoever read has left is no loss.
struct Output<W> {
    inner: W,
    lost: Option<io::Error>,
}

impl<W: Write> Output<W> {
    fn new(inner: W) -> Self {
        Self { inner, lost: None }
    }

    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let kind = error.kind();
            if !matches!(kind, io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted) {
                self.lost = Some(error);
            }
            kind.into()
        })
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.inner.write(bytes);
        self.noted(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.inner.flush();
        self.noted(done)
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
