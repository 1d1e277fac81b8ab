//! `palisade completions`: what a shell needs to complete the command line.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Exit, Palisade, say};

#[derive(clap::Args, Debug)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(super) fn command(arguments: &Arguments, out: &mut dyn std::io::Write) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Palisade::command(), "palisade", &mut script);
    say(out, &String::from_utf8_lossy(&script));
    Exit::Done
}
