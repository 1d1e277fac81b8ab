//! The proxy's part, played against the gate as `proxy/service.rs` and `write.rs` play it: admitted
//! once, forwarded in a task of its own, settled once.

use std::{fmt, sync::Arc, time::Duration};

use palisade::{
    fence::{Holder, Outcome, Token},
    gate::{Admitted, Ask, Denied, Permit, Reason, Takeover},
    upstream::Options,
};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    book::{Asked, At, Write},
    breakage::Breakage,
    exchange::Exchange,
    life::Life,
    plan::{Mode, Upstream},
};

/// What the gate adds to `drain_timeout`, or to its patience with the store: the grace of a cut.
const GRACE: Duration = Duration::from_secs(2);
const STORE_PATIENCE: Duration = Duration::from_secs(5);
/// What may pass, in microseconds, from the last hindrance to the answer: a look-up, a commit.
const SLACK: u64 = 20_000;

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
                let forward = forward(call.exchange(write), permit);
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
        let Request { at, token, .. } = self.request;
        Write::new(self.life.of(at), at, token, &self.upstream)
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
        let admitted = match self.life.gate.admit_at_once(&ask) {
            Some(answer) => answer,
            None => self.life.gate.admit(ask).await,
        };
        let limit = policy.drain_timeout.max(STORE_PATIENCE) + GRACE + Duration::from_millis(10);
        if began.elapsed() > limit {
            let waited = began.elapsed();
            self.life.world.violated(&format!("{} waited {waited:?}", self.request));
        }
        if admitted.is_ok() {
            self.check_promptness(self.life.world.now() - micros(began.elapsed()));
        }
        admitted
    }

    /// R3: nobody waits on when there is nothing left to wait for.
    fn check_promptness(&self, arrived: u64) {
        let world = &self.life.world;
        let Request { at, token, .. } = self.request;
        let free = world.judge(|book, _| book.free_since(at, token));
        let free = free.max(arrived).max(self.life.quarantined_until(at.upstream));
        let late = world.now().saturating_sub(free);
        if late > SLACK {
            world.violated(&format!("{} waited {late} microseconds for nothing", self.request));
        }
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
        if denied.reason == Reason::Draining && self.upstream.takeover == Takeover::Abort {
            // Here every connection that is cut ends within the grace.
            world.violated(&format!("{} drains in vain", self.request));
        }
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
            forward(self.exchange(write), None).await;
        }
    }

    fn exchange(&self, write: usize) -> Exchange {
        Exchange {
            life: Arc::clone(&self.life),
            options: self.options.clone(),
            parts: self.request.parts.clone(),
            leaves: self.request.leaves.clone(),
            writes: vec![write],
        }
    }
}

/// A write that was let through, to its one outcome.
async fn forward(exchange: Exchange, permit: Option<Permit>) {
    let world = &exchange.life.world;
    let mut line = None;
    let Some(fate) = exchange.run(permit.as_ref(), &mut line).await else {
        // The permit is dropped, and settles itself.
        exchange.lost();
        return drop(permit);
    };
    let again = world.broken == Some(Breakage::SendsAgain);
    if again && fate.outcome == Outcome::Unknown {
        exchange.run(permit.as_ref(), &mut None).await;
    }
    exchange.life.step().await;
    let cut = permit.as_ref().is_some_and(Permit::was_cut);
    if cut {
        world.count("writes cut by a takeover");
    }
    let outcome = exchange.conclude(fate);
    if let Some(permit) = permit {
        permit.settle(outcome);
    }
    if world.broken == Some(Breakage::DoubtBeforeTheEnd)
        && let Some(line) = line
        && outcome == Outcome::Unknown
    {
        line.close().await;
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

/// Whether a route of this kind takes claims.
pub(super) fn takes_claims(mode: Mode) -> bool {
    mode != Mode::Off
}
