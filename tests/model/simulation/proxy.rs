//! The proxy's part, played against the gate as `proxy/service.rs`, `write.rs` and `exchange.rs`
//! play it: admitted once, sent once, cut and joined, judged by the product's own `Fate`, settled.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use palisade::{
    fence::{Holder, Outcome, Token},
    gate::{Admitted, Ask, Connection, Denied, Permit, Reason},
    proxy::{
        fate::{Answer, Fate, Sent},
        refusal::WriteOutcome,
    },
    upstream::Options,
};
use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    backend::{Back, Plan},
    book::{Asked, At, Write},
    breakage::Breakage,
    life::Life,
    plan::{Mode, Upstream},
};

/// What the gate adds to `drain_timeout`, or to its patience with the store: the grace of a cut.
const GRACE: Duration = Duration::from_secs(2);
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// What a client asks.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) at: At,
    pub(super) token: Option<u64>,
    pub(super) holder: Option<String>,
    pub(super) claim: bool,
    /// Milliseconds before each part of its body; the last may never come.
    pub(super) parts: Vec<Option<u64>>,
    /// When it hangs up.
    pub(super) leaves: CancellationToken,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.claim { "claim" } else { "write" };
        write!(f, "{what} of {} with {:?}", self.at, self.token)?;
        match &self.holder {
            Some(holder) => write!(f, " of {holder}"),
            None => Ok(()),
        }
    }
}

/// A request in a process.
#[derive(Clone)]
struct Call {
    life: Arc<Life>,
    request: Request,
    upstream: Upstream,
    options: Options,
}

/// What carries a write to the store.
struct Line {
    write: usize,
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

/// A request to its end. The answer to the client is dropped where there is none.
pub(super) async fn handle(life: Arc<Life>, request: Request, answer: oneshot::Sender<bool>) {
    let Some(place) = life.config.place(request.at.upstream) else { return };
    let upstream = life.config.upstreams[place].clone();
    let options = upstream.options();
    let call = Call { life, request, upstream, options };
    call.life.step().await;
    let gone = call.request.leaves.clone();
    let asked = call.asked();
    let admitted = tokio::select! {
        biased;
        admitted = call.admit() => admitted,
        () = gone.cancelled() => return call.life.world.count("clients left at the gate"),
    };
    call.life.alive().await;
    let (world, life) = (&call.life.world, &call.life);
    let through = admitted.is_ok();
    match admitted {
        Ok(Admitted { permit, highest, .. }) => {
            let told = highest.map(|token| token.counter);
            let write = call.write();
            let write = world.judge(|book, now| {
                if asked.enforced {
                    book.told_mark(asked.at, asked.epoch, told);
                }
                book.let_through(&asked, write, now)
            });
            world.note(format_args!("gate: {} is write {write}", call.request));
            if permit.is_none() {
                world.count("claims");
                world.judge(|book, _| book.writes[write].held = false);
            } else {
                world.count("writes let through");
                let forward = call.clone().forward(write, permit);
                let (tell, told) = oneshot::channel();
                life.spawn(async move {
                    forward.await;
                    let _ = tell.send(());
                });
                drop(told.await);
            }
        }
        Err(denied) => call.refuse(&asked, &denied).await,
    }
    life.alive().await;
    let _ = answer.send(through);
}

impl Call {
    fn asked(&self) -> Asked {
        let Request { at, token, holder, claim, .. } = self.request.clone();
        let enforced = self.upstream.is_enforced() || claim;
        let epoch = self.life.world.judge(|book, _| book.key(at).epoch);
        Asked { at, token, holder, claim, enforced, epoch }
    }

    fn write(&self) -> Write {
        let micros = |length: Duration| u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Write {
            at: self.request.at,
            token: self.request.token,
            enforced: self.upstream.is_enforced(),
            epoch: self.life.world.judge(|book, _| book.key(self.request.at).epoch),
            life: self.life.number,
            lifetime: micros(self.upstream.lifetime),
            discards: self.options.partial_body == palisade::upstream::PartialBody::Discarded,
            held: true,
            sends: 0,
            whole: false,
            ended: None,
            decided: false,
            effects: 0,
            outcomes: Vec::new(),
            told_not_applied: false,
        }
    }

    /// Asks the gate, which must answer in time.
    async fn admit(&self) -> Result<Admitted, Denied> {
        let Some(key) = self.life.key(self.request.at) else { std::future::pending().await };
        let holder = self.request.holder.as_ref().and_then(|name| Holder::parse(name.as_bytes()));
        let policy = self.upstream.policy();
        let ask = Ask {
            key: &key,
            token: self.request.token.map(Token::new),
            holder: holder.as_ref(),
            claim: self.request.claim,
            policy: &policy,
        };
        let began = Instant::now();
        let admitted = self.life.gate.admit(ask).await;
        let limit = policy.drain_timeout.max(STORE_PATIENCE) + GRACE + Duration::from_millis(10);
        if began.elapsed() > limit {
            let waited = began.elapsed();
            self.life.world.violated(&format!("{} waited {waited:?}", self.request));
        }
        admitted
    }

    /// The gate said no.
    async fn refuse(&self, asked: &Asked, denied: &Denied) {
        let world = &self.life.world;
        world.note(format_args!("gate: {}: {denied:?}", self.request));
        world.count(match denied.reason {
            Reason::Stale => "refused: stale",
            Reason::HolderConflict => "refused: holder conflict",
            Reason::Implausible => "refused: implausible",
            Reason::TokenMissing => "refused: token missing",
            Reason::Draining => "refused: draining",
            Reason::InDoubt { .. } => "refused: in doubt",
            Reason::StoreUnavailable => "refused: store unavailable",
            Reason::Overloaded => "refused: overloaded",
            Reason::ShuttingDown => "refused: shutting down",
        });
        let knows = !matches!(
            denied.reason,
            Reason::StoreUnavailable | Reason::Overloaded | Reason::ShuttingDown
        );
        if knows && asked.enforced {
            let told = denied.highest.map(|token| token.counter);
            world.judge(|book, _| book.told_mark(asked.at, asked.epoch, told));
        }
        let forced = match denied.reason {
            Reason::Stale => world.broken == Some(Breakage::ForwardsStale),
            Reason::Draining | Reason::InDoubt { .. } => {
                world.broken == Some(Breakage::SendsDespiteLower)
            }
            Reason::HolderConflict
            | Reason::Implausible
            | Reason::TokenMissing
            | Reason::StoreUnavailable
            | Reason::Overloaded
            | Reason::ShuttingDown => false,
        };
        if forced && !asked.claim {
            let write = self.write();
            let write = world.judge(|book, _| {
                book.writes.push(write);
                book.writes.len() - 1
            });
            self.clone().forward(write, None).await;
        }
    }

    /// A write that was let through, to its one outcome.
    async fn forward(self, write: usize, permit: Option<Permit>) {
        let life = Arc::clone(&self.life);
        let world = &life.world;
        let mut line = None;
        let ended = self.exchange(write, permit.as_ref(), &mut line).await;
        let Some(mut fate) = ended else {
            // Its task panics: the permit is dropped, and settles itself.
            world.count("lost tasks");
            world.judge(|book, _| book.writes[write].held = false);
            return drop(permit);
        };
        let again = world.broken == Some(Breakage::SendsAgain);
        if again && fate.outcome == Outcome::Unknown && permit.is_some() {
            self.exchange(write, permit.as_ref(), &mut None).await;
        }
        life.step().await;
        if world.broken == Some(Breakage::UnknownIsSettled) && fate.outcome == Outcome::Unknown {
            fate.outcome = Outcome::Answered;
        }
        world.count(match fate.outcome {
            Outcome::NotSent => "outcomes: not sent",
            Outcome::Answered => "outcomes: answered",
            Outcome::Unknown => "outcomes: unknown",
        });
        world.note(format_args!("proxy: write {write} ends {fate:?}"));
        world.judge(|book, _| {
            book.settled(write, fate.outcome);
            match fate.told {
                WriteOutcome::Applied => book.told(write, true),
                WriteOutcome::NotApplied => book.told(write, false),
                WriteOutcome::Unknown => {}
            }
        });
        if let Some(permit) = permit {
            permit.settle(fate.outcome);
        }
        if let Some(line) = line
            && world.broken == Some(Breakage::DoubtBeforeTheEnd)
        {
            line.close().await;
        }
    }

    /// As `exchange.rs`: connects, sends, and once more where nothing was sent (R7). `None` where its
    /// task is lost on the way.
    async fn exchange(
        &self,
        write: usize,
        permit: Option<&Permit>,
        open: &mut Option<Arc<Line>>,
    ) -> Option<Fate> {
        let mut redialled = false;
        loop {
            if !self.connect(permit).await {
                return Some(Fate::NOT_SENT);
            }
            let line = self.line(write, permit);
            match self.send(&line, permit, redialled).await {
                End::Returned => {
                    redialled = true;
                    if !may_redial(permit) {
                        return Some(Fate::NOT_SENT);
                    }
                }
                _ if self.life.world.fault(1) => return None,
                End::Answered { back, early } => {
                    *open = Some(Arc::clone(&line));
                    return Some(self.let_go(&line, permit, back.answer(), early).await);
                }
                End::Over => {
                    *open = Some(Arc::clone(&line));
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
    fn line(&self, write: usize, permit: Option<&Permit>) -> Arc<Line> {
        let line = Arc::new(Line {
            write,
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
            life.world.connection_ended(carrier.write);
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
        world.receive(line.write, &plan);
        if let Some(end) = self.send_parts(line, permit, &plan).await {
            return end;
        }
        *line.silent_since.lock() = None;
        world.received(line.write);
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
        world.answers(line.write, back);
        End::Answered { back, early: false }
    }

    /// The body, as the client sends it. An end, if it comes before the body's.
    async fn send_parts(&self, line: &Line, permit: Option<&Permit>, plan: &Plan) -> Option<End> {
        let life = &self.life;
        for (number, part) in (1..).zip(&self.request.parts) {
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
                () = self.request.leaves.cancelled() => false,
                () = sleep(self.options.body_idle_timeout) => false,
            };
            life.step().await;
            if !came {
                life.world.count("cut bodies");
                return Some(End::Over);
            }
            *line.silent_since.lock() = Some(Instant::now());
            let is_last = number == self.request.parts.len() as u64;
            if let Some((after, status)) = plan.early
                && after == number
                && !is_last
            {
                return Some(End::Answered { back: Back::Whole(status), early: true });
            }
        }
        None
    }

    /// As `exchange.rs`: a connection whose whole exchange settles the write is kept.
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
        let whole = world.judge(|book, _| book.writes[line.write].whole);
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
    async fn close(&self) {
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

/// Whether a route of this kind takes claims.
pub(super) fn takes_claims(mode: Mode) -> bool {
    mode != Mode::Off
}
