//! A proxy that reads heads and sends nothing: the service's own reading, by its preview.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method, Request, Uri, request::Parts};
use palisade::{
    config,
    fence::UpstreamId,
    gate::{Gate, RealmOptions},
    metrics::Metrics,
    proxy::{Preview, Shared},
    store::MemoryStore,
};

/// The upstream's name in every world, as keys are shown with it.
pub const UPSTREAM: &str = "store:";

/// A configuration of one server and these routes; `more` stands in its section.
pub fn configuration(url: &str, more: &str, routes: &str) -> config::Config {
    let text = format!(
        "[store]\npath = \"fences\"\n[upstreams.store]\nurl = \"{url}\"\n\
         max_write_lifetime = \"60s\"\n{more}\n{routes}\n"
    );
    config::parse("fuzz.toml", &text, &|_| None).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A gate over one upstream that is past every quarantine.
pub fn gate(metrics: &Arc<Metrics>) -> Gate {
    let realm = RealmOptions {
        name: "store".to_owned(),
        id: UpstreamId(1),
        lifetime: std::time::Duration::from_mins(1),
        quarantine: None,
        all_contested: false,
        unfenced: false,
        void_unfenced: false,
    };
    Gate::new(1 << 20, vec![realm], Arc::new(MemoryStore::new()), Arc::clone(metrics))
}

/// A world for previews.
pub fn world(more: &str, routes: &str) -> Arc<Shared> {
    let config = configuration("http://store:9000", more, routes);
    let metrics = Metrics::new(&[]);
    let gate = gate(&metrics);
    let max_headers = config.server.max_headers;
    Arc::new(Shared::new(config.routes, gate, metrics, vec![], config.forwarding, max_headers))
}

/// A head; `None` where the HTTP library would have refused it.
pub fn head(method: &[u8], target: &[u8], fields: &[(&[u8], &[u8])]) -> Option<Parts> {
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method).ok()?;
    *request.uri_mut() = Uri::try_from(target).ok()?;
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name).ok()?;
        request.headers_mut().append(name, HeaderValue::from_bytes(value).ok()?);
    }
    Some(request.into_parts().0)
}

/// The key of a write of `target` that would be offered to the fence; `None` where it is refused.
pub fn key_of_write(world: &Arc<Shared>, target: &[u8]) -> Option<Vec<u8>> {
    let head = head(b"PUT", target, &[(b"host", b"a"), (b"fencing-token", b"9")])?;
    let preview = Preview::of(world, &head, true);
    if preview.refusal.is_some() {
        return None;
    }
    let key = preview.key.expect("an admitted write has a key");
    Some(key.strip_prefix(UPSTREAM).expect("of the upstream").as_bytes().to_vec())
}
