//! One `[[routes]]` entry, validated: what it matches and what it fences.

use std::{borrow::Cow, sync::Arc};

use http::Method;

use super::{Captures, KeyForm, KeyParts, Pattern, RenderError, Rewrite, Template};
use crate::gate::{Mode, Policy};

/// A validated route.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its path pattern as written; the metrics' label.
    pub path: String,
    /// The same, checked.
    pub pattern: Pattern,
    /// How its keys are made.
    pub template: Template,
    /// `fold_case` of its upstream: letters of a key are in lower case.
    pub fold_case: bool,
    /// `host`: names in lower case without a port; empty for every host.
    pub hosts: Vec<String>,
    /// `methods`; empty for every method.
    pub methods: Vec<Method>,
    /// The upstream's place in the configuration.
    pub upstream: usize,
    /// What it asks of the gate.
    pub policy: Arc<Policy>,
    /// Methods that are reads.
    pub reads: Vec<Method>,
    /// Methods that are writes.
    pub writes: Vec<Method>,
    /// `reads = "check"`: a read with a stale token is refused.
    pub check_reads: bool,
    /// Names of the token field, the first one is preferred in words.
    pub token_headers: Vec<http::HeaderName>,
    /// The status of `stale-token`: 412, 409, 403 or 423.
    pub stale_status: http::StatusCode,
    /// Whether `Fencing-Highest` is shown.
    pub reveal_highest: bool,
    /// Largest body of a request in bytes.
    pub max_body: Option<u64>,
    /// What it changes of the fields that go upstream.
    pub rewrite: Arc<Rewrite>,
}

impl Route {
    /// The key of a request, within its upstream: from the decoded path that the pattern matched.
    ///
    /// # Errors
    /// [`RenderError`]: the request cannot be mapped to one key for certain.
    pub fn key<'p>(
        &self,
        captures: &Captures,
        path: &'p [u8],
        parts: &dyn KeyParts,
    ) -> Result<Cow<'p, [u8]>, RenderError> {
        let mut key = self.template.render(captures, path, parts)?;
        if self.fold_case {
            if !key.is_ascii() {
                return Err(RenderError::Unfoldable);
            }
            key.to_mut().make_ascii_lowercase();
        }
        Ok(key)
    }

    /// How it makes keys, to be compared with others (R11).
    pub fn key_form(&self) -> KeyForm {
        KeyForm::new(&self.pattern, &self.template, self.fold_case)
    }

    /// R10: whether writes can pass it that no rule holds back.
    pub fn unfenced(&self) -> bool {
        !self.policy.enforce || self.policy.mode != Mode::Required
    }

    /// Whether it narrows its methods to others than this one.
    pub fn takes(&self, method: &Method) -> bool {
        self.methods.is_empty() || self.methods.contains(method)
    }

    /// Whether it narrows its hosts to others than this one; without a port.
    pub fn takes_host(&self, host: &[u8]) -> bool {
        let is_it = |known: &String| known.as_bytes().eq_ignore_ascii_case(host);
        self.hosts.is_empty() || self.hosts.iter().any(is_it)
    }

    /// The methods that it serves, for `Allow`: its reads, then its writes.
    pub fn allow(&self) -> impl Iterator<Item = &Method> {
        self.reads.iter().chain(&self.writes).filter(|method| self.takes(method))
    }
}
