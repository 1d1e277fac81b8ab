//! The store's queue and its latch: nothing is lost, nothing comes twice, everybody ends.

use std::sync::{Arc, Mutex};

use palisade_interleave::store::{Jobs, Latch};
use shuttle::thread;

const RUNS: usize = 5_000;

fn explore(scenario: impl Fn() + Clone + Send + Sync + 'static) {
    shuttle::check_random(scenario.clone(), RUNS);
    shuttle::check_pct(scenario, RUNS, 3);
}

#[test]
fn what_is_taken_into_the_queue_comes_out_once_and_readers_end() {
    explore(|| {
        let jobs = Arc::new(Jobs::new(2));
        let (taken, out) = (Arc::new(Mutex::new(vec![])), Arc::new(Mutex::new(vec![])));
        let producers: Vec<_> = (0..2)
            .map(|n| {
                let (jobs, taken) = (Arc::clone(&jobs), Arc::clone(&taken));
                thread::spawn(move || {
                    for item in [n * 10, n * 10 + 1] {
                        if jobs.push(item) {
                            taken.lock().unwrap().push(item);
                        }
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (jobs, out) = (Arc::clone(&jobs), Arc::clone(&out));
                thread::spawn(move || {
                    while let Some(item) = jobs.pop() {
                        out.lock().unwrap().push(item);
                    }
                    assert!(!jobs.push(99), "closed for good");
                })
            })
            .collect();
        producers.into_iter().for_each(|thread| thread.join().unwrap());
        jobs.close();
        readers.into_iter().for_each(|thread| thread.join().unwrap());
        let (mut taken, mut out) = (taken.lock().unwrap().clone(), out.lock().unwrap().clone());
        taken.sort_unstable();
        out.sort_unstable();
        assert_eq!(taken, out);
    });
}

/// The committing thread takes all at once, while the queue is being closed. In a crowd it waits for
/// the first, then takes what has come meanwhile.
#[test]
fn a_close_beside_a_push_loses_nothing_that_was_taken() {
    explore(|| {
        let jobs = Arc::new(Jobs::new(10));
        let pushing = Arc::clone(&jobs);
        let producer = thread::spawn(move || (0..3).filter(|n| pushing.push(*n)).count());
        let taking = Arc::clone(&jobs);
        let reader = thread::spawn(move || {
            let mut seen = 0;
            let next = || {
                let waiting = taking.wait_for_one();
                let items = taking.take_all()?;
                let items: Vec<_> = items.collect();
                assert!(items.len() >= waiting.max(1), "none goes but by being taken");
                Some(items)
            };
            while let Some(items) = next() {
                for item in items {
                    assert_eq!(item, seen, "in order");
                    seen += 1;
                }
            }
            seen
        });
        jobs.close();
        assert_eq!(producer.join().unwrap(), reader.join().unwrap());
    });
}

/// R2: whenever a hook is handed in, it is called once, with the first reason.
#[test]
fn the_latch_tells_every_hook_once() {
    explore(|| {
        let latch = Arc::new(Latch::default());
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Vec::new();
        for reason in ["disk", "thread"] {
            let latch = Arc::clone(&latch);
            threads.push(thread::spawn(move || {
                latch.set(reason);
                assert!(latch.is_set());
            }));
        }
        for hook in 0..2 {
            let (latch, told) = (Arc::clone(&latch), Arc::clone(&told));
            threads.push(thread::spawn(move || {
                latch.on_set(move |reason| told.lock().unwrap().push((hook, reason)));
            }));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut told = told.lock().unwrap().clone();
        told.sort_unstable();
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!((told[0].0, told[1].0), (0, 1));
        assert_eq!(told[0].1, told[1].1, "one reason");
        assert!(latch.error().unwrap().to_string().ends_with(&told[0].1));
    });
}

/// A push is heard by a reader that waits: its answer comes while the queue is open.
#[test]
fn what_is_pushed_is_served_before_the_close() {
    explore(|| {
        let (jobs, answers) = (Arc::new(Jobs::new(10)), Arc::new(Jobs::new(10)));
        let (taking, giving) = (Arc::clone(&jobs), Arc::clone(&answers));
        let reader = thread::spawn(move || {
            while let Some(item) = taking.pop() {
                assert!(giving.push(item));
            }
        });
        for item in 0..2 {
            assert!(jobs.push(item));
            assert_eq!(answers.pop(), Some(item));
        }
        jobs.close();
        reader.join().unwrap();
    });
}
