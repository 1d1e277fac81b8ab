//! One exchange with the store, as `proxy/exchange.rs` has it: connected, sent once, cut and joined,
//! judged by the product's own `Fate`.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use palisade::{
    fence::Outcome,
    gate::{Connection, Permit},
    proxy::{
        fate::{Answer, Fate},
        refusal::WriteOutcome,
    },
    upstream::{Options, http::Sent},
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    backend::{Back, Plan},
    breakage::Breakage,
    life::Life,
};

/// What carries a write to the store.
pub(super) struct Line {
    /// One for each key that it touches.
    writes: Vec<usize>,
    closing: CancellationToken,
    ended: CancellationToken,
    silent_since: Mutex<Option<Instant>>,
}

impl Connection for Line {
    fn cut(&self) {
        self.closing.cancel();
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let ended = self.ended.clone();
        Box::pin(async move { ended.cancelled().await })
    }

    fn client_silent_since(&self) -> Option<Instant> {
        *self.silent_since.lock()
    }
}

/// How far the sending came.
enum End {
    /// Not sent: the connection was gone.
    Returned,
    /// Something came back, before the request's end or after it.
    Answered { back: Back, early: bool },
    /// Nothing will come back.
    Over,
}

/// A write, or a write of several keys, on its way.
#[derive(Clone)]
pub(super) struct Exchange {
    pub(super) life: Arc<Life>,
    pub(super) options: Options,
    /// Milliseconds before each part of its body; the last may never come.
    pub(super) parts: Vec<Option<u64>>,
    /// When its client hangs up.
    pub(super) leaves: CancellationToken,
    pub(super) writes: Vec<usize>,
}

impl Exchange {
    /// What is told of the end, and the outcome to settle with.
    pub(super) fn conclude(&self, fate: Fate) -> Outcome {
        let world = &self.life.world;
        let broken = world.broken == Some(Breakage::UnknownIsSettled);
        let unknown = fate.outcome == Outcome::Unknown;
        let outcome = if unknown && broken { Outcome::Answered } else { fate.outcome };
        world.count(match outcome {
            Outcome::NotSent => "outcomes: not sent",
            Outcome::Answered => "outcomes: answered",
            Outcome::Unknown => "outcomes: unknown",
        });
        world.note(format_args!("proxy: write {:?} ends {fate:?}", self.writes));
        for write in &self.writes {
            world.judge(|book, now| {
                book.settled(*write, outcome, now);
                match fate.told {
                    WriteOutcome::Applied => book.told(*write, true),
                    WriteOutcome::NotApplied => book.told(*write, false),
                    WriteOutcome::Unknown => {}
                }
            });
        }
        outcome
    }

    /// Its task panics: nothing more is told of it.
    pub(super) fn lost(&self) {
        self.life.world.count("lost tasks");
        self.life.world.judge(|book, _| {
            for write in &self.writes {
                book.writes[*write].held = false;
            }
        });
    }

    /// Connects, sends, and once more where nothing was sent (R7). `None` where its task is lost on
    /// the way. `open` is the connection that it had last.
    pub(super) async fn run(
        &self,
        permit: Option<&Permit>,
        open: &mut Option<Arc<Line>>,
    ) -> Option<Fate> {
        let mut redialled = false;
        loop {
            if !self.connect(permit).await {
                return Some(Fate::NOT_SENT);
            }
            let line = self.line(permit);
            *open = Some(Arc::clone(&line));
            match self.send(&line, permit, redialled).await {
                End::Returned => {
                    redialled = true;
                    if !may_redial(permit) {
                        return Some(Fate::NOT_SENT);
                    }
                }
                _ if self.life.world.fault(1) => return None,
                End::Answered { back, early } => {
                    return Some(self.let_go(&line, permit, back.answer(), early).await);
                }
                End::Over => {
                    return Some(self.close(&line, Answer::None).await);
                }
            }
        }
    }

    async fn connect(&self, permit: Option<&Permit>) -> bool {
        let world = &self.life.world;
        self.life.step().await;
        let fails = world.fault(3);
        let cut = tokio::select! {
            biased;
            () = cut(permit) => true,
            () = world.nap(0..6) => false,
        };
        self.life.alive().await;
        !cut && !fails
    }

    /// A connection, and the task that ends it when it is asked to.
    fn line(&self, permit: Option<&Permit>) -> Arc<Line> {
        let line = Arc::new(Line {
            writes: self.writes.clone(),
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
            silent_since: Mutex::new(Some(Instant::now())),
        });
        if let Some(permit) = permit {
            permit.attach(Arc::clone(&line) as Arc<dyn Connection>);
        }
        let (life, carrier) = (Arc::clone(&self.life), Arc::clone(&line));
        self.life.spawn(async move {
            carrier.closing.cancelled().await;
            life.world.nap(0..5).await;
            life.step().await;
            life.world.connection_ended(&carrier.writes);
            carrier.ended.cancel();
        });
        line
    }

    async fn send(&self, line: &Line, permit: Option<&Permit>, redialled: bool) -> End {
        let (life, world) = (&self.life, &self.life.world);
        life.step().await;
        if !redialled && world.fault(5) {
            world.count("connections that were gone");
            return End::Returned;
        }
        let plan = Plan::draw(world);
        world.receive(&line.writes, &plan);
        if let Some(end) = self.send_parts(line, permit, &plan).await {
            return end;
        }
        *line.silent_since.lock() = None;
        world.received(&line.writes);
        let back = async {
            match plan.answer {
                Some((after, back)) => {
                    sleep(Duration::from_millis(after)).await;
                    life.step().await;
                    back
                }
                None => std::future::pending().await,
            }
        };
        let end = tokio::select! {
            biased;
            back = back => Some(back),
            () = cut(permit) => None,
            () = sleep(self.options.response_timeout) => None,
        };
        life.alive().await;
        let Some(back) = end else { return End::Over };
        world.answers(&line.writes, back);
        End::Answered { back, early: false }
    }

    /// The body, as the client sends it. An end, if it comes before the body's.
    async fn send_parts(&self, line: &Line, permit: Option<&Permit>, plan: &Plan) -> Option<End> {
        let life = &self.life;
        for (number, part) in (1..).zip(&self.parts) {
            let arrives = async {
                match part {
                    Some(after) => sleep(Duration::from_millis(*after)).await,
                    None => std::future::pending().await,
                }
            };
            let came = tokio::select! {
                biased;
                () = arrives => true,
                () = cut(permit) => false,
                () = self.leaves.cancelled() => false,
                () = sleep(self.options.body_idle_timeout) => false,
            };
            life.step().await;
            if !came {
                life.world.count("cut bodies");
                return Some(End::Over);
            }
            *line.silent_since.lock() = Some(Instant::now());
            let is_last = number == self.parts.len() as u64;
            if let Some((after, status)) = plan.early
                && after == number
                && !is_last
            {
                return Some(End::Answered { back: Back::Whole(status), early: true });
            }
        }
        None
    }

    /// A connection whose whole exchange settles the write is kept.
    async fn let_go(
        &self,
        line: &Line,
        permit: Option<&Permit>,
        answer: Answer,
        early: bool,
    ) -> Fate {
        if !early {
            let fate = self.judge(Sent { any: true, whole: true }, answer);
            if fate.outcome == Outcome::Answered {
                if let Some(permit) = permit {
                    permit.detach();
                }
                return fate;
            }
        }
        self.close(line, answer).await
    }

    async fn close(&self, line: &Line, answer: Answer) -> Fate {
        let world = &self.life.world;
        if world.broken != Some(Breakage::DoubtBeforeTheEnd) {
            line.close().await;
        }
        let whole = world.judge(|book, _| book.writes[line.writes[0]].whole);
        self.judge(Sent { any: true, whole }, answer)
    }

    fn judge(&self, sent: Sent, answer: Answer) -> Fate {
        let accepted = Answer::Whole(http::StatusCode::ACCEPTED);
        let broken = self.life.world.broken == Some(Breakage::AcceptedIsAnAnswer);
        if broken && answer == accepted {
            return Fate { outcome: Outcome::Answered, told: WriteOutcome::Unknown };
        }
        Fate::judge(sent, answer, &self.options)
    }
}

impl Line {
    /// Ends it and joins it.
    pub(super) async fn close(&self) {
        self.cut();
        self.ended.cancelled().await;
    }
}

/// The verdict once more, before a write that was not sent is sent after all (R7).
fn may_redial(permit: Option<&Permit>) -> bool {
    let Some(permit) = permit else { return true };
    permit.detach();
    let may = permit.is_current();
    permit.unpin();
    may
}

async fn cut(permit: Option<&Permit>) {
    match permit {
        Some(permit) => permit.cut().await,
        None => std::future::pending().await,
    }
}
