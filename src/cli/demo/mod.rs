//! `palisade demo`: the story of two writers, live, with and without the fence.
//!
//! It owns the order of things: a thread plays the story over real sockets, this one prints what
//! happens as it happens. The proxy is this very program, started as `palisade serve` on free ports
//! in a directory of its own; at the end, at an error and at Ctrl-C both are gone.

mod event;
mod look;
mod naive;
mod stage;
mod story;
mod teller;
mod wire;

use std::{io::Write, thread};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use self::{
    event::{Event, Kind, Who},
    look::Look,
    teller::{Stop, Teller},
};
use super::{Exit, say};

#[derive(clap::Args, Debug)]
pub(super) struct Arguments {
    /// Print each event as one line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn command(arguments: &Arguments, out: &mut dyn Write, err: &mut dyn Write) -> Exit {
    let look = if arguments.json { None } else { Some(Look::of_stdout()) };
    match run(look, out) {
        Ok(true) => Exit::Done,
        Ok(false) => Exit::Failed,
        Err(why) => {
            say(err, &format!("error: {why}\n"));
            Exit::Failed
        }
    }
}

/// Whether Palisade kept its promise.
fn run(look: Option<Look>, out: &mut dyn Write) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    let (events, told) = mpsc::channel(16);
    let stop = Stop::default();
    let teller = Teller::new(events, stop.clone());
    thread::scope(|scope| {
        let player = thread::Builder::new()
            .name("demo".to_owned())
            .spawn_scoped(scope, move || play(&teller))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let printed = runtime.block_on(print(told, look, &stop, out));
        // Whatever ended the printing, the story has an end too.
        stop.stop();
        let kept = player.join().map_err(|_| "the story broke off".to_owned())?;
        printed.and(kept)
    })
}

fn play(teller: &Teller) -> Result<bool, String> {
    let kept = story::through_palisade(teller)?;
    let broke = story::through_a_naive_proxy(teller)?;
    teller.tell(Who::Nobody, Kind::Verdict { kept, naive_broke: broke });
    if !broke {
        return Err("the naive proxy kept the file whole, so this run shows nothing".to_owned());
    }
    Ok(kept)
}

/// Prints until the story ends. A signal ends the story, which then ends its proxy.
async fn print(
    mut told: mpsc::Receiver<Event>,
    look: Option<Look>,
    stop: &Stop,
    out: &mut dyn Write,
) -> Result<(), String> {
    let handler = |kind| signal(kind).map_err(|error| format!("cannot wait for signals: {error}"));
    let mut interrupt = handler(SignalKind::interrupt())?;
    let mut terminate = handler(SignalKind::terminate())?;
    let mut hang_up = handler(SignalKind::hangup())?;
    let mut interrupted = false;
    loop {
        let event = tokio::select! {
            event = told.recv() => Some(event),
            _ = interrupt.recv() => None,
            _ = terminate.recv() => None,
            _ = hang_up.recv() => None,
        };
        let Some(event) = event else {
            interrupted = true;
            stop.stop();
            continue;
        };
        match (event, look) {
            (Some(event), Some(look)) => say(out, &look.text(&event)),
            (Some(event), None) => say(out, &format!("{}\n", event.json())),
            (None, _) if interrupted => return Err("interrupted".to_owned()),
            (None, _) => return Ok(()),
        }
    }
}
