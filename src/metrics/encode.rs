//! Names, help and order of the series.

use std::sync::atomic::Ordering::Relaxed;

use super::{
    Format, MethodClass, Metrics, ResultLabel,
    histogram::Histogram,
    writer::{Kind, Seconds, Writer},
};

pub(super) fn encode(metrics: &Metrics, format: Format) -> String {
    let mut out = Writer::new(format);
    out.family("build_info", Kind::Gauge, "Always 1; the label tells the version.");
    out.gauge(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    requests(metrics, &mut out);
    fence(metrics, &mut out);
    gauges(metrics, &mut out);
    other_sides(metrics, &mut out);
    out.finish()
}

/// Requests by route and result. Every counter is there from the start, so that a first refusal is
/// an increase; a histogram is there once it has seen something.
fn requests(metrics: &Metrics, out: &mut Writer) {
    out.family(
        "requests",
        Kind::Counter,
        "Requests by route and by what was let through, or why not.",
    );
    each_result(metrics, |labels, histogram| out.counter(labels, histogram.count()));
    out.family(
        "request_seconds",
        Kind::Histogram,
        "From a request's head to its outcome, waiting included.",
    );
    each_result(metrics, |labels, histogram| {
        if histogram.count() > 0 {
            out.histogram(labels, histogram);
        }
    });
    out.family(
        "stale_writes",
        Kind::Counter,
        "Writes with a token below the mark: work that went on after its lock was lost.",
    );
    for series in &metrics.series {
        out.counter(&[("route", &series.label)], series.stale_writes.load(Relaxed));
    }
}

fn each_result(metrics: &Metrics, mut visit: impl FnMut(&[(&'static str, &str)], &Histogram)) {
    for series in &metrics.series {
        for (result, histogram) in ResultLabel::ALL.iter().zip(&series.requests) {
            visit(&[("route", &series.label), ("result", result.as_str())], histogram);
        }
    }
}

fn fence(metrics: &Metrics, out: &mut Writer) {
    out.family("takeovers", Kind::Counter, "Times that a higher token cut lower writes.");
    out.counter(&[], metrics.takeovers.load(Relaxed));
    out.family("raises", Kind::Counter, "Marks raised durably.");
    out.counter(&[], metrics.raises.count());
    out.family("raise_seconds", Kind::Histogram, "From a verdict to the synced record.");
    out.histogram(&[], &metrics.raises);
    out.family(
        "drain_seconds",
        Kind::Histogram,
        "How long a write or claim waited for lower writes.",
    );
    out.histogram(&[], &metrics.drains);
    out.family(
        "hold_seconds",
        Kind::Histogram,
        "From the first to the last write seen under one token.",
    );
    out.histogram(&[], &metrics.holds);
}

fn gauges(metrics: &Metrics, out: &mut Writer) {
    let gauges = [
        (
            "in_flight_writes",
            &metrics.in_flight_writes,
            "Writes let through whose outcome is not known yet.",
        ),
        (
            "in_doubt_keys",
            &metrics.in_doubt_keys,
            "Keys with a write that the upstream may still apply.",
        ),
        (
            "waiting_writes",
            &metrics.waiting_writes,
            "Writes and claims that wait for lower writes, a doubt or a quarantine.",
        ),
        ("keys", &metrics.keys, "Keys in memory; those at rest are in the store only."),
        ("connections", &metrics.connections, "Client connections that are open."),
    ];
    for (name, gauge, help) in gauges {
        out.family(name, Kind::Gauge, help);
        out.gauge(&[], gauge.value());
    }
    out.family(
        "quarantine_seconds",
        Kind::Gauge,
        "What is left of the longest quarantine after a start that was not clean.",
    );
    out.gauge(&[], Seconds(metrics.quarantine_nanos.load(Relaxed)));
}

fn other_sides(metrics: &Metrics, out: &mut Writer) {
    out.family(
        "upstream_seconds",
        Kind::Histogram,
        "From a request's permit to the upstream's whole answer or failure.",
    );
    for (class, histogram) in MethodClass::ALL.iter().zip(&metrics.upstream) {
        out.histogram(&[("class", class.as_str())], histogram);
    }
    out.family("store_sync_seconds", Kind::Histogram, "How long a commit to the store took.");
    out.histogram(&[], &metrics.store_syncs);
}
