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
use super::{Exit, terminal::Terminal};

#[derive(clap::Args, Debug)]
pub(super) struct Arguments {
    /// Print each event as one line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn command(arguments: &Arguments, terminal: &mut Terminal<'_>) -> Exit {
    let look = if arguments.json { None } else { Some(Look(terminal.screen)) };
    match run(look, terminal.out) {
        Ok(true) => Exit::Done,
        Ok(false) => Exit::Failed,
        Err(why) => {
            terminal.error(&why);
            Exit::Failed
        }
    }
}

/// Whether Palisade kept its promise, as far as anybody listened.
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
        let mut printer = Printer { out, look, stop: stop.clone(), left: false };
        let printed = runtime.block_on(print(told, &mut printer));
        // Whatever ended the printing, the story has an end too.
        stop.stop();
        let kept = player.join().map_err(|_| "the story broke off".to_owned())?;
        printed?;
        if printer.left { Ok(true) } else { kept }
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
async fn print(mut told: mpsc::Receiver<Event>, printer: &mut Printer<'_>) -> Result<(), String> {
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
            printer.stop.stop();
            continue;
        };
        match event {
            Some(event) => printer.event(&event),
            None if interrupted => return Err("interrupted".to_owned()),
            None => return Ok(()),
        }
    }
}

/// Prints events to whoever listens.
struct Printer<'a> {
    out: &'a mut dyn Write,
    /// JSON without one.
    look: Option<Look>,
    stop: Stop,
    /// Whether the reader has left before the end, as `head` does: no error, and no reason to go on.
    left: bool,
}

impl Printer<'_> {
    fn event(&mut self, event: &Event) {
        if self.left {
            return;
        }
        let text = match self.look {
            Some(look) => look.text(event),
            None => format!("{}\n", event.json()),
        };
        if self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_err() {
            self.left = true;
            self.stop.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::*;
    use crate::cli::terminal::Screen;

    /// A pipe whose reader leaves after so many events.
    struct Leaves(usize);

    impl Write for Leaves {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_leaves_ends_the_story() {
        for look in [None, Some(Look(Screen::PIPE))] {
            let (stop, mut out) = (Stop::default(), Leaves(1));
            let mut printer = Printer { out: &mut out, look, stop: stop.clone(), left: false };
            let kind = Kind::Granted { token: 5 };
            let event = Event { at: Duration::ZERO, who: Who::A, kind };
            printer.event(&event);
            assert!(!printer.left && stop.pause(Duration::ZERO).is_ok());
            printer.event(&event);
            assert!(printer.left && stop.pause(Duration::ZERO).is_err());
        }
    }
}
