//! The rule alone: what a verdict costs, without disk, clock or sockets.
//!
//! `cargo bench --bench fence`. Ids read as settings: `in_flight` is the number of writes of the
//! highest token that are open meanwhile.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use palisade::fence::{Admission, Fence, Limits, Mark, Moment, Offer, Outcome, Regime, Token};

const OPEN: [usize; 2] = [1, 64];

fn offer(token: u64) -> Offer<'static> {
    let token = Some(Token::new(token));
    Offer { token, holder: None, claim: false, limits: Limits::default() }
}

fn regime() -> Regime {
    Regime { now: Moment(1), ..Regime::default() }
}

/// A key whose mark is `token`, durable, with that many writes of it in flight.
fn busy(token: u64, in_flight: usize) -> Fence {
    let mark = Mark { token: Some(Token::new(token)), ..Mark::default() };
    let mut fence = Fence::new(Some(mark));
    for _ in 0..in_flight {
        let admission = fence.offer(&offer(token), regime());
        assert!(matches!(admission, Admission::Forward { .. }), "{admission:?}");
    }
    fence
}

fn settle(fence: &mut Fence, token: u64) {
    fence.settle(Some(Token::new(token)), Outcome::Answered, Moment(1));
}

/// The common write: no disk, no wait.
fn equal(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fence/offer/equal");
    for in_flight in OPEN {
        let mut fence = busy(5, in_flight);
        group.bench_function(BenchmarkId::from_parameter(setting(in_flight)), |bencher| {
            bencher.iter(|| {
                black_box(fence.offer(black_box(&offer(5)), regime()));
                settle(&mut fence, 5);
            });
        });
    }
    group.finish();
}

/// The refusal.
fn stale(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fence/offer/stale");
    for in_flight in OPEN {
        let mut fence = busy(5, in_flight);
        group.bench_function(BenchmarkId::from_parameter(setting(in_flight)), |bencher| {
            bencher.iter(|| black_box(fence.offer(black_box(&offer(4)), regime())));
        });
    }
    group.finish();
}

/// A takeover with nothing to wait for: seen, made durable at once, let through, settled.
fn raise(criterion: &mut Criterion) {
    let mut fence = busy(5, 0);
    let mut token = 5;
    criterion.bench_function("fence/offer/raise/in_flight=0", |bencher| {
        bencher.iter(|| {
            token += 1;
            if let Admission::Raise(mark) = fence.offer(&offer(token), regime()) {
                fence.raised(&mark, mark.clone());
            }
            let admission = fence.offer(&offer(token), regime());
            assert!(matches!(admission, Admission::Forward { .. }), "{admission:?}");
            settle(&mut fence, token);
        });
    });
}

fn setting(in_flight: usize) -> String {
    format!("in_flight={in_flight}")
}

criterion_group!(benches, equal, stale, raise);
criterion_main!(benches);
