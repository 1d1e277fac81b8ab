//! Who starts in quarantine (R5), and where every key is contested (R10).

use super::*;

const FIVE: Option<Duration> = Some(Duration::from_secs(5));
const TWENTY: Option<Duration> = Some(Duration::from_secs(20));
const TEN: Option<Duration> = Some(Duration::from_secs(10));

fn with(options: &Options, lifetime: u64, unfenced: bool) -> Options {
    let facts = &options.upstreams[0];
    let lifetime = Duration::from_secs(lifetime);
    Options {
        fresh: false,
        upstreams: vec![UpstreamFacts { lifetime, unfenced, ..facts.clone() }],
        ..options.clone()
    }
}

/// Opens, closes, and gives how the one upstream started.
fn run(options: &Options, clean: bool) -> UpstreamBoot {
    let (store, boot) = start(options);
    store.close(clean).unwrap();
    boot.upstreams[0]
}

#[test]
fn how_a_new_store_starts() {
    for (fresh, unfenced, quarantine, all_contested, stored) in [
        (true, false, None, false, false),
        (true, true, None, false, true),
        (false, false, TEN, true, true),
        (false, true, TEN, true, true),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { fresh, ..with(&options(directory.path()), 10, unfenced) };
        let (_store, boot) = start(&options);
        let want = UpstreamBoot {
            id: UpstreamId(1),
            quarantine,
            all_contested,
            unfenced: stored,
            rekeyed: false,
        };
        let want = Boot { created: true, clean: false, upstreams: vec![want] };
        assert_eq!(boot, want, "fresh {fresh}, unfenced {unfenced}");
    }
}

#[test]
fn a_clean_stop_needs_no_quarantine_and_counts_once() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    run(&options, true);
    let (store, boot) = start(&options);
    assert!(boot.clean && !boot.created);
    assert_eq!(boot.upstreams[0].quarantine, None);
    assert!(!boot.upstreams[0].unfenced, "a clean mark voids it");
    // A kill: the mark was deleted, synced, when `open` returned.
    let image = image(&options, directory.path());
    drop(store);
    let (_store, boot) = start(&image);
    assert!(!boot.clean);
    assert_eq!(boot.upstreams[0].quarantine, TEN);
    assert!(!boot.upstreams[0].all_contested);
}

#[test]
fn a_quarantine_lasts_the_longer_lifetime_until_a_clean_stop() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    run(&with(&options, 10, false), false);
    for (lifetime, clean, want) in [
        (2, false, TEN),
        // The run before may itself have been waiting for the first one's writes.
        (5, false, TEN),
        (20, false, TWENTY),
        (1, true, TWENTY),
        (5, false, None),
        (1, false, FIVE),
        (1, true, FIVE),
        (0, false, None),
        (0, false, None),
    ] {
        assert_eq!(run(&with(&options, lifetime, false), clean).quarantine, want, "{lifetime} s");
    }
}

#[test]
fn unfenced_lasts_until_a_clean_mark_or_the_gates_word() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let seen = |boot: UpstreamBoot| (boot.all_contested, boot.unfenced);
    run(&Options { fresh: true, ..with(&options, 10, false) }, false);
    let steps = [
        ("never unfenced", false, false, (false, false)),
        ("from now on", true, false, (false, true)),
        ("the run before was", false, false, (true, true)),
        ("and it stays", false, true, (true, true)),
        ("a clean mark voids it", false, true, (false, false)),
        ("a clean start that is", true, true, (false, true)),
        ("voided and set again", true, false, (false, true)),
        ("an unclean one that is", true, false, (true, true)),
    ];
    for (name, unfenced, clean, want) in steps {
        assert_eq!(seen(run(&with(&options, 10, unfenced), clean)), want, "{name}");
    }
    let fenced = with(&options, 10, false);
    let (store, _) = start(&fenced);
    ask(|done| store.set_unfenced(UpstreamId(1), false, done)).unwrap();
    store.close(false).unwrap();
    assert_eq!(seen(run(&fenced, false)), (false, false), "the gate has voided it");
    let (store, _) = start(&fenced);
    ask(|done| store.set_unfenced(UpstreamId(1), true, done)).unwrap();
    store.close(false).unwrap();
    assert_eq!(seen(run(&fenced, false)), (true, true), "the gate has set it");
}

#[test]
fn an_upstream_that_is_new_waits_even_after_a_clean_stop() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    run(&options, true);
    options.upstreams.insert(0, upstream("new"));
    let (_store, boot) = start(&options);
    assert!(boot.clean, "of what the store knew");
    let [new, files] = [boot.upstreams[0], boot.upstreams[1]];
    assert_eq!((new.id, files.id), (UpstreamId(2), UpstreamId(1)), "in the order of the options");
    assert_eq!((new.quarantine, new.all_contested, new.unfenced), (TEN, true, true));
    assert_eq!((files.quarantine, files.all_contested, files.unfenced), (None, false, false));
}

#[test]
fn a_clean_stop_says_nothing_of_an_upstream_that_was_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let other = Options { upstreams: vec![upstream("other")], ..options.clone() };
    run(&options, false);
    run(&other, true);
    let (_store, boot) = start(&options);
    assert!(!boot.clean);
    assert_eq!(boot.upstreams[0].quarantine, TEN);
}
