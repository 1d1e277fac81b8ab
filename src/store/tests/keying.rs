//! R11: one path, one key, also across a restart.

use super::*;

/// A store that was once used with `files` as [`upstream`] makes it, and 5 raised at its key `a`.
fn used(directory: &Path) -> Options {
    let options = options(directory);
    let (store, _) = start(&options);
    raise(&store, "a", mark(5, false));
    store.close(true).unwrap();
    options
}

fn files(change: impl FnOnce(&mut UpstreamFacts)) -> UpstreamFacts {
    let mut facts = upstream("files");
    change(&mut facts);
    facts
}

#[test]
fn a_change_that_could_miss_marks_is_refused() {
    let both = vec![keying("/{*object}", "{object}"), keying("/b/{x}", "{x}")];
    let table = [
        (
            "its address",
            "http://files:80",
            "http://moved:80",
            files(|f| f.address = "http://moved:80".into()),
        ),
        (
            "the name of the upstream at http://files:80",
            "files",
            "renamed",
            files(|f| f.name = "renamed".into()),
        ),
        (
            "pattern /{*object}",
            "{object}",
            "{host}",
            files(|f| f.keying[0] = keying("/{*object}", "{host}")),
        ),
        (
            "pattern /b/{x}, where it meets the earlier pattern /{*object}",
            "{object}",
            "{x}",
            files(|f| f.keying = both),
        ),
        (
            "pattern /b/{x}, where it meets the earlier pattern /{*object}",
            "{object}",
            "{x}",
            files(|f| f.keying = vec![keying("/b/{x}", "{x}")]),
        ),
    ];
    for (part, old, new, facts) in table {
        let directory = tempfile::tempdir().unwrap();
        let options = used(directory.path());
        let name = facts.name.clone();
        let changed = Options { upstreams: vec![facts], ..options.clone() };
        let error = refusal(&changed);
        let text = error.to_string();
        for word in [part, old, new, &format!("--rekey {name}"), "data/fences"] {
            assert!(text.contains(word), "{word:?} is not in {text:?}");
        }
        assert!(matches!(error, OpenError::Rekeyed { .. }));
        let (store, boot) = start(&options);
        assert!(boot.clean, "a refusal changes nothing");
        assert_eq!(find(&store, "a"), Some(mark(5, false)));
        store.close(true).unwrap();

        let rekeyed = Options { rekey: vec![name], ..changed.clone() };
        let (store, boot) = start(&rekeyed);
        let boot = boot.upstreams[0];
        assert!(boot.rekeyed && boot.all_contested && boot.unfenced);
        assert_eq!(boot.quarantine, Some(Duration::from_secs(10)));
        let all = ask(|done| store.list(Vec::new(), None, 10, done)).unwrap();
        assert_eq!(all, [], "the marks are void");
        store.close(true).unwrap();
        let (_store, boot) = start(&changed);
        assert!(boot.clean && !boot.upstreams[0].rekeyed, "from now on this is how keys are made");
    }
}

#[test]
fn what_can_miss_no_mark_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let options = used(directory.path());
    let base = keying("/{*object}", "{object}");
    for (name, patterns) in [
        ("twice the same", vec![base.clone(), base.clone()]),
        ("another that makes the same key", vec![base.clone(), keying("/b/{*object}", "{object}")]),
        ("none", vec![]),
        ("the first again", vec![base.clone()]),
    ] {
        let facts = files(|facts| facts.keying = patterns);
        let (store, boot) = start(&Options { upstreams: vec![facts], ..options.clone() });
        assert!(boot.clean, "{name}");
        assert_eq!(find(&store, "a"), Some(mark(5, false)), "{name}");
        store.close(true).unwrap();
    }
}

#[test]
fn a_pattern_that_was_taken_out_is_still_compared() {
    let directory = tempfile::tempdir().unwrap();
    let first = |patterns| Options {
        upstreams: vec![files(|facts| facts.keying = patterns)],
        ..options(directory.path())
    };
    let (a, b) = (keying("/a/{x}", "{x}"), keying("/b/{x}", "{x}"));
    for patterns in [vec![a.clone()], vec![a.clone(), b.clone()], vec![b.clone()]] {
        start(&first(patterns)).0.close(true).unwrap();
    }
    let error = refusal(&first(vec![b.clone(), keying("/a/{x}", "other")]));
    assert!(error.to_string().contains("pattern /a/{x} was \"{x}\""), "{error}");
    // Only `--rekey` drops it, although what remains has not changed.
    let rekey = Options { rekey: vec!["files".into()], ..first(vec![b.clone()]) };
    let (store, boot) = start(&rekey);
    assert!(boot.upstreams[0].rekeyed);
    store.close(true).unwrap();
    start(&first(vec![b, keying("/a/{x}", "other")])).0.close(true).unwrap();
}

#[test]
fn rekey_voids_one_upstream_and_only_where_something_changed() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    options.upstreams.push(upstream("other"));
    let (store, boot) = start(&options);
    let at_other = Key::new(boot.upstreams[1].id, b"a").unwrap();
    raise(&store, "a", mark(5, false));
    ask(|done| store.raise(at_other.clone(), mark(6, false), done)).unwrap();
    store.close(true).unwrap();

    options.rekey = vec!["files".into()];
    let (store, boot) = start(&options);
    assert!(!boot.upstreams[0].rekeyed, "nothing has changed");
    assert_eq!(find(&store, "a"), Some(mark(5, false)));
    store.close(true).unwrap();

    options.upstreams[0].keying[0].template = "{host}".into();
    let (store, boot) = start(&options);
    assert!(boot.upstreams[0].rekeyed && !boot.upstreams[1].rekeyed);
    assert_ne!(boot.upstreams[0].id, UpstreamId(1), "a number is never used twice");
    let all = ask(|done| store.list(Vec::new(), None, 10, done)).unwrap();
    assert_eq!(all, [(at_other, mark(6, false))]);
}

#[test]
fn two_upstreams_that_swap_addresses_need_a_rekey_each() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    options.upstreams.push(upstream("other"));
    start(&options).0.close(true).unwrap();
    options.upstreams[0].address = "http://other:80".into();
    options.upstreams[1].address = "http://files:80".into();
    options.rekey = vec!["files".into()];
    assert!(
        matches!(refusal(&options), OpenError::Rekeyed { upstream, .. } if upstream == "other")
    );
    options.rekey.push("other".into());
    let (_store, boot) = start(&options);
    assert!(boot.upstreams.iter().all(|upstream| upstream.rekeyed));
}

#[test]
fn a_rekey_waits_for_the_longer_lifetime() {
    let directory = tempfile::tempdir().unwrap();
    let options = used(directory.path());
    let facts = files(|facts| {
        facts.lifetime = Duration::from_secs(1);
        facts.keying.clear();
    });
    let rekey = vec!["files".into()];
    let (_store, boot) = start(&Options { upstreams: vec![facts], rekey, ..options });
    assert_eq!(boot.upstreams[0].quarantine, Some(Duration::from_secs(10)));
}

#[test]
fn a_rekey_of_nobody_is_a_mistake() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { rekey: vec!["flies".into()], ..options(directory.path()) };
    let error = refusal(&options);
    assert!(matches!(error, OpenError::UnknownRekey { .. }), "{error}");
    assert!(!options.path.exists());
}

#[test]
fn a_reload_is_compared_and_remembered() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        fresh: true,
        upstreams: vec![files(|facts| facts.keying = vec![keying("/a/{x}", "{x}")])],
        ..options(directory.path())
    };
    let (store, _) = start(&options);
    let with = |pattern, template| {
        vec![files(|facts| {
            facts.keying = vec![keying(pattern, template)];
            facts.lifetime = Duration::from_secs(30);
            facts.unfenced = true;
        })]
    };
    let error = store.check_keying(&with("/a/{x}", "other"), overlaps).unwrap_err();
    assert!(matches!(error, OpenError::Rekeyed { .. }), "{error}");
    let error = store.check_keying(&[upstream("new")], overlaps).unwrap_err();
    assert!(matches!(error, OpenError::NeedsRestart { .. }), "{error}");

    let reload = with("/b/{x}", "{x}");
    ask(|done| store.adopt(&reload, overlaps, done).unwrap()).unwrap();
    let error = store.check_keying(&with("/b/{x}", "other"), overlaps).unwrap_err();
    assert!(matches!(error, OpenError::Rekeyed { .. }), "{error}");
    store.close(false).unwrap();
    let after = Options { fresh: false, ..options };
    let other = Options { upstreams: with("/b/{x}", "other"), ..after.clone() };
    assert!(matches!(refusal(&other), OpenError::Rekeyed { .. }));
    let boot = start(&after).1.upstreams[0];
    assert_eq!((boot.quarantine, boot.all_contested), (Some(Duration::from_secs(30)), true));
}
