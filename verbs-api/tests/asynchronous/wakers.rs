//! Who is woken, and who is forgotten.

use crate::ends::{LIMIT, ends, meet, runtime};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use verbs_api::{Device, Driver, Listener};

/// Tasks that were cancelled while they waited leave nothing behind.
#[test]
fn cancelled_waits_leave_no_wakers() {
    struct Task;
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    /// Polls a thousand futures, each in a task of its own, and drops them. How many tasks are
    /// left.
    fn left<F: Future>(future: impl Fn() -> F) -> usize {
        let cancelled = |_| {
            let task = Arc::new(Task);
            let weak = Arc::downgrade(&task);
            let waker = Waker::from(task);
            assert!(pin!(future()).poll(&mut Context::from_waker(&waker)).is_pending());
            weak
        };
        (0..1000).map(cancelled).filter(|task| task.strong_count() > 0).count()
    }
    let ends = ends("async-cancelled", "", 1);
    let [one, _] = &ends;
    let [ours, its] = runtime().block_on(async { timeout(LIMIT, meet(&ends)).await.expect("in time") });
    assert_eq!(left(|| ours.disconnected()), 0, "of disconnected()");
    let listener = Listener::bind(&one.device, 7472).expect("a listener");
    assert_eq!(left(|| listener.request()), 0, "of request()");
    let at = std::env::temp_dir().join(format!("srnic-async-cancelled-{}", std::process::id()));
    let text = format!("memif:{},role=client", at.display());
    let alone = Device::builder().driver(Driver::THREAD).open(&text).expect("a device");
    assert_eq!(left(|| alone.when_link_up()), 0, "of when_link_up()");
    drop(its);
}

/// A future that another task polls next wakes that one, and not the first.
#[test]
fn who_polled_last_is_woken() {
    struct Task(AtomicU32);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let ends = ends("async-moved", "", 1);
    let [ours, its] = runtime().block_on(async { timeout(LIMIT, meet(&ends)).await.expect("in time") });
    let tasks = [0, 1].map(|_| Arc::new(Task(AtomicU32::new(0))));
    let mut over = pin!(its.disconnected());
    for task in &tasks {
        let waker = Waker::from(Arc::clone(task));
        assert!(over.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(ours);
    let (began, woken) = (Instant::now(), |task: &Task| task.0.load(Ordering::Relaxed));
    while woken(&tasks[1]) == 0 {
        assert!(began.elapsed() < LIMIT, "its peer has disconnected");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(tasks.map(|task| woken(&task)), [0, 1]);
}
