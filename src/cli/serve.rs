//! `palisade serve`.

use super::{ConfigArgument, Exit, style::Style, terminal::Terminal};
use crate::{
    config::{self, Config},
    telemetry,
};

#[derive(clap::Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Make the store, which must not exist yet, and wait for no earlier writes: nothing is writing
    #[arg(long)]
    fresh: bool,
    /// Accept that an upstream's keys are made differently from now on: its marks are void
    #[arg(long, value_name = "UPSTREAM", conflicts_with = "fresh")]
    rekey: Vec<String>,
}

/// Loads the configuration, adds what the flags say to it, and runs it.
pub(super) fn command(arguments: Arguments, terminal: &mut Terminal<'_>) -> Exit {
    let mut config = match config::load(arguments.config.config.as_deref()) {
        Ok(config) => config,
        Err(errors) => {
            terminal.errors(&errors);
            return Exit::Failed;
        }
    };
    let known = |name: &String| config.upstreams.iter().any(|upstream| upstream.name == *name);
    if let Some(unknown) = arguments.rekey.iter().find(|name| !known(name)) {
        let file = &config.file;
        terminal.error(&format!("--rekey {unknown}: {file} has no upstream of that name"));
        return Exit::Usage;
    }
    config.store.fresh = arguments.fresh;
    config.store.rekey = arguments.rekey;
    run(&config, terminal)
}

fn run(config: &Config, terminal: &mut Terminal<'_>) -> Exit {
    telemetry::init(terminal.err_screen.style == Style::Coloured);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    match super::run::run(config) {
        Ok(()) => Exit::Done,
        Err(why) => {
            terminal.error(&why);
            Exit::Failed
        }
    }
}
