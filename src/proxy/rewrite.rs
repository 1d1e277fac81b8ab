//! What a route changes of the fields that go upstream: `set_headers` and `remove_headers`.
//!
//! It owns which fields a route may not touch. It holds credentials, and never shows a value.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{classify::meaning_changer, fields, headers::is_hop_by_hop};

/// A route's changes; the operator has the last word on a field.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    set: Vec<(HeaderName, HeaderValue)>,
    remove: Vec<HeaderName>,
}

impl Rewrite {
    /// Removes the fields `remove`, and puts those of `set` in place of a client's own.
    pub fn new(mut set: Vec<(HeaderName, HeaderValue)>, remove: Vec<HeaderName>) -> Self {
        for (_, value) in &mut set {
            // Its `Debug` shows it no more.
            value.set_sensitive(true);
        }
        Self { set, remove }
    }

    /// Whether nothing is changed.
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    /// Why no route may set or remove a field; `None` where it may.
    pub fn forbids(name: &HeaderName) -> Option<&'static str> {
        let fence = [fields::TOKEN, fields::X_TOKEN, fields::HOLDER, fields::CLAIM];
        if is_hop_by_hop(name) || *name == header::CONTENT_LENGTH || *name == header::EXPECT {
            Some("belongs to the connection")
        } else if *name == header::HOST {
            Some("is the upstream's, not the route's")
        } else if fence.contains(name) || name.as_str().starts_with("fencing-") {
            Some("is the fence's own")
        } else if meaning_changer(name.as_str()).is_some() || *name == header::CONTENT_RANGE {
            Some("can change what a write touches")
        } else {
            None
        }
    }

    /// Changes the fields of a request on its way upstream.
    pub(super) fn apply(&self, fields: &mut HeaderMap) {
        for name in &self.remove {
            fields.remove(name);
        }
        for (name, value) in &self.set {
            fields.insert(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> HeaderName {
        name.parse().unwrap()
    }

    #[test]
    fn fields_are_removed_and_set() {
        let set = vec![(name("x-store-key"), HeaderValue::from_static("hush"))];
        let rewrite = Rewrite::new(set, vec![name("cookie")]);
        let mut fields = HeaderMap::new();
        for (name, value) in [("cookie", "a"), ("cookie", "b"), ("x-store-key", "forged")] {
            fields.append(name, HeaderValue::from_static(value));
        }
        fields.append("x-store-key", HeaderValue::from_static("again"));
        rewrite.apply(&mut fields);
        assert_eq!(fields.len(), 1);
        assert_eq!(fields["x-store-key"], "hush");
        assert!(!format!("{rewrite:?}").contains("hush"), "logs do not show it");
    }

    #[test]
    fn what_the_fence_and_the_connection_go_by_is_not_the_routes() {
        for taken in [
            "Connection",
            "Keep-Alive",
            "TE",
            "Trailer",
            "Transfer-Encoding",
            "Upgrade",
            "Proxy-Authorization",
            "Content-Length",
            "Content-Range",
            "Expect",
            "Host",
            "Fencing-Token",
            "X-Fencing-Token",
            "Fencing-Holder",
            "Fencing-Claim",
            "Fencing-Anything",
            "Destination",
            "X-Amz-Copy-Source",
            "X-HTTP-Method-Override",
        ] {
            assert!(Rewrite::forbids(&name(taken)).is_some(), "{taken}");
        }
        for free in ["Cookie", "Authorization", "X-Store-Key", "X-Forwarded-For", "Via", "If-Match"]
        {
            assert_eq!(Rewrite::forbids(&name(free)), None, "{free}");
        }
    }
}
