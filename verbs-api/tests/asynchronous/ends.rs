//! Two ends that are connected, and a runtime that runs tasks beside them.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use verbs_api::{
    Access, AsyncQueuePair, BufferPool, Completions, Connector, Device, Driver, Listener, MemoryRegion,
    ProtectionDomain,
};

pub const MESSAGE: usize = 4096;

pub const LIMIT: Duration = Duration::from_secs(60);

pub struct End {
    pub device: Device,
    pub pd: ProtectionDomain,
    pub completions: Completions,
    pub memory: MemoryRegion,
    pub pool: BufferPool,
    pub pair: AsyncQueuePair,
}

/// Two ends that are connected, with `buffers` buffers each.
pub fn ends(name: &str, faults: &str, buffers: usize) -> [End; 2] {
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let prepare = |text: String| {
        let device = Device::builder().driver(Driver::THREAD).open(&text).expect("a device");
        let (pd, completions) = (device.alloc_pd(), Completions::new(&device, 1024).expect("a queue"));
        let memory = pd.register(MESSAGE, access).expect("memory");
        let pool = BufferPool::new(pd.register(MESSAGE * buffers, access).expect("memory"), MESSAGE);
        let prepared = completions.queue_pair(&pd).access(access).timeout(18).build().expect("a queue pair");
        (device, pd, completions, memory, pool.expect("buffers"), prepared)
    };
    let (one, two) = (prepare(format!("{faults}sim:{name}")), prepare(format!("sim:{name}")));
    let (to_one, to_two) = (one.5.endpoint(), two.5.endpoint());
    [(one, to_two), (two, to_one)].map(|((device, pd, completions, memory, pool, prepared), peer)| {
        let pair = AsyncQueuePair::new(&completions, prepared.connect(&peer).expect("connected"))
            .expect("completes there");
        End { device, pd, completions, memory, pool, pair }
    })
}

/// A runtime on this thread.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Runs `program` beside the tasks that wake it.
pub fn run<F: Future>(ends: &[End; 2], program: F) -> F::Output {
    runtime().block_on(async {
        for end in ends {
            tokio::spawn(end.completions.drive());
        }
        timeout(LIMIT, program).await.expect("it ends within a minute")
    })
}

/// Polls once, without anybody to wake.
pub fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Both, side by side.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(end) = a.as_mut().poll(context)
        {
            first = Some(end);
        }
        if second.is_none()
            && let Poll::Ready(end) = b.as_mut().poll(context)
        {
            second = Some(end);
        }
        if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (first.expect("both are ready"), second.expect("both are ready"))
}

/// Two ends that are connected by address, and run beside their tasks.
pub async fn meet([one, two]: &[End; 2]) -> [AsyncQueuePair; 2] {
    let listener = Listener::bind(&two.device, 7471).expect("a listener");
    let build = |end: &End| end.completions.queue_pair(&end.pd).build().expect("a queue pair");
    let connecting = Connector::new().connect(build(one), listener.local_addr()).expect("begun");
    let request = listener.request().await.expect("a thread drives it");
    let accepting = request.accept(build(two)).expect("accepted");
    let pairs = (connecting.await.expect("connected"), accepting.await.expect("connected"));
    [(one, pairs.0), (two, pairs.1)]
        .map(|(end, pair)| AsyncQueuePair::new(&end.completions, pair).expect("completes there"))
}
