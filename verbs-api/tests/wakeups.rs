//! Tasks that wait for one thing: none is forgotten, and what a woken task drops may be the device
//! itself.
#![cfg(feature = "async")]

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use verbs_api::{
    Access, AsyncQueuePair, BufferPool, Completions, Connecting, Connector, Device, Driver, Listener,
};

/// Only who waits for ever needs this long.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counted() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (Arc::clone(&count), Waker::from(count))
}

#[test]
fn each_stream_that_waits_for_a_buffer_of_one_pool_is_woken() {
    let [here, there] = [(); 2].map(|()| {
        let device = Device::builder().driver(Driver::THREAD).open("sim:wakeups-pool").expect("a device");
        let (pd, completions) = (device.alloc_pd(), Completions::new(&device, 64).expect("a queue"));
        let prepared = completions.queue_pair(&pd).build().expect("a queue pair");
        (pd, completions, prepared)
    });
    let (pd, completions, prepared) = here;
    let pair = prepared.connect(&there.2.endpoint()).expect("connected");
    let pair = AsyncQueuePair::new(&completions, pair).expect("completes there");
    let memory = pd.register(2 * 64, Access::LOCAL_WRITE).expect("memory");
    let pool = BufferPool::new(memory, 64).expect("buffers");
    let (first, second) = (pool.take().expect("free"), pool.take().expect("free"));
    // Two streams share the pool, which is empty.
    let (mut one, mut two) = (pair.receives(&pool, 1), pair.receives(&pool, 1));
    let ((count_one, waker_one), (count_two, waker_two)) = (counted(), counted());
    assert!(pin!(one.next()).poll(&mut Context::from_waker(&waker_one)).is_pending());
    assert!(pin!(two.next()).poll(&mut Context::from_waker(&waker_two)).is_pending());
    drop(first);
    drop(second);
    assert_eq!(pool.free(), 2);
    let woken = [count_one, count_two].map(|count| count.0.load(Ordering::SeqCst) > 0);
    assert_eq!(woken, [true, true], "both buffers are there again, and both streams wait for one");
}

#[test]
fn a_cancelled_wait_for_a_request_does_not_take_the_wake_up_of_another() {
    let there = Device::builder().driver(Driver::THREAD).open("sim:wakeups-listener").expect("a device");
    let listener = Listener::bind(&there, 7471).expect("nobody listens");
    let (count, waker) = counted();
    let mut stays = pin!(listener.request());
    assert!(stays.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    {
        let (_, waker) = counted();
        let mut cancelled = pin!(listener.request());
        assert!(cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let here = Device::builder().driver(Driver::THREAD).open("sim:wakeups-listener").expect("a device");
    let (pd, cq) = (here.alloc_pd(), here.create_cq(16).expect("a queue"));
    let pair = pd.queue_pair(&cq, &cq).build().expect("a queue pair");
    let _connecting = Connector::new().connect(pair, listener.local_addr()).expect("begun");
    let deadline = Instant::now() + LIMIT;
    while count.0.load(Ordering::SeqCst) == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let woken = count.0.load(Ordering::SeqCst) > 0;
    let waits = stays.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(woken, "a request waits ({waits}), and nobody was woken for it");
}

/// A task whose executor is gone: its last reference is the waker.
struct Task(Mutex<Option<Connecting>>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

static PANICKED: AtomicBool = AtomicBool::new(false);

#[test]
fn the_engines_thread_may_drop_the_last_handle_of_its_device() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() == Some("srnic-engine") {
            PANICKED.store(true, Ordering::SeqCst);
        }
        before(info);
    }));
    let there = Device::open("sim:wakeups-last").expect("a device");
    let listener = Listener::bind(&there, 7471).expect("nobody listens");
    let nobody = SocketAddr::new(listener.local_addr().ip(), 7472);
    let here = Device::builder().driver(Driver::THREAD).open("sim:wakeups-last").expect("a device");
    let (pd, cq) = (here.alloc_pd(), here.create_cq(16).expect("a queue"));
    let pair = pd.queue_pair(&cq, &cq).build().expect("a queue pair");
    let connecting = Connector::new().connect(pair, nobody).expect("begun");
    let task = Arc::new(Task(Mutex::new(Some(connecting))));
    let gone = Arc::downgrade(&task);
    let waker = Waker::from(Arc::clone(&task));
    {
        let mut connecting = task.0.lock().expect("not poisoned");
        let connecting = connecting.as_mut().expect("there");
        assert!(Pin::new(connecting).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    // The program lets go of everything; the peer's refusal wakes what is left.
    drop((waker, task, pd, cq, here));
    let deadline = Instant::now() + LIMIT;
    while gone.strong_count() > 0 && Instant::now() < deadline {
        there.progress();
        std::thread::yield_now();
    }
    assert_eq!(gone.strong_count(), 0, "it was woken");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!PANICKED.load(Ordering::SeqCst), "the engine's thread waited for itself");
}

/// A task that is nobody's any more, with a buffer.
struct Owner(#[expect(dead_code, reason = "only dropped")] Mutex<Option<verbs_api::Buffer>>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_goes_may_give_a_buffer_back() {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let device = Device::builder().driver(Driver::THREAD).open("sim:wakeups-owner").expect("a device");
        let peer = Device::builder().driver(Driver::THREAD).open("sim:wakeups-owner").expect("a device");
        let make = |device: &Device| {
            let (pd, completions) = (device.alloc_pd(), Completions::new(device, 64).expect("a queue"));
            let prepared = completions.queue_pair(&pd).build().expect("a queue pair");
            (pd, completions, prepared)
        };
        let ((pd, completions, prepared), (_its_pd, _its_completions, its)) = (make(&device), make(&peer));
        let pair = prepared.connect(&its.endpoint()).expect("connected");
        let pair = AsyncQueuePair::new(&completions, pair).expect("completes there");
        let memory = pd.register(64, Access::LOCAL_WRITE).expect("memory");
        let pool = BufferPool::new(memory, 64).expect("buffers");
        let owner = Waker::from(Arc::new(Owner(Mutex::new(pool.take()))));
        let (mut one, mut two) = (pair.receives(&pool, 1), pair.receives(&pool, 1));
        assert!(pin!(one.next()).poll(&mut Context::from_waker(&owner)).is_pending());
        drop(owner);
        let (_, waker) = counted();
        assert!(pin!(two.next()).poll(&mut Context::from_waker(&waker)).is_pending());
        let _ = done.send(());
    });
    assert!(ended.recv_timeout(LIMIT).is_ok(), "it waits for a lock that it has");
}

#[test]
fn a_waker_that_goes_with_a_listener_may_end_a_connection() {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let device = Device::builder().driver(Driver::THREAD).open("sim:wakeups-close").expect("a device");
        let listener = Listener::bind(&device, 7471).expect("nobody listens");
        let (pd, cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
        let pair = pd.queue_pair(&cq, &cq).build().expect("a queue pair");
        let nobody = SocketAddr::new([10, 77, 0, 250].into(), 1);
        let connecting = Connector::new().connect(pair, nobody).expect("begun");
        let waker = Waker::from(Arc::new(Task(Mutex::new(Some(connecting)))));
        assert!(pin!(listener.request()).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        drop(listener);
        let _ = done.send(());
    });
    assert!(ended.recv_timeout(LIMIT).is_ok(), "it waits for a lock that it has");
}

/// A task that is nobody's any more, with an operation.
struct Waits(#[expect(dead_code, reason = "only dropped")] Mutex<Option<verbs_api::Operation>>);

impl Wake for Waits {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_is_replaced_may_cancel_an_operation() {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let open = || Device::builder().driver(Driver::THREAD).open("sim:wakeups-cancel").expect("a device");
        let (device, peer) = (open(), open());
        let (pd, completions) = (device.alloc_pd(), Completions::new(&device, 64).expect("a queue"));
        let (its_pd, its_cq) = (peer.alloc_pd(), peer.create_cq(16).expect("a queue"));
        let its = its_pd.queue_pair(&its_cq, &its_cq).build().expect("a queue pair");
        let prepared = completions.queue_pair(&pd).build().expect("a queue pair");
        let pair = prepared.connect(&its.endpoint()).expect("connected");
        let pair = AsyncQueuePair::new(&completions, pair).expect("completes there");
        let memory = pd.register(2 * 64, Access::LOCAL_WRITE).expect("memory");
        let pool = BufferPool::new(memory, 64).expect("buffers");
        let mut stays = pin!(pair.recv(pool.take().expect("free")));
        let other = pair.recv(pool.take().expect("free"));
        let waker = Waker::from(Arc::new(Waits(Mutex::new(Some(other)))));
        assert!(stays.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        // It moves to another task.
        assert!(stays.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let _ = done.send(());
    });
    assert!(ended.recv_timeout(LIMIT).is_ok(), "it waits for a lock that it has");
}
