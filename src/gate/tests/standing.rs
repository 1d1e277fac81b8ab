//! The numbers of each upstream follow what happens to its keys.

use super::*;
use crate::fence::Outcome;

#[tokio::test(start_paused = true)]
async fn an_upstreams_numbers_follow_its_writes() {
    let other = RealmOptions { name: "other".into(), id: UpstreamId(2), ..realm(LIFETIME) };
    let store = MemoryStore::new();
    let metrics = Metrics::new(&[]);
    let realms = vec![other, realm(LIFETIME)];
    let gate = Gate::new(1 << 20, realms, Arc::new(store.clone()), Arc::clone(&metrics));
    let world = World { gate, store, metrics };
    let numbers = || {
        let all = world.gate.standings();
        let idle = &all[0];
        assert_eq!((idle.upstream.as_str(), idle.waiting, idle.in_flight), ("other", 0, 0));
        (all[1].keys, all[1].in_flight, all[1].waiting, all[1].in_doubt)
    };
    assert_eq!(numbers(), (0, 0, 0, 0));
    let key = world.gate.key(1, b"k").unwrap();
    let admit = |token: u64| {
        let (gate, key) = (world.gate.clone(), key.clone());
        async move {
            let policy = policy();
            let ask = Ask {
                key: &key,
                token: Some(Token::new(token)),
                holder: None,
                claim: false,
                policy: &policy,
            };
            gate.admit(ask).await
        }
    };
    let first = admit(5).await.unwrap().permit.unwrap();
    let second = admit(5).await.unwrap().permit.unwrap();
    assert_eq!(numbers(), (1, 2, 0, 0));
    {
        let mut waiter = pin!(admit(6));
        assert!(poll_once(waiter.as_mut()).is_pending());
        assert_eq!(numbers(), (1, 2, 1, 0));
    }
    assert_eq!(numbers(), (1, 2, 0, 0));
    first.settle(Outcome::Unknown);
    assert_eq!(numbers(), (1, 1, 0, 1));
    second.settle(Outcome::Answered);
    assert_eq!(numbers(), (1, 0, 0, 1));
    tokio::time::advance(LIFETIME + Duration::from_secs(1)).await;
    assert_eq!(numbers(), (1, 0, 0, 0), "doubt ends with time, though nobody asked for the key");
    assert_eq!(world.gate.uptime(), LIFETIME + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn evicted_keys_are_not_counted() {
    let world = World::cached(1000, realm(LIFETIME), MemoryStore::new());
    for name in 0..50 {
        let key = world.gate.key(0, format!("{name}").as_bytes()).unwrap();
        world.gate.show(&key).await.unwrap();
    }
    let kept = world.gate.standings()[0].keys;
    assert!((1..=10).contains(&kept), "{kept}");
    assert_eq!(kept, world.gate.0.cache.len());
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_and_unfenced_writes_are_told_until_they_end() {
    let options = RealmOptions {
        quarantine: Some(LIFETIME),
        unfenced: true,
        void_unfenced: true,
        ..realm(LIFETIME)
    };
    let world = World::with(options, MemoryStore::new());
    let standing = || world.gate.standings().remove(0);
    assert!(standing().quarantine.is_some_and(|left| left >= LIFETIME));
    assert!(standing().unfenced);
    tokio::time::advance(LIFETIME + Duration::from_secs(1)).await;
    assert_eq!(standing().quarantine, None);
    assert!(standing().unfenced, "the store still says so");
    world.gate.0.void_unfenced();
    assert!(!standing().unfenced);
}
