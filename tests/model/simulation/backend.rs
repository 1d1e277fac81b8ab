//! The store behind the proxy. It knows nothing of tokens; it applies what it was sent at once, late
//! or never, up to `max_write_lifetime` after the end of the connection and not beyond.

use std::sync::Arc;

use palisade::proxy::fate::Answer;
use tokio::time::sleep_until;

use super::{
    book::{At, Book, Write},
    world::World,
};

/// What the store does with one request.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Milliseconds from the request's end to its effect.
    pub(super) effect: Option<u64>,
    /// Milliseconds from the request's end to what comes back.
    pub(super) answer: Option<(u64, Back)>,
    /// Before the request's end, after so many of its parts.
    pub(super) early: Option<(u64, u16)>,
    /// The store has an effect of a part, too.
    pub(super) part: bool,
}

/// What comes back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Back {
    Whole(u16),
    Cut(u16),
    Reset,
}

impl Back {
    pub(super) fn answer(self) -> Answer {
        let status = |number| http::StatusCode::from_u16(number).expect("a status");
        match self {
            Self::Whole(number) => Answer::Whole(status(number)),
            Self::Cut(number) => Answer::Cut(status(number)),
            Self::Reset => Answer::None,
        }
    }

    /// The store has decided against the write when it says so.
    fn is_refusal(self) -> bool {
        matches!(self, Self::Whole(300..=499 | 501 | 505)) && !matches!(self, Self::Whole(408))
    }
}

impl Plan {
    pub(super) fn draw(world: &World) -> Self {
        let plain = || Self {
            effect: Some(0),
            answer: Some((0, Back::Whole(201))),
            early: None,
            part: false,
        };
        if !world.fault(world.profile.hostile) {
            let (effect, more) = (world.pick(0..30), world.pick(0..10));
            return Self {
                effect: Some(effect),
                answer: Some((effect + more, Back::Whole(201))),
                ..plain()
            };
        }
        let late = match world.pick(0..4) {
            0 => world.pick(0..30),
            1 => world.pick(0..1000),
            _ => world.pick(0..8000),
        };
        let soon = world.pick(0..40);
        let some = (!world.chance(20)).then_some(late);
        let part = world.chance(50);
        let back = |back| Self { effect: some, answer: Some((soon, back)), part, ..plain() };
        let status = |world: &World, all: &[u16]| all[world.pick(0..all.len() as u64) as usize];
        match world.pick(0..7) {
            0 => {
                world.count("slow answers");
                let answer = Some((late + soon, Back::Whole(200)));
                Self { effect: Some(late), answer, part, ..plain() }
            }
            1 => {
                world.count("lost answers");
                Self { effect: some, answer: None, part, ..plain() }
            }
            2 => {
                world.count("resets");
                back(Back::Reset)
            }
            3 => {
                world.count("cut answers");
                back(Back::Cut(status(world, &[200, 204, 404])))
            }
            4 => {
                world.count("answers that settle nothing");
                back(Back::Whole(status(world, &[202, 202, 408, 500, 502, 503, 504])))
            }
            5 => {
                world.count("refusals of the store's");
                let refusal = Back::Whole(status(world, &[302, 404, 409, 412, 501]));
                Self { effect: None, ..back(refusal) }
            }
            _ => {
                world.count("early answers");
                let early = status(world, &[200, 403, 413, 413, 503]);
                Self { early: Some((world.pick(1..3), early)), ..back(Back::Whole(201)) }
            }
        }
    }
}

/// What the store has of a write.
#[derive(Clone, Debug)]
pub(super) struct Received {
    plan: Plan,
    /// When it is to take effect.
    due: Option<u64>,
}

/// A write's number in the books, and what the store makes of it.
pub(super) type Desk = Vec<(usize, Received)>;

impl World {
    /// The first byte of a write arrives.
    pub(super) fn receive(&self, writes: &[usize], plan: &Plan) {
        self.count("sent");
        self.note(format_args!("store: write {writes:?} arrives, {plan:?}"));
        self.judge(|book, _| {
            for write in writes {
                book.sent(*write);
                book.desk.push((*write, Received { plan: plan.clone(), due: None }));
            }
        });
    }

    /// All of a write has arrived.
    pub(super) fn received(&self, writes: &[usize]) {
        self.judge(|book, now| {
            for write in writes {
                book.writes[*write].whole = true;
            }
            for (_, received) in book.desk.iter_mut().filter(|(number, _)| writes.contains(number))
            {
                received.due = received.plan.effect.map(|millis| now + millis * 1000);
            }
        });
        self.backend.notify_one();
    }

    /// The store answers. What its answer promises is so from now on.
    pub(super) fn answers(&self, writes: &[usize], back: Back) {
        self.note(format_args!("store: write {writes:?} is answered, {back:?}"));
        if back.is_refusal() {
            self.judge(|book, _| {
                book.desk.retain(|(number, _)| !writes.contains(number));
                for write in writes {
                    book.writes[*write].decided = true;
                }
            });
        } else if matches!(back, Back::Whole(200 | 201 | 204)) {
            self.apply(|number, _| writes.contains(&number));
        }
    }

    /// A connection has ended. What the store has not applied it may still apply, for a while.
    pub(super) fn connection_ended(&self, writes: &[usize]) {
        for write in writes {
            self.write_ended(*write);
        }
        self.backend.notify_one();
    }

    fn write_ended(&self, write: usize) {
        let latest = match self.pick(0..4) {
            0 => 0,
            1 => self.pick(0..101),
            _ => 100,
        };
        let drops = self.fault(20);
        self.note(format_args!("store: the connection of write {write} has ended"));
        self.judge(|book, now| {
            book.writes[write].ended.get_or_insert(now);
            book.over(write, latest, drops);
        });
        let now = self.now();
        self.apply(|_, received| received.due.is_some_and(|due| due <= now));
    }

    /// A process has died, and all its connections with it.
    pub(super) fn connections_ended(&self, life: u32) {
        let open: Vec<usize> = self.judge(|book, _| {
            let ours = |number: &usize| {
                book.writes[*number].life == life && book.writes[*number].ended.is_none()
            };
            (0..book.writes.len()).filter(ours).collect()
        });
        for write in open {
            self.judge(|book, _| book.writes[write].held = false);
            self.write_ended(write);
        }
        self.backend.notify_one();
    }

    /// A write that was sent before there was a store here: its process is dead, and may have been
    /// of any kind.
    pub(super) fn stray(&self, write: Write) {
        self.count("strays");
        let mut plan = Plan::draw(self);
        plan.effect = Some(self.pick(0..4000));
        let number = self.judge(|book, _| {
            book.writes.push(write);
            book.writes.len() - 1
        });
        self.receive(&[number], &plan);
        self.received(&[number]);
        self.connection_ended(&[number]);
    }

    /// Everything that the choice falls on takes effect now.
    fn apply(&self, choose: impl Fn(usize, &Received) -> bool) {
        let due: Vec<usize> = self.judge(|book, _| {
            let chosen = |(number, received): &(usize, Received)| choose(*number, received);
            let due = book.desk.iter().filter(|entry| chosen(entry)).map(|(number, _)| *number);
            let due = due.collect();
            book.desk.retain(|entry| !chosen(entry));
            due
        });
        for write in due {
            let ended = self.judge(|book, _| book.writes[write].ended.is_some());
            self.count(if ended { "late effects" } else { "effects in time" });
            self.note(format_args!("store: write {write} takes effect"));
            self.judge(|book, _| book.effect(write));
        }
    }
}

impl Book {
    /// The end of a write's connection, at the store: nothing of it is applied later than its
    /// lifetime allows. `latest` is how late, in percent of that, what would have come later comes.
    fn over(&mut self, write: usize, latest: u64, drops: bool) {
        let Write { ended, lifetime, whole, discards, .. } = self.writes[write];
        let at = ended.unwrap_or_default();
        let last = at + lifetime;
        for (_, received) in self.desk.iter_mut().filter(|(number, _)| *number == write) {
            if !whole {
                let has_effect = received.plan.part && !discards;
                received.due = has_effect.then_some(u64::MAX);
            }
            if received.due.is_some_and(|due| due > last) {
                received.due = (!drops).then_some(at + lifetime / 100 * latest);
            }
        }
        self.desk.retain(|(number, received)| *number != write || received.due.is_some());
    }

    /// An operator has seen to it that what is in doubt on a key is not applied.
    pub(super) fn vouch(&mut self, at: At) {
        for number in 0..self.writes.len() {
            let write = &mut self.writes[number];
            if write.at == at && write.ended.is_some() && !write.decided {
                write.decided = true;
                self.desk.retain(|(other, _)| *other != number);
            }
        }
    }
}

/// The store at work, for as long as the world lasts.
pub(super) async fn backend(world: Arc<World>) {
    loop {
        let now = world.now();
        world.apply(|_, received| received.due.is_some_and(|due| due <= now));
        let next = world.judge(|book, _| book.desk.iter().filter_map(|(_, it)| it.due).min());
        let due = async {
            match next {
                Some(due) => sleep_until(world.instant(due)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = due => {}
            () = world.backend.notified() => {}
        }
    }
}
