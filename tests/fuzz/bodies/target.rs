//! Targets, one a line: what the proxy keys, and what common servers make of what it forwards.
//!
//! R11 in full: two writes that are let through and that any server takes for one object have one
//! key, whatever the two targets look like.

use std::sync::{Arc, LazyLock};

use http::Uri;
use palisade::proxy::{Shared, target::Target};

use super::{
    lines,
    servers::{self, SERVERS},
    shown,
    world::{key_of_write, world},
};

/// The route of the first example: the whole path.
const PLAIN: &str = "[[routes]]\npath = \"/{*object}\"\nupstream = \"store\"";

/// Several routes over the same paths, and keys that are coarser than paths.
const SEVERAL: &str = r#"
[[routes]]
path = "/{bucket}/{*object}"
upstream = "store"
fence = "{bucket}/{object}"
[[routes]]
path = "/a/{*object}"
upstream = "store"
fence = "a/{object}"
[[routes]]
path = "/{object}"
upstream = "store"
"#;

/// A key that the query has a part in.
const QUERY: &str = r#"
[[routes]]
path = "/{*object}"
upstream = "store"
fence = "{object}={query.v}"
"#;

struct Worlds {
    plain: Arc<Shared>,
    folded: Arc<Shared>,
    several: Arc<Shared>,
    query: Arc<Shared>,
}

static WORLDS: LazyLock<Worlds> = LazyLock::new(|| Worlds {
    plain: world("", PLAIN),
    folded: world("fold_case = true", PLAIN),
    several: world("", SEVERAL),
    query: world("store_honours = \"query.v\"", QUERY),
});

pub fn run(data: &[u8]) {
    let targets: Vec<&[u8]> = lines(data, 8).collect();
    check(&targets);
}

/// Checks each target, and each two of them. How many were let through.
pub fn check(targets: &[&[u8]]) -> usize {
    let admitted: Vec<_> = targets.iter().filter_map(|target| Admitted::of(target)).collect();
    for one in &admitted {
        one.has_one_meaning();
        for two in &admitted {
            one.shares_its_key_if_its_object(two);
        }
    }
    admitted.len()
}

/// A target that a write may have.
struct Admitted<'t> {
    target: &'t [u8],
    /// What the server gets.
    sent: Vec<u8>,
    key: Vec<u8>,
    /// `None` beyond ASCII: what the store folds there is its own affair.
    folded: Option<Vec<u8>>,
    several: Option<Vec<u8>>,
    query: Option<Vec<u8>>,
}

impl<'t> Admitted<'t> {
    fn of(target: &'t [u8]) -> Option<Self> {
        let key = key_of_write(&WORLDS.plain, target);
        let folded = key_of_write(&WORLDS.folded, target);
        let ascii = key.as_ref().is_some_and(|key| key.is_ascii());
        assert_eq!(ascii, folded.is_some(), "{}", shown(target));
        let read = Target::read(&Uri::try_from(target).ok()?).ok();
        let sent = read.map(|read| read.raw().as_str().as_bytes().to_vec());
        Some(Self {
            target,
            key: key?,
            folded,
            sent: sent.expect("an admitted target can be read"),
            several: key_of_write(&WORLDS.several, target),
            query: key_of_write(&WORLDS.query, target),
        })
    }

    fn has_one_meaning(&self) {
        if let Some(folded) = &self.folded {
            assert_eq!(*folded, self.key.to_ascii_lowercase(), "{}", shown(self.target));
        }
        for (server, resolve) in SERVERS {
            let Some(meant) = resolve(&self.sent) else { continue };
            let (target, meant, key) = (shown(self.target), shown(&meant), shown(&self.key));
            assert_eq!(meant, key, "{target} as read by {server}");
        }
        let Some(query) = &self.query else { return };
        for (server, value) in servers::query_values(&self.sent, b"v") {
            let meant = [&self.key[..], b"=", &value].concat();
            let (target, meant, key) = (shown(self.target), shown(&meant), shown(query));
            assert_eq!(meant, key, "{target} as read by {server}");
        }
    }

    fn shares_its_key_if_its_object(&self, other: &Self) {
        for (server, resolve) in SERVERS {
            let (Some(one), Some(two)) = (resolve(&self.sent), resolve(&other.sent)) else {
                continue;
            };
            let both = format!("{} and {}, {server}", shown(self.target), shown(other.target));
            assert_eq!(one == two, self.key == other.key, "{both}");
            if let (Some(first), Some(second)) = (&self.folded, &other.folded) {
                assert_eq!(one.eq_ignore_ascii_case(&two), first == second, "{both}");
            }
            if one == two {
                assert_eq!(self.several, other.several, "{both}: one object by two routes");
            }
        }
    }
}
