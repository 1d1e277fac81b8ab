use std::time::Duration;

use super::*;

fn metrics() -> Arc<Metrics> {
    Metrics::new(&["/a/{id}".into(), "/b/\"\\\n".into(), "/a/{id}".into()])
}

/// The lines of one family, its comments included.
fn family(text: &str, name: &str) -> Vec<String> {
    let prefix = format!("palisade_{name}");
    text.lines()
        .filter(|line| {
            let line = line.strip_prefix("# ").and_then(|rest| rest.get(5..)).unwrap_or(line);
            line.starts_with(&prefix)
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_older_format_names_series() {
    let metrics = metrics();
    metrics.takeover();
    metrics.takeover();
    let text = metrics.encode(Format::Text);
    assert_eq!(
        family(&text, "takeovers"),
        [
            "# HELP palisade_takeovers_total Times that a higher token cut lower writes.",
            "# TYPE palisade_takeovers_total counter",
            "palisade_takeovers_total 2",
        ]
    );
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
    assert!(text.ends_with('\n'));
}

#[test]
fn the_newer_format_names_families_and_ends() {
    let metrics = metrics();
    metrics.set_quarantine(Duration::from_millis(12_500));
    let text = metrics.encode(Format::OpenMetrics);
    assert_eq!(
        family(&text, "takeovers"),
        [
            "# HELP palisade_takeovers Times that a higher token cut lower writes.",
            "# TYPE palisade_takeovers counter",
            "palisade_takeovers_total 0",
        ]
    );
    assert_eq!(
        family(&text, "quarantine_seconds")[1..],
        [
            "# TYPE palisade_quarantine_seconds gauge",
            "# UNIT palisade_quarantine_seconds seconds",
            "palisade_quarantine_seconds 12.500000000",
        ]
    );
    assert!(text.ends_with("\n# EOF\n"));
    assert_eq!(text.matches("# EOF").count(), 1);
}

#[test]
fn every_series_of_the_contract_is_there() {
    let text = metrics().encode(Format::Text);
    let types: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE palisade_")).collect();
    assert_eq!(
        types,
        [
            "build_info gauge",
            "requests_total counter",
            "request_seconds histogram",
            "stale_writes_total counter",
            "takeovers_total counter",
            "raises_total counter",
            "raise_seconds histogram",
            "drain_seconds histogram",
            "hold_seconds histogram",
            "in_flight_writes gauge",
            "in_doubt_keys gauge",
            "waiting_writes gauge",
            "keys gauge",
            "connections gauge",
            "quarantine_seconds gauge",
            "upstream_seconds histogram",
            "store_sync_seconds histogram",
        ]
    );
    // The formats differ in how help is escaped, so that no help may need it.
    assert!(text.lines().all(|line| !line.starts_with('#') || !line.contains(['\\', '"'])));
}

#[test]
fn label_values_are_escaped() {
    let metrics = metrics();
    metrics.stale_write(1);
    let text = metrics.encode(Format::Text);
    assert!(text.contains("palisade_stale_writes_total{route=\"/b/\\\"\\\\\\n\"} 1\n"), "{text}");
}

#[test]
fn routes_of_one_pattern_share_a_series_and_the_unknown_have_their_own() {
    let metrics = metrics();
    let brief = Duration::from_millis(3);
    for route in [Some(0), Some(2), None, Some(99)] {
        metrics.request(route, ResultLabel::StaleToken, brief);
    }
    metrics.request(Some(1), ResultLabel::Admitted, brief);
    let text = metrics.encode(Format::Text);
    for line in [
        "palisade_requests_total{route=\"/a/{id}\",result=\"stale-token\"} 2\n",
        "palisade_requests_total{route=\"none\",result=\"stale-token\"} 2\n",
        "palisade_requests_total{route=\"/a/{id}\",result=\"admitted\"} 0\n",
        "palisade_request_seconds_count{route=\"/a/{id}\",result=\"stale-token\"} 2\n",
        "palisade_request_seconds_sum{route=\"/a/{id}\",result=\"stale-token\"} 0.006000000\n",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line}{text}");
    }
    let samples: Vec<_> =
        text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series).collect();
    let distinct: std::collections::HashSet<_> = samples.iter().collect();
    assert_eq!(samples.len(), distinct.len(), "a series is there twice");
}

#[test]
fn buckets_are_cumulative_and_bounds_inclusive() {
    let metrics = metrics();
    for millis in [1, 10, 11, 86_400_000, 86_400_001] {
        metrics.held(Duration::from_millis(millis));
    }
    let lines = family(&metrics.encode(Format::Text), "hold_seconds");
    for line in [
        "palisade_hold_seconds_bucket{le=\"0.001\"} 1",
        "palisade_hold_seconds_bucket{le=\"0.01\"} 2",
        "palisade_hold_seconds_bucket{le=\"0.05\"} 3",
        "palisade_hold_seconds_bucket{le=\"43200.0\"} 3",
        "palisade_hold_seconds_bucket{le=\"86400.0\"} 4",
        "palisade_hold_seconds_bucket{le=\"+Inf\"} 5",
        "palisade_hold_seconds_sum 172800.023000000",
        "palisade_hold_seconds_count 5",
    ] {
        assert!(lines.contains(&line.to_owned()), "{line}: {lines:#?}");
    }
}

#[test]
fn bounds_ascend_and_say_what_they_are() {
    for bounds in [&LATENCIES, &SPANS] {
        assert!(bounds.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (nanos, words) in bounds {
            let seconds: f64 = words.parse().unwrap();
            assert!((seconds * 1e9 - *nanos as f64).abs() < 1.0, "{words}");
            assert!(words.contains('.'), "{words}");
        }
    }
}

#[test]
fn each_observation_goes_to_its_own_family() {
    let metrics = metrics();
    metrics.raised(Duration::from_secs(1));
    metrics.drained(Duration::from_secs(2));
    metrics.upstream(MethodClass::Read, Duration::from_secs(3));
    metrics.upstream(MethodClass::Write, Duration::from_secs(4));
    metrics.store_synced(Duration::from_secs(5));
    let text = metrics.encode(Format::Text);
    for line in [
        "palisade_raises_total 1\n",
        "palisade_raise_seconds_sum 1.000000000\n",
        "palisade_drain_seconds_sum 2.000000000\n",
        "palisade_upstream_seconds_sum{class=\"read\"} 3.000000000\n",
        "palisade_upstream_seconds_sum{class=\"write\"} 4.000000000\n",
        "palisade_store_sync_seconds_sum 5.000000000\n",
    ] {
        assert!(text.contains(line), "{line}");
    }
}

#[test]
fn a_gauge_gives_back_what_was_entered() {
    let metrics = metrics();
    let first = metrics.in_flight_writes.enter();
    let second = metrics.in_flight_writes.enter();
    metrics.in_doubt_keys.set(7);
    metrics.in_doubt_keys.inc();
    metrics.keys.dec();
    drop(first);
    let text = metrics.encode(Format::Text);
    for line in ["in_flight_writes 1\n", "in_doubt_keys 8\n", "keys -1\n", "connections 0\n"] {
        assert!(text.contains(&format!("\npalisade_{line}")), "{line}");
    }
    drop(second);
    assert_eq!(metrics.in_flight_writes.value(), 0);
}

#[test]
fn labels_stand_at_their_numbers_and_differ() {
    let mut words = std::collections::HashSet::new();
    for (number, label) in ResultLabel::ALL.iter().enumerate() {
        assert_eq!(*label as usize, number);
        assert!(words.insert(label.as_str()));
    }
    for (number, class) in MethodClass::ALL.iter().enumerate() {
        assert_eq!(*class as usize, number);
    }
}

#[test]
fn the_format_is_the_one_that_the_client_prefers() {
    let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
        application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
    for (accept, expected) in [
        (&[][..], Format::Text),
        (&["*/*"], Format::Text),
        (&["text/html,*/*;q=0.8"], Format::Text),
        (&["application/openmetrics-text"], Format::OpenMetrics),
        (&["Application/OpenMetrics-Text; version=\"1.0.0\""], Format::OpenMetrics),
        (&["application/openmetrics-text; version=0.0.1"], Format::Text),
        (&["application/openmetrics-text;q=0"], Format::Text),
        (&["application/openmetrics-text;q=x"], Format::Text),
        (&["application/openmetrics-text;q=0.3, text/plain;q=0.9"], Format::Text),
        (&["text/plain;q=0.1", "application/openmetrics-text;q=0.3"], Format::OpenMetrics),
        (&[prometheus], Format::OpenMetrics),
    ] {
        assert_eq!(Format::negotiate(accept.iter().copied()), expected, "{accept:?}");
    }
}
