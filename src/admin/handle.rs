//! One request, from its head to its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderValue, Request, StatusCode,
    header::{ACCEPT, CONNECTION, EXPECT},
    request::Parts,
};
use hyper::body::Body;

use super::{
    Admin, Ends, ProcessState, body,
    change::{self, Change},
    guard,
    listing::{ListingView, Query},
    overview::{RoutesView, StatusView},
    path::{self, Action, Endpoint, Named},
    problem::{self, Answer, Code, Problem},
    view::{ChangeView, KeyView, ReadinessView},
};
use crate::metrics::Format;

const PLAIN: &str = "text/plain; charset=utf-8";

impl Admin {
    /// Answers one request. Never an error: each no is an answer.
    pub async fn handle<B>(self: Arc<Self>, ends: Ends, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send,
    {
        let (parts, body) = request.into_parts();
        let found = self.admit(ends, &parts);
        let answer = match found {
            Ok(Endpoint::Change(encoded, action)) => self.change(ends, encoded, action, body).await,
            Ok(endpoint) => self.read(endpoint, &parts).await,
            Err(problem) => {
                return refuse_early(&parts, body, problem).await;
            }
        };
        answer.unwrap_or_else(Problem::into_answer)
    }

    /// What can be said from the head alone.
    fn admit<'a>(&self, ends: Ends, parts: &'a Parts) -> Result<Endpoint<'a>, Problem> {
        if !path::is_open(&parts.uri) {
            guard::authenticate(&self.options, &parts.headers)?;
        }
        let endpoint = path::endpoint(&parts.method, &parts.uri)?;
        if matches!(endpoint, Endpoint::Change(..)) {
            guard::change(ends, parts)?;
        }
        Ok(endpoint)
    }

    async fn read(&self, endpoint: Endpoint<'_>, parts: &Parts) -> Result<Answer, Problem> {
        match endpoint {
            Endpoint::Livez => Ok(self.livez()),
            Endpoint::Readyz => Ok(self.readyz()),
            Endpoint::Metrics => Ok(self.metrics(parts)),
            Endpoint::Status => Ok(self.status()),
            Endpoint::Routes => Ok(self.routes()),
            Endpoint::List => self.list(parts).await,
            Endpoint::Show(encoded) | Endpoint::Change(encoded, _) => self.show(encoded).await,
        }
    }

    /// Not alive is what only a restart can mend.
    fn livez(&self) -> Answer {
        match self.control.state() {
            ProcessState::Poisoned(reason) => {
                let body = format!("poisoned: {reason}\n");
                problem::text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, body)
            }
            ProcessState::Starting | ProcessState::Ready | ProcessState::Stopping => {
                problem::text(StatusCode::OK, PLAIN, "ok\n")
            }
        }
    }

    /// Ready in a quarantine as well: reads and most writes pass, and a second process in its
    /// place would only begin another.
    fn readyz(&self) -> Answer {
        let state = self.control.state();
        let status = match state {
            ProcessState::Ready => StatusCode::OK,
            ProcessState::Starting | ProcessState::Stopping | ProcessState::Poisoned(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        problem::json(status, &ReadinessView::new(state, self.control.quarantines()))
    }

    fn metrics(&self, parts: &Parts) -> Answer {
        let longest = self.control.quarantines().into_iter().map(|(_, left)| left).max();
        self.metrics.set_quarantine(longest.unwrap_or_default());
        let accept = parts.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let format = Format::negotiate(accept);
        problem::text(StatusCode::OK, format.content_type(), self.metrics.encode(format))
    }

    fn status(&self) -> Answer {
        let view = StatusView::new(self.control.state(), self.control.status());
        problem::json(StatusCode::OK, &view)
    }

    fn routes(&self) -> Answer {
        problem::json(StatusCode::OK, &RoutesView { routes: self.control.routes() })
    }

    async fn list(&self, parts: &Parts) -> Result<Answer, Problem> {
        let Query { prefix, after, limit } = Query::parse(&parts.uri)?;
        self.is_loaded()?;
        let listing = self.control.list(prefix, after, limit).await?;
        let view = ListingView::new(listing, |key| self.control.upstream(key));
        Ok(problem::json(StatusCode::OK, &view))
    }

    async fn show(&self, encoded: &str) -> Result<Answer, Problem> {
        let Named { key, words } = self.key(encoded)?;
        let shown = self.control.show(key).await;
        match shown {
            Ok(snapshot) if change::is_known(&snapshot) => {
                Ok(problem::json(StatusCode::OK, &KeyView::new(&words, snapshot)))
            }
            Ok(_) => Err(change::unknown().about(&words)),
            Err(error) => Err(Problem::from(error).about(&words)),
        }
    }

    async fn change<B>(
        self: &Arc<Self>,
        ends: Ends,
        encoded: &str,
        action: Action,
        body: B,
    ) -> Result<Answer, Problem>
    where
        B: Body<Data = Bytes> + Send,
    {
        let body = body::read(body).await?;
        if self.control.state() == ProcessState::Stopping {
            return Err(Problem::new(Code::ShuttingDown, "changes are taken after the next start"));
        }
        let named = self.key(encoded)?;
        let words = named.words.clone();
        let change = Change::parse(named, action, &body, ends.peer)?;
        // Detached: an operator who hangs up must not leave a change half done and unaudited.
        let admin = Arc::clone(self);
        let task = tokio::spawn(async move { change.carry_out(&*admin.control).await });
        let result = task.await.unwrap_or_else(|error| {
            tracing::error!(target: "audit", peer = %ends.peer, key = words, %error,
                "operator's change ended in a fault");
            Err(Problem::new(Code::InternalError, "see the log").about(&words))
        });
        Ok(problem::json(StatusCode::OK, &ChangeView { key: &words, done: result? }))
    }

    fn key(&self, encoded: &str) -> Result<Named, Problem> {
        self.is_loaded()?;
        path::key(encoded, &*self.control)
    }

    fn is_loaded(&self) -> Result<(), Problem> {
        if self.control.state() == ProcessState::Starting {
            return Err(Problem::new(Code::NotReady, "the marks are not loaded yet"));
        }
        Ok(())
    }
}

/// Refuses from the head. What the client sends all the same is read to a limit, then the
/// connection is closed.
async fn refuse_early<B>(parts: &Parts, body: B, problem: Problem) -> Answer
where
    B: Body<Data = Bytes> + Send,
{
    let mut answer = problem.into_answer();
    if !body.is_end_stream() {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        if !parts.headers.contains_key(EXPECT) {
            body::discard(body).await;
        }
    }
    answer
}
