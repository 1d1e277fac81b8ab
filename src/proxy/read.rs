//! Reads, and the read after a claim: forwarded once, relayed at the client's pace.

use std::{sync::Arc, time::Duration};

use http::Response;
use tokio::time::Instant;

use super::{
    Proxy, Upstream,
    answering::Answering,
    body::{AnswerBody, Relay},
    call::{Call, Passed},
    forwarding::add_via,
    headers::to_client,
    outbound::outgoing,
    refusal::Refusal,
    service::Asked,
};
use crate::{
    fence::Token,
    upstream::http::{HttpUpstream, Lease, Outgoing, Request, SendError},
};

impl Proxy {
    /// Forwards a request without a body that changes nothing.
    pub(super) fn forward(
        &self,
        asked: Asked,
        passed: Passed,
        highest: Option<Token>,
    ) -> Answering {
        let Asked { plan, head, call, .. } = asked;
        let (Some(route), Some(upstream)) = (call.route(), self.upstream(plan.route)) else {
            return Answering::now(call.refuse(&Refusal::NoRoute, None));
        };
        let began = Instant::now();
        match upstream {
            Upstream::Http(http) => {
                let http = http.clone();
                let host = http.options().host.as_ref();
                let request = outgoing(head, &plan, &call, route, host, Outgoing::empty());
                Answering::later(async move {
                    let answer = read_http(&http, request).await;
                    hand_on(&call, answer, passed, highest, began)
                })
            }
            Upstream::Files(files) => {
                let files = files.clone();
                Answering::later(async move {
                    let path = plan.target.path();
                    let answer = files.read(&head, path.strip_prefix(b"/").unwrap_or(path)).await;
                    hand_on(&call, Ok(answer.map(AnswerBody::File)), passed, highest, began)
                })
            }
        }
    }
}

fn hand_on(
    call: &Call,
    answer: Result<Response<AnswerBody>, Refusal>,
    passed: Passed,
    highest: Option<Token>,
    began: Instant,
) -> Response<AnswerBody> {
    let now = Instant::now();
    call.upstream_took(now - began);
    match answer {
        Ok(mut response) => {
            to_client(response.headers_mut());
            call.label(response.headers_mut(), passed, highest, None);
            call.passed(passed, response.status().as_u16(), None, now);
            response
        }
        Err(refusal) => call.fail(&refusal, passed, highest, None),
    }
}

async fn read_http(
    upstream: &HttpUpstream,
    mut request: Box<Request>,
) -> Result<Response<AnswerBody>, Refusal> {
    let options = upstream.options();
    let unreachable = |error| Refusal::UpstreamUnreachable(Arc::new(error));
    let mut lease = upstream.checkout(None).await.map_err(unreachable)?;
    let mut redialled = false;
    loop {
        request = match lease.send(request, options.response_timeout).await {
            Ok(response) => return relay(response, lease, options.body_idle_timeout),
            // The idle connection had ended: the request comes back unsent, and a new one is dialled.
            Err(SendError::NotSent(request)) if !redialled => request,
            Err(SendError::NotSent(_)) => {
                return Err(Refusal::UpstreamFailed("the upstream closes its connections".into()));
            }
            Err(SendError::Lost(why)) => return Err(Refusal::UpstreamFailed(why)),
            Err(SendError::Late) => return Err(Refusal::UpstreamTimeout),
        };
        redialled = true;
        lease = upstream.dial(None).await.map_err(unreachable)?;
    }
}

fn relay(
    mut response: Response<()>,
    lease: Lease,
    idle: Duration,
) -> Result<Response<AnswerBody>, Refusal> {
    if response.status().is_informational() {
        return Err(Refusal::UpstreamFailed("the upstream switches protocols".into()));
    }
    let version = response.version();
    add_via(response.headers_mut(), version);
    Ok(response.map(|()| AnswerBody::Relay(Relay::new(lease, idle))))
}
