//! Reads, and the read after a claim: forwarded once, relayed at the client's pace.

use std::sync::Arc;

use http::{Response, request::Parts};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};

use super::{
    Proxy, Upstream,
    body::{AnswerBody, Relay},
    call::{Call, Passed},
    forwarding::add_via,
    headers::to_client,
    outbound::outgoing,
    refusal::Refusal,
    route::Route,
    service::Plan,
};
use crate::{
    fence::Token,
    upstream::http::{HttpUpstream, Lease, Outgoing, SendError},
};

impl Proxy {
    /// Forwards a request without a body that changes nothing.
    pub(super) async fn read(
        &self,
        plan: Plan,
        head: Parts,
        call: Call,
        passed: Passed,
        highest: Option<Token>,
    ) -> Response<AnswerBody> {
        let (Some(route), Some(upstream)) = (call.route(), self.upstream(plan.route)) else {
            return call.refuse(&Refusal::NoRoute, None);
        };
        let began = Instant::now();
        let answer = match upstream {
            Upstream::Http(http) => read_http(http, &call, route, &plan, head).await,
            Upstream::Files(files) => {
                let path = plan.target.path();
                let answer = files.read(&head, path.strip_prefix(b"/").unwrap_or(path)).await;
                Ok(answer.map(AnswerBody::File))
            }
        };
        call.upstream_took(began.elapsed());
        match answer {
            Ok(mut response) => {
                to_client(response.headers_mut());
                call.label(response.headers_mut(), passed, highest, None);
                call.passed(passed, response.status().as_u16(), None);
                response
            }
            Err(refusal) => call.fail(&refusal, passed, highest, None),
        }
    }
}

async fn read_http(
    upstream: &HttpUpstream,
    call: &Call,
    route: &Route,
    plan: &Plan,
    head: Parts,
) -> Result<Response<AnswerBody>, Refusal> {
    let options = upstream.options();
    let unreachable = |error| Refusal::UpstreamUnreachable(Arc::new(error));
    let mut lease = upstream.checkout(None).await.map_err(unreachable)?;
    let host = options.host.as_ref();
    let mut request = outgoing(head, plan, call, route, host, Outgoing::empty());
    let mut redialled = false;
    loop {
        let sent = timeout(options.response_timeout, lease.send(request)).await;
        request = match sent {
            Ok(Ok(response)) => return relay(response, lease, options.body_idle_timeout),
            // The idle connection had ended: the request comes back unsent, and a new one is dialled.
            Ok(Err(SendError::NotSent(request))) if !redialled => *request,
            Ok(Err(SendError::NotSent(_))) => {
                return Err(Refusal::UpstreamFailed("the upstream closes its connections".into()));
            }
            Ok(Err(SendError::Lost(why))) => return Err(Refusal::UpstreamFailed(why)),
            Ok(Err(SendError::Stalled)) | Err(_) => return Err(Refusal::UpstreamTimeout),
        };
        redialled = true;
        lease = upstream.dial(None).await.map_err(unreachable)?;
    }
}

fn relay(
    mut response: Response<Incoming>,
    lease: Lease,
    idle: std::time::Duration,
) -> Result<Response<AnswerBody>, Refusal> {
    if response.status().is_informational() {
        return Err(Refusal::UpstreamFailed("the upstream switches protocols".into()));
    }
    let version = response.version();
    add_via(response.headers_mut(), version);
    Ok(response.map(|body| AnswerBody::Relay(Relay::new(body, lease, idle))))
}
