//! tokio itself, but for its bell: before and after each step of `Notify` another thread may run,
//! so that what stands beside the step can be torn apart. What happens within a step is tokio's.

pub use real::{runtime, select, task, time};

pub mod sync {
    use std::sync::Arc;

    pub use real::sync::oneshot;

    #[derive(Debug, Default)]
    pub struct Notify(Arc<real::sync::Notify>);

    pub mod futures {
        pub use real::sync::futures::OwnedNotified;
    }

    impl Notify {
        pub fn new() -> Self {
            Self::default()
        }

        pub fn notified(&self) -> impl Future<Output = ()> + use<> {
            between(|| Arc::clone(&self.0).notified_owned())
        }

        pub fn notified_owned(self: Arc<Self>) -> futures::OwnedNotified {
            between(|| Arc::clone(&self.0).notified_owned())
        }

        pub fn notify_one(&self) {
            between(|| self.0.notify_one());
        }

        pub fn notify_waiters(&self) {
            between(|| self.0.notify_waiters());
        }
    }

    /// A step between two places where the scheduler may choose another thread.
    fn between<T>(step: impl FnOnce() -> T) -> T {
        turn();
        let done = step();
        turn();
        done
    }

    fn turn() {
        use shuttle::sync::atomic::{AtomicBool, Ordering};
        AtomicBool::new(false).load(Ordering::SeqCst);
    }
}
