//! An operator's change of one key: read, carried out, audited (R12).

use std::{fmt, net::SocketAddr};

use serde::Deserialize;

use super::{
    Control,
    path::{Action, Named},
    problem::{Code, Problem},
    view::Done,
};
use crate::{
    fence::Token,
    gate::{OperatorError, Snapshot},
};

/// A change that can be carried out.
#[derive(Debug)]
pub(super) struct Change {
    named: Named,
    order: Order,
    reason: String,
    peer: SocketAddr,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Order {
    Advance { token: Token, force: bool },
    Release,
    Reset,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Advance { token, force: false } => write!(f, "advance to {token}"),
            Self::Advance { token, force: true } => write!(f, "advance to {token} by force"),
            Self::Release => f.write_str("release"),
            Self::Reset => f.write_str("reset"),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdvanceBody {
    token: String,
    reason: String,
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseBody {
    reason: String,
    #[serde(default)]
    i_know_the_store_will_not_apply_it: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResetBody {
    reason: String,
}

/// Most bytes of a reason.
const REASON_LIMIT: usize = 1024;

impl Change {
    /// Reads a change's document.
    pub(super) fn parse(
        named: Named,
        action: Action,
        body: &[u8],
        peer: SocketAddr,
    ) -> Result<Self, Problem> {
        let parsed = match action {
            Action::Advance => advance(body),
            Action::Release => release(body),
            Action::Reset => document::<ResetBody>(body).map(|body| (Order::Reset, body.reason)),
        };
        let (order, reason) = parsed.map_err(|problem| problem.about(&named.words))?;
        let reason = reason.trim().to_owned();
        if reason.is_empty() || reason.len() > REASON_LIMIT {
            let detail = format!("`reason` must say why, in 1 to {REASON_LIMIT} bytes");
            return Err(Problem::new(Code::BadRequest, detail).about(&named.words));
        }
        Ok(Self { named, order, reason, peer })
    }

    /// Carries it out and writes it to the audit trail, whatever comes of it.
    pub(super) async fn carry_out(&self, control: &dyn Control) -> Result<Done, Problem> {
        let result = self.apply(control).await;
        let (key, reason, peer) = (self.named.words.as_str(), self.reason.as_str(), self.peer);
        let order = self.order;
        match &result {
            Ok(done) => tracing::info!(
                target: "audit", %peer, key, %order, reason, result = done.words(), "operator's change"
            ),
            Err(problem) => tracing::info!(
                target: "audit", %peer, key, %order, reason, result = problem.code(),
                "operator's change refused"
            ),
        }
        result.map_err(|problem| problem.about(key))
    }

    async fn apply(&self, control: &dyn Control) -> Result<Done, Problem> {
        let key = self.named.key.clone();
        let done = match self.order {
            Order::Advance { token, force } => {
                control.advance(key, token, force).await.map(Done::from)
            }
            Order::Release => {
                self.must_be_known(control).await?;
                control.release(key).await.map(Done::from)
            }
            Order::Reset => {
                self.must_be_known(control).await?;
                control.reset(key).await.map(|()| Done::Reset { reset: true })
            }
        };
        done.map_err(|error: OperatorError| error.into())
    }

    /// A mistyped key must not get a record. An advance may make one: after the store was restored
    /// from a backup, that is what it is for.
    async fn must_be_known(&self, control: &dyn Control) -> Result<(), Problem> {
        let snapshot = control.show(self.named.key.clone()).await?;
        if is_known(&snapshot) { Ok(()) } else { Err(unknown()) }
    }
}

/// Whether there is anything to say of a key.
pub(super) fn is_known(snapshot: &Snapshot) -> bool {
    snapshot.highest.is_some()
        || snapshot.durable.is_some()
        || !snapshot.in_flight.is_empty()
        || !snapshot.in_doubt.is_empty()
        || snapshot.waiting > 0
        || snapshot.quarantine.is_some()
}

/// 404 of a key.
pub(super) fn unknown() -> Problem {
    Problem::new(Code::UnknownKey, "it has no mark, and no write is in flight, in doubt or waiting")
}

fn advance(body: &[u8]) -> Result<(Order, String), Problem> {
    let body = document::<AdvanceBody>(body)?;
    let token = Token::parse(body.token.as_bytes(), true)
        .map_err(|error| Problem::new(Code::TokenMalformed, error.to_string()))?;
    Ok((Order::Advance { token, force: body.force }, body.reason))
}

fn release(body: &[u8]) -> Result<(Order, String), Problem> {
    let body = document::<ReleaseBody>(body)?;
    if !body.i_know_the_store_will_not_apply_it {
        let detail = "a release may break the promise: `\"i_know_the_store_will_not_apply_it\": \
                      true` confirms that the store will not apply the write";
        return Err(Problem::new(Code::ConfirmationMissing, detail));
    }
    Ok((Order::Release, body.reason))
}

fn document<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    // serde would take an array for the members in their order.
    if body.trim_ascii_start().first().is_some_and(|byte| *byte != b'{') {
        return Err(Problem::new(Code::BadRequest, "the body must be a JSON object"));
    }
    serde_json::from_slice(body).map_err(|error| {
        let hint = if error.to_string().contains("expected a string") {
            "; tokens are strings, as in {\"token\": \"43\"}"
        } else {
            ""
        };
        Problem::new(Code::BadRequest, format!("the body: {error}{hint}"))
    })
}
