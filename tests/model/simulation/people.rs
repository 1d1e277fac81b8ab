//! Clients, who hold locks or believe that they do, and an operator.

use std::{sync::Arc, time::Duration};

use palisade::{
    fence::{Limits, Token},
    gate::OperatorError,
};
use tokio::{sync::oneshot, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    book::{ALL_KEYS, At, KEYS, SETS},
    breakage::Breakage,
    life::Life,
    plan::{Mode, Upstream},
    proxy::{self, Request},
    sets::{self, Several},
    world::World,
};

/// A client: for each key the token that it holds, however old that is by now.
type Grants = [Option<u64>; ALL_KEYS];

/// Asks until the world is calm.
pub(super) async fn client(world: Arc<World>, name: u64) {
    let mut grants = [None; ALL_KEYS];
    while !world.calm.is_cancelled() {
        world.nap(0..world.profile.pause).await;
        let Some(life) = world.life() else { continue };
        if world.chance(world.profile.operators) {
            operate(&life).await;
            continue;
        }
        if world.chance(15) {
            several(life, &mut grants);
            continue;
        }
        let request = draw(&life, &mut grants, name);
        let at = request.at;
        let side = ask(life, request);
        // Most wait for their answer before they ask again, and some of them then know better.
        if world.chance(60) {
            if !side.await && world.chance(60) {
                grants[at.index()] = None;
            }
        } else {
            world.crowd(async move {
                side.await;
            });
        }
    }
}

/// A client's side of a request: until it is answered, its process is gone, or it leaves. Whether
/// it was answered by letting it through.
pub(super) async fn ask(life: Arc<Life>, request: Request) -> bool {
    let world = Arc::clone(&life.world);
    let leaves = request.leaves.clone();
    let (tell, told) = oneshot::channel();
    let impatience = world.fault(world.profile.fickle).then(|| world.pick(0..2000));
    life.spawn(proxy::handle(Arc::clone(&life), request, tell));
    drop(life);
    let patience = async {
        match impatience {
            Some(millis) => sleep(Duration::from_millis(millis)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        through = told => through.unwrap_or(false),
        () = patience => {
            leaves.cancel();
            false
        }
    }
}

/// A request of several keys, under one lock.
fn several(life: Arc<Life>, grants: &mut Grants) {
    let world = Arc::clone(&life.world);
    let lock = At { upstream: SETS, key: 0 };
    let grant = &mut grants[lock.index()];
    if grant.is_none() || world.chance(40) {
        *grant = Some(granted(&world, lock));
    }
    let Some(token) = *grant else { return };
    let mut keys: Vec<usize> = (0..KEYS).filter(|_| world.chance(60)).collect();
    if keys.is_empty() {
        keys.push(0);
    }
    let parts = parts(&world);
    world.crowd(async move {
        ask_several(life, Several { keys, token, parts }).await;
    });
}

/// Whether it was let through.
pub(super) async fn ask_several(life: Arc<Life>, request: Several) -> bool {
    let (tell, told) = oneshot::channel();
    life.spawn(sets::handle(Arc::clone(&life), request, tell));
    drop(life);
    told.await.unwrap_or(false)
}

fn draw(life: &Life, grants: &mut Grants, name: u64) -> Request {
    let world = &life.world;
    let upstreams = &life.config.upstreams;
    let upstream = &upstreams[world.draw(|chance| chance.usize(..upstreams.len()))];
    let key = world.draw(|chance| chance.usize(..world.profile.keys as usize));
    let at = At { upstream: upstream.number, key };
    let grant = &mut grants[at.index()];
    if grant.is_none() || world.chance(25) {
        // The lock was lost or given back, and is granted anew.
        *grant = Some(granted(world, at));
    }
    let tokenless = match upstream.mode {
        Mode::Required => false,
        Mode::Sticky | Mode::Observe => world.chance(40),
        Mode::Off => true,
    };
    let token = grant.filter(|_| !tokenless);
    let names = token.is_some() && world.chance(20);
    let holder = names.then(|| if world.chance(90) { format!("c{name}") } else { "thief".into() });
    let claim = token.is_some() && proxy::takes_claims(upstream.mode) && world.chance(20);
    Request { at, token, holder, claim, parts: parts(world), leaves: CancellationToken::new() }
}

fn granted(world: &World, at: At) -> u64 {
    let more = world.pick(1..4);
    world.judge(|book, _| {
        let next = &mut book.key(at).next;
        *next += more;
        *next
    })
}

fn parts(world: &World) -> Vec<Option<u64>> {
    let mut parts = vec![Some(0)];
    if world.chance(30) {
        parts.extend((0..world.pick(1..4)).map(|_| Some(world.pick(0..100))));
    }
    if world.fault(world.profile.fickle) {
        parts.push(None);
    }
    parts
}

/// A write that nothing should hold back for long.
pub(super) fn plain(upstream: &Upstream, key: usize, token: u64) -> Request {
    Request {
        at: At { upstream: upstream.number, key },
        token: (upstream.mode != Mode::Off).then_some(token),
        holder: None,
        claim: false,
        parts: vec![Some(0)],
        leaves: CancellationToken::new(),
    }
}

/// One act of the operator's, on a key of his choice.
async fn operate(life: &Arc<Life>) {
    let world = &life.world;
    let upstreams = &life.config.upstreams;
    let upstream = &upstreams[world.draw(|chance| chance.usize(..upstreams.len()))];
    let key = world.draw(|chance| chance.usize(..world.profile.keys as usize));
    let at = At { upstream: upstream.number, key };
    let act = world.pick(0..3);
    let resets = u32::from(act == 2);
    world.judge(|book, _| book.key(at).resetting += resets);
    let act = async {
        match act {
            0 => advance(life, at).await,
            1 => release(life, at).await,
            _ => return reset(life, at).await,
        }
        true
    };
    let is_known = tokio::select! {
        biased;
        () = life.over.cancelled() => false,
        is_known = act => is_known,
    };
    world.judge(|book, _| {
        book.key(at).resetting -= resets;
        if resets > 0 && !is_known {
            book.may_be_void(at);
        }
    });
}

async fn advance(life: &Life, at: At) {
    let (world, Some(key)) = (&life.world, life.key(at)) else { return };
    let token = granted(world, at);
    let epoch = world.judge(|book, _| book.key(at).epoch);
    let answer = || {
        world.count("advances");
        world.note(format_args!("operator: advanced {at} to {token}"));
        world.judge(|book, _| {
            if book.key(at).epoch == epoch {
                book.answer(at, Some(token));
            }
        });
    };
    if world.broken == Some(Breakage::AdvancesWithoutTheStore) {
        return answer();
    }
    if life.gate.advance(&key, Token::new(token), Limits::default()).await.is_ok() {
        life.alive().await;
        answer();
    }
}

/// A truthful one: what is in doubt when he looks, and only that, is seen to.
async fn release(life: &Life, at: At) {
    let (world, Some(key)) = (&life.world, life.key(at)) else { return };
    let shown = life.gate.show(&key).await;
    life.alive().await;
    if shown.is_err() {
        return;
    }
    world.note(format_args!("operator: releases {at}"));
    if world.broken != Some(Breakage::ReleasesWhatComes) {
        world.judge(|book, _| book.vouch(at));
    }
    if life.gate.release(&key).await.is_ok() {
        world.count("releases");
    }
}

/// Tokens begin anew. While it is under way the judge asks for less. Whether it is known what
/// became of it.
async fn reset(life: &Life, at: At) -> bool {
    let (world, Some(key)) = (&life.world, life.key(at)) else { return true };
    let done = life.gate.reset(&key).await;
    world.note(format_args!("operator: resets {at}, {done:?}"));
    if done.is_ok() {
        world.count("resets by the operator");
        world.judge(|book, _| {
            book.void(at);
            book.key(at).next = 0;
        });
    }
    matches!(done, Ok(()) | Err(OperatorError::Busy))
}
