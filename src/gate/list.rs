//! The records on disk, a page at a time, in key order: millions of them cost one page's memory.

use tokio::{sync::oneshot, time::timeout};

use super::{
    Gate,
    operator::{PATIENCE, closed},
    realm::Realm,
};
use crate::{
    fence::{Key, Mark},
    store::StoreError,
};

/// One page of records.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Key and record, in the order of upstreams' numbers, then of the keys' bytes.
    pub records: Vec<(Key, Mark)>,
    /// The page's last key where more follow: the next page comes after it.
    pub next: Option<Key>,
}

/// Why there is no page.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ListError {
    /// The prefix names no upstream of the configuration.
    #[error("the configuration has no such upstream")]
    UnknownUpstream,
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Gate {
    /// The records whose key, written `UPSTREAM:KEY`, starts with `prefix` and comes after `after`:
    /// at most `limit`. Only what is on disk, whether or not it is in memory too. A key that is
    /// made meanwhile is in the listing if its place is still to come; one that was there is in it
    /// exactly once.
    ///
    /// # Errors
    /// [`ListError`]: nothing was read.
    pub async fn list(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Listing, ListError> {
        let mut ranges: Vec<_> =
            self.0.realms.iter().filter_map(|realm| range(realm, prefix)).collect();
        if ranges.is_empty() && !self.0.realms.is_empty() {
            return Err(ListError::UnknownUpstream);
        }
        ranges.sort();
        let mut records = Vec::new();
        for range in ranges {
            // One more than is asked for shows whether more follow.
            let wanted = (limit + 1).saturating_sub(records.len());
            if wanted > 0 {
                records.extend(self.page(range, after.cloned(), wanted).await?);
            }
        }
        let more = records.len() > limit;
        records.truncate(limit);
        let next = records.last().filter(|_| more).map(|(key, _)| key.clone());
        Ok(Listing { records, next })
    }

    async fn page(
        &self,
        range: Vec<u8>,
        after: Option<Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Mark)>, StoreError> {
        let (answer, found) = oneshot::channel();
        self.0.store.list(range, after, limit, Box::new(move |page| drop(answer.send(page))));
        match timeout(PATIENCE, found).await {
            Ok(found) => found.unwrap_or_else(|_| Err(closed())),
            Err(_) => Err(StoreError::Unavailable("it did not answer in 10 seconds".into())),
        }
    }
}

/// The stored bytes that the keys of an upstream start with, if they can start so as written.
fn range(realm: &Realm, prefix: &[u8]) -> Option<Vec<u8>> {
    let written = [realm.name.as_bytes(), b":"].concat();
    let number = realm.id.0.to_be_bytes();
    match prefix.strip_prefix(&written[..]) {
        Some(path) => Some([&number[..], path].concat()),
        None => written.starts_with(prefix).then(|| number.to_vec()),
    }
}
