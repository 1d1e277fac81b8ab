//! `palisade serve`.

use std::io::Write;

use super::{ConfigArgument, Exit, say};
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
pub(super) fn command(arguments: Arguments, err: &mut dyn Write) -> Exit {
    let mut config = match config::load(arguments.config.config.as_deref()) {
        Ok(config) => config,
        Err(errors) => {
            say(err, &format!("{errors}\n"));
            return Exit::Failed;
        }
    };
    let known = |name: &String| config.upstreams.iter().any(|upstream| upstream.name == *name);
    if let Some(unknown) = arguments.rekey.iter().find(|name| !known(name)) {
        let file = &config.file;
        say(err, &format!("error: --rekey {unknown}: {file} has no upstream of that name\n"));
        return Exit::Usage;
    }
    config.store.fresh = arguments.fresh;
    config.store.rekey = arguments.rekey;
    run(&config, err)
}

fn run(config: &Config, err: &mut dyn Write) -> Exit {
    telemetry::init();
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    match super::run::run(config) {
        Ok(()) => Exit::Done,
        Err(why) => {
            say(err, &format!("error: {why}\n"));
            Exit::Failed
        }
    }
}
