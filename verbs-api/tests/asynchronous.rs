//! Completions as futures, with tokio over `sim:` devices; and what a cancelled one leaves.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use verbs_api::{
    Access, AsyncEvent, AsyncQueuePair, BufferPool, Completions, Connector, Device, Driver, Error, Listener,
    MemoryRegion, ProtectionDomain, RecvRequest, SendData, SendRequest, WcStatus,
};

const MESSAGE: usize = 4096;
const LIMIT: Duration = Duration::from_secs(60);

struct End {
    _device: Device,
    _pd: ProtectionDomain,
    completions: Completions,
    memory: MemoryRegion,
    pool: BufferPool,
    pair: AsyncQueuePair,
}

/// A device without a thread has nobody who would wake the task.
#[test]
fn a_task_waits_for_a_link() {
    let at = std::env::temp_dir().join(format!("srnic-async-link-{}", std::process::id()));
    let open = |role: &str, driver| {
        let text = format!("memif:{},role={role}", at.display());
        Device::builder().driver(driver).open(&text).expect("a device")
    };
    let server = open("server", Driver::THREAD);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        timeout(Duration::from_millis(100), server.when_link_up()).await.expect_err("nobody is there");
        assert!(server.link_down().is_some());
        let waits = tokio::spawn({
            let server = server.clone();
            async move { server.when_link_up().await }
        });
        tokio::task::yield_now().await;
        let client = open("client", Driver::THREAD);
        timeout(LIMIT, client.when_link_up()).await.expect("in time").expect("a link");
        timeout(LIMIT, waits).await.expect("in time").expect("no panic").expect("a link");
        client.when_link_up().await.expect("it is up");
        drop(client);
        let inline = open("client", Driver::Inline);
        assert!(matches!(inline.when_link_up().await, Err(Error::Unsupported(_))));
    });
}

/// Two ends that are connected, with `buffers` buffers each.
fn ends(name: &str, faults: &str, buffers: usize) -> [End; 2] {
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
    [(one, to_two), (two, to_one)].map(|((_device, _pd, completions, memory, pool, prepared), peer)| {
        let pair = AsyncQueuePair::new(&completions, prepared.connect(&peer).expect("connected"))
            .expect("completes there");
        End { _device, _pd, completions, memory, pool, pair }
    })
}

/// Runs `program` beside the tasks that wake it.
fn run<F: Future>(ends: &[End; 2], program: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for end in ends {
            tokio::spawn(end.completions.drive());
        }
        timeout(LIMIT, program).await.expect("it ends within a minute")
    })
}

#[test]
fn messages_come_back_through_loss_and_all_buffers_with_them() {
    let ends = ends("async-echo", "fault:loss=5%,seed=3:", 16);
    let [one, two] = &ends;
    run(&ends, async {
        let mut questions = two.pair.receives(&two.pool, 8);
        let mut answers = one.pair.receives(&one.pool, 8);
        for number in 0_u32..200 {
            let mut question = one.pool.take().expect("half are free");
            question.set(&number.to_le_bytes().repeat(500)).expect("it fits");
            let sent = one.pair.send(question);
            let asked = questions.next().await.expect("a message").expect("posted");
            drop(two.pair.send(asked.buffer));
            let answer = answers.next().await.expect("a message").expect("posted").buffer;
            assert_eq!(answer.to_vec().expect("inside"), number.to_le_bytes().repeat(500));
            assert_eq!(sent.await.expect("posted").completion.status, WcStatus::Success);
        }
    });
    // What was dropped unfinished goes back when the engine has done with it.
    run(&ends, async {
        while two.pool.free() + one.pool.free() < 16 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn reads_and_writes_are_awaited() {
    let ends = ends("async-rdma", "", 2);
    let [one, two] = &ends;
    run(&ends, async {
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"one-sided").expect("it fits");
        let done = one.pair.write(buffer, two.memory.remote().at(8)).await.expect("posted");
        assert_eq!(done.completion.status, WcStatus::Success);
        let mut buffer = done.buffer;
        buffer.set(&[0; 5]).expect("it fits");
        let done = one.pair.read(buffer, two.memory.remote().at(12)).await.expect("posted");
        assert_eq!(done.buffer.to_vec().expect("inside"), b"sided");
        // Outside of the peer's region: an end like others, and the buffer comes back.
        let done = one.pair.write(done.buffer, two.memory.remote().at(1 << 20)).await.expect("posted");
        assert_eq!((done.completion.status, done.buffer.len()), (WcStatus::RemAccessErr, 5));
    });
}

/// Polls once, without anybody to wake.
fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_cancelled_receive_keeps_its_buffer_until_the_engine_has_done_with_it() {
    let ends = ends("async-cancel", "", 1);
    let [one, two] = &ends;
    assert!(poll_once(two.pair.recv(two.pool.take().expect("free"))).is_pending());
    // The future is gone, the receive is not: nobody else gets its buffer.
    assert!(two.pool.take().is_none());
    run(&ends, async {
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"for nobody").expect("it fits");
        one.pair.send(buffer).await.expect("posted");
        let again = loop {
            match two.pool.take() {
                Some(buffer) => break buffer,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        let next = two.pair.recv(again);
        let mut buffer = one.pool.take().expect("it came back");
        buffer.set(b"for somebody").expect("it fits");
        one.pair.send(buffer).await.expect("posted");
        assert_eq!(next.await.expect("posted").buffer.to_vec().expect("inside"), b"for somebody");
    });
}

#[test]
fn a_stream_that_is_waited_for_in_vain_loses_nothing() {
    let ends = ends("async-stream", "", 4);
    let [one, two] = &ends;
    run(&ends, async {
        let mut messages = two.pair.receives(&two.pool, 2);
        for number in 0_u8..20 {
            // As `select!` does with the branch that is not ready.
            assert!(poll_once(messages.next()).is_pending());
            let mut buffer = one.pool.take().expect("free");
            buffer.set(&[number]).expect("it fits");
            one.pair.send(buffer).await.expect("posted");
            let message = messages.next().await.expect("a message").expect("posted");
            assert_eq!(message.buffer.to_vec().expect("inside"), [number]);
        }
    });
}

#[test]
fn a_stream_without_buffers_goes_on_when_one_comes_back() {
    let ends = ends("async-starved", "", 1);
    let [one, two] = &ends;
    let held = two.pool.take().expect("free");
    run(&ends, async {
        let mut messages = two.pair.receives(&two.pool, 1);
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"late").expect("it fits");
        let sent = one.pair.send(buffer);
        let give_back = async {
            tokio::task::yield_now().await;
            drop(held);
        };
        let receive = async { messages.next().await.expect("a message").expect("posted").buffer.to_vec() };
        let (received, ()) = join(receive, give_back).await;
        assert_eq!(received.expect("inside"), b"late");
        sent.await.expect("posted");
    });
}

#[test]
fn a_stream_has_one_receive_at_least() {
    let ends = ends("async-depth", "", 2);
    let [one, two] = &ends;
    run(&ends, async {
        let mut messages = two.pair.receives(&two.pool, 0);
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"still").expect("it fits");
        let sent = one.pair.send(buffer);
        let received = messages.next().await.expect("a message").expect("posted").buffer.to_vec();
        assert_eq!(received.expect("inside"), b"still");
        sent.await.expect("posted");
    });
}

#[test]
fn a_queue_pair_that_completes_elsewhere_is_refused() {
    let device = Device::builder().driver(Driver::THREAD).open("sim:async-elsewhere").expect("a device");
    let pd = device.alloc_pd();
    let [completions, others] = [0, 1].map(|_| Completions::new(&device, 16).expect("a queue"));
    let prepared = others.queue_pair(&pd).build().expect("a queue pair");
    let itself = prepared.endpoint();
    let pair = prepared.connect(&itself).expect("connected to itself");
    let error = AsyncQueuePair::new(&completions, pair).err().expect("refused");
    assert!(matches!(error, Error::ForeignQueuePair), "{error}");
}

/// Both, side by side.
async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
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

#[test]
fn what_a_dropped_queue_pair_had_ends() {
    let [one, two] = ends("async-gone", "", 2);
    let awaited = two.pair.recv(two.pool.take().expect("free"));
    drop(two.pair.recv(two.pool.take().expect("free")));
    assert_eq!(two.pool.free(), 0);
    drop(two.pair);
    assert_eq!(two.pool.free(), 1, "nobody awaited the other");
    let Poll::Ready(Err(error)) = poll_once(awaited) else { panic!("it has ended") };
    assert!(matches!(error, Error::QueuePairGone), "{error}");
    assert_eq!(two.pool.free(), 2);
    drop(one);
}

#[test]
fn a_device_that_nobody_drives_is_refused() {
    let device = Device::open("sim:async-inline").expect("a device");
    let error = Completions::new(&device, 16).err().expect("it would wait for ever").to_string();
    assert!(error.contains("Driver::THREAD"), "{error}");
    let memory = device.alloc_pd().register(10, Access::empty()).expect("memory");
    assert!(BufferPool::new(memory.clone(), 11).is_err() && BufferPool::new(memory.clone(), 0).is_err());
    let mut buffer = BufferPool::new(memory, 10).expect("one fits").take().expect("free");
    assert!(buffer.set(&[0; 11]).is_err() && buffer.resize(11).is_err() && buffer.is_empty());
}

/// The example's program.
fn service(role: &str, place: &Path) -> Child {
    let test = std::env::current_exe().expect("we run");
    let profile: PathBuf = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/..").into();
    let mut command = Command::new(profile.join("examples/service"));
    command.arg(role).arg(place.join("socket"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// What the kernel says of a process.
#[derive(Clone, Copy)]
struct Usage {
    /// Processor time so far, in ticks of 10 ms.
    ticks: u64,
    /// How often its threads went to sleep so far.
    sleeps: u64,
}

impl Usage {
    fn of(child: &Child) -> Self {
        let process = PathBuf::from(format!("/proc/{}", child.id()));
        let stat = fs::read_to_string(process.join("stat")).expect("it runs");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
        let ticks = [11, 12].iter().map(|field| fields[*field].parse::<u64>().expect("a number")).sum();
        let threads = fs::read_dir(process.join("task")).expect("it runs");
        let sleeps = threads.map(|thread| sleeps(&thread.expect("listed").path())).sum();
        Self { ticks, sleeps }
    }
}

/// How often a thread went to sleep so far; never, if it has ended since it was listed.
fn sleeps(thread: &Path) -> u64 {
    let Ok(status) = fs::read_to_string(thread.join("status")) else { return 0 };
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.expect("a line of it").trim().parse().expect("a number")
}

#[test]
fn the_service_answers_and_waits_without_a_core() {
    let place = std::env::temp_dir().join(format!("srnic-service-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a directory");
    let mut server = service("serve", &place);
    let mut line = String::new();
    let stdout = server.stdout.take().expect("piped");
    let mut stdout = std::io::BufReader::new(stdout);
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("text");
    assert!(line.starts_with("waiting"), "{line}");
    // Not to synchronise: this is the time in which it must do next to nothing.
    std::thread::sleep(Duration::from_millis(500));
    let (began, before) = (Instant::now(), Usage::of(&server));
    std::thread::sleep(Duration::from_secs(4));
    let (after, waited) = (Usage::of(&server), began.elapsed());
    let asked = service("call", &place).wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&asked.stderr).into_owned();
    if !asked.status.success() {
        let _ = server.kill();
    }
    assert_eq!((said.as_str(), wrong.as_str()), ("asked 1000 times\n", ""));
    assert!(server.wait().expect("our child").success());
    std::io::Read::read_to_string(&mut stdout, &mut line).expect("text");
    assert!(line.contains("answered 1000 messages"), "{line}");
    let _ = fs::remove_dir_all(&place);
    // What a sleep costs is the machine's, and more in a build that is not optimised; how many
    // there are is ours: one a millisecond at most.
    let (used, slept) = (after.ticks - before.ticks, after.sleeps - before.sleeps);
    println!("{used} ticks of 10 ms and {slept} sleeps in {waited:?}");
    let most = u64::try_from(waited.as_millis()).expect("no century");
    assert!(slept <= most + most / 10, "it slept {slept} times in {waited:?}: it wakes without need");
    assert!(used * 20 < most, "it used {used} ticks of 10 ms in {waited:?}: it does not sleep");
}

/// Requests and connections, through loss; a future that is dropped takes its connection back.
#[test]
fn connections_by_address_are_awaited() {
    let ends = ends("async-connect", "fault:loss=5%,seed=4:", 4);
    let [one, two] = &ends;
    let listener = Listener::bind(&two._device, 7471).expect("a listener");
    let build = |end: &End| end.completions.queue_pair(&end._pd).build().expect("a queue pair");
    run(&ends, async {
        let hello = Connector::new().private_data(b"hello");
        let connecting = hello.connect(build(one), listener.local_addr()).expect("begun");
        let request = listener.request().await.expect("a thread drives it");
        assert_eq!(request.private_data(), b"hello");
        let accepting = request.accept(build(two)).expect("accepted");
        let (ours, its) = (connecting.await.expect("connected"), accepting.await.expect("connected"));
        let ours = AsyncQueuePair::new(&one.completions, ours).expect("completes there");
        let its = AsyncQueuePair::new(&two.completions, its).expect("completes there");
        let received = its.recv(two.pool.take().expect("free"));
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"by address").expect("it fits");
        assert_eq!(ours.send(buffer).await.expect("posted").completion.status, WcStatus::Success);
        let received = received.await.expect("posted").buffer;
        assert_eq!(received.to_vec().expect("inside"), b"by address");

        // The peer's end of it is told when ours goes, and what waits there ends with that.
        let waits = its.recv(received);
        drop(ours);
        assert!(matches!(waits.await, Err(Error::Disconnected)));

        drop(Connector::new().connect(build(one), listener.local_addr()).expect("begun"));
        let inline = Device::open("sim:async-connect").expect("a device");
        let nobody_drives = Listener::bind(&inline, 1).expect("a listener").request().await;
        assert!(matches!(nobody_drives, Err(Error::Unsupported(_))));
    });
}

/// The driver, its device and its descriptors go with the last who completes there.
/// The peer's host is up before its listener is bound.
#[test]
fn a_listener_that_is_bound_late_is_awaited() {
    let open = |host: u8| {
        let text = format!("sim:async-late-listener,ip=10.77.0.{host}");
        Device::builder().driver(Driver::THREAD).open(&text).expect("a device")
    };
    let (here, there) = (open(1), open(2));
    let other = Listener::bind(&there, 7470).expect("a listener");
    let prepare = |device: &Device| {
        let (pd, completions) = (device.alloc_pd(), Completions::new(device, 16).expect("a queue"));
        completions.queue_pair(&pd).build().expect("a queue pair")
    };
    let to = (other.local_addr().ip(), 7471).into();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let connecting = Connector::new().patience(LIMIT).connect(prepare(&here), to).expect("begun");
        let connecting = tokio::spawn(connecting);
        let refusals = async {
            while there.connection_stats().manager.rejected < 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LIMIT, refusals).await.expect("asked again");
        let listener = Listener::bind(&there, 7471).expect("a listener");
        let request = timeout(LIMIT, listener.request()).await.expect("in time").expect("a request");
        let accepted = request.accept(prepare(&there)).expect("accepted");
        let _theirs = timeout(LIMIT, accepted).await.expect("in time").expect("connected");
        timeout(LIMIT, connecting).await.expect("in time").expect("no panic").expect("connected");

        let impatient = Connector::new().patience(LIMIT).wait_for_listener(false);
        let nobody = (other.local_addr().ip(), 7472).into();
        let refused = impatient.connect(prepare(&here), nobody).expect("begun");
        let refused = timeout(LIMIT / 2, refused).await.expect("at once").err().expect("nobody listens");
        assert!(refused.to_string().contains("nobody listens to that port"), "{refused}");
    });
}

#[test]
fn a_driver_ends_with_what_it_drives() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let [one, two] = ends("async-drive", "", 1);
        let mut driver = tokio::spawn(one.completions.drive());
        let End { completions, pair, pool, _device, .. } = one;
        drop(completions);
        let waits = pair.recv(pool.take().expect("free"));
        drop(pair);
        assert!(timeout(Duration::from_millis(50), &mut driver).await.is_err(), "an operation is left");
        drop(waits);
        timeout(LIMIT, driver).await.expect("it ends").expect("no panic").expect("no failure");
        // Not even polled: it keeps nothing.
        drop(two.completions.drive());
    });
}

/// Events of both devices, in a task that may be cancelled.
#[test]
fn events_of_devices_are_awaited() {
    let ends = ends("async-events", "", 2);
    let [one, two] = &ends;
    run(&ends, async {
        assert!(poll_once(two._device.next_event()).is_pending(), "nothing has happened");
        let mut buffer = one.pool.take().expect("free");
        buffer.set(&[0; 8]).expect("it fits");
        let refused = one.pair.write(buffer, two.memory.remote().at(1 << 20));
        let (event, refused) = join(two._device.next_event(), refused).await;
        assert!(matches!(event.expect("an event"), AsyncEvent::QpAccessError { .. }));
        assert_eq!(refused.expect("posted").completion.status, WcStatus::RemAccessErr);
        let inline = Device::open("sim:async-events").expect("a device");
        assert!(matches!(inline.next_event().await, Err(Error::Unsupported(_))));
    });
}

/// Tells a test that it is the process that dies, and where.
const VICTIM: &str = "SRNIC_TEST_SOCKET";

/// Over memif the link goes down with the peer, and nobody waits 9 s for its answer.
#[test]
fn a_peer_that_died_is_not_waited_for() {
    const NAME: &str = "a_peer_that_died_is_not_waited_for";
    let open = |socket: &Path, role| {
        let text = format!("memif:{},role={role}", socket.display());
        let device = Device::builder().driver(Driver::THREAD).open(&text).expect("a device");
        let completions = Completions::new(&device, 16).expect("a queue");
        let prepared = completions.queue_pair(&device.alloc_pd()).build().expect("a queue pair");
        (device, completions, prepared)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    if let Some(socket) = std::env::var_os(VICTIM) {
        let (device, _completions, prepared) = open(Path::new(&socket), "client");
        let _pair = runtime.block_on(async {
            while !device.link_up() {
                device.next_event().await.expect("an event");
            }
            let address = ([10, 77, 0, 1], 7471).into();
            Connector::new().connect(prepared, address).expect("begun").await.expect("connected")
        });
        // Until the peer is connected as well.
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("it closes");
        std::process::abort();
    }
    let socket = std::env::temp_dir().join(format!("srnic-{NAME}-{}", std::process::id()));
    let (device, completions, prepared) = open(&socket, "server");
    let listener = Listener::bind(&device, 7471).expect("a listener");
    let program = std::env::current_exe().expect("we run");
    let mut victim = Command::new(program);
    victim
        .args(["--exact", NAME])
        .env(VICTIM, &socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut victim = victim.spawn().expect("it starts");
    let waited = runtime.block_on(async {
        let request = listener.request().await.expect("a thread drives it");
        let pair = request.accept(prepared).expect("accepted").await.expect("connected");
        let pair = AsyncQueuePair::new(&completions, pair).expect("completes there");
        drop(victim.stdin.take());
        assert!(!victim.wait().expect("our child").success());
        let began = Instant::now();
        pair.disconnect().await.expect("it was connected");
        began.elapsed()
    });
    let _ = fs::remove_file(&socket);
    println!("{waited:?}");
    assert!(waited < Duration::from_secs(6), "{waited:?}");
}

/// Two ends that are connected by address, and run beside their tasks.
async fn meet([one, two]: &[End; 2]) -> [AsyncQueuePair; 2] {
    let listener = Listener::bind(&two._device, 7471).expect("a listener");
    let build = |end: &End| end.completions.queue_pair(&end._pd).build().expect("a queue pair");
    let connecting = Connector::new().connect(build(one), listener.local_addr()).expect("begun");
    let request = listener.request().await.expect("a thread drives it");
    let accepting = request.accept(build(two)).expect("accepted");
    let pairs = (connecting.await.expect("connected"), accepting.await.expect("connected"));
    [(one, pairs.0), (two, pairs.1)]
        .map(|(end, pair)| AsyncQueuePair::new(&end.completions, pair).expect("completes there"))
}

/// Who disconnects and whose peer does find that out, and no failure.
#[test]
fn an_orderly_end_is_an_outcome_of_its_own() {
    let ends = ends("async-end", "", 8);
    let [one, two] = &ends;
    run(&ends, async {
        let [ours, its] = meet(&ends).await;
        let mut messages = its.receives(&two.pool, 3);
        let mut waits = pin!(ours.recv(one.pool.take().expect("free")));
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"the last").expect("it fits");
        ours.send(buffer).await.expect("posted");
        assert!(!ours.is_disconnected() && !its.is_disconnected());
        assert!(poll_once(its.disconnected()).is_pending() && poll_once(waits.as_mut()).is_pending());

        let (ended, ()) = join(ours.disconnect(), its.disconnected()).await;
        ended.expect("it was connected");
        assert!(ours.is_disconnected() && its.is_disconnected());
        assert!(matches!(waits.await, Err(Error::Disconnected)), "ours was never used");
        let last = messages.next().await.expect("it came before").expect("a message");
        assert_eq!(last.buffer.to_vec().expect("inside"), b"the last");
        let Some(Err(end)) = messages.next().await else { panic!("there are no more") };
        assert!(matches!(end, Error::Disconnected), "{end}");
        assert!(messages.next().await.is_none());
        // What comes too late ends so as well, and who was second is answered at once.
        assert!(matches!(its.send(last.buffer).await, Err(Error::Disconnected)));
        let Poll::Ready(Ok(())) = poll_once(its.disconnect()) else { panic!("the peer was first") };
    });
}

/// Nothing that fails is taken for an orderly end, whether it was connected by address or not.
#[test]
fn a_failure_is_no_orderly_end() {
    let ends = ends("async-failure", "", 4);
    let [one, two] = &ends;
    run(&ends, async {
        let by_address = meet(&ends).await;
        for [ours, its] in [[&one.pair, &two.pair], [&by_address[0], &by_address[1]]] {
            let waits =
                [(ours, one), (its, two)].map(|(pair, end)| pair.recv(end.pool.take().expect("free")));
            let mut buffer = one.pool.take().expect("free");
            buffer.set(&[0; 8]).expect("it fits");
            let refused = ours.write(buffer, two.memory.remote().at(1 << 20)).await.expect("posted");
            assert_eq!(refused.completion.status, WcStatus::RemAccessErr);
            for wait in waits {
                assert_eq!(wait.await.expect("posted").completion.status, WcStatus::WrFlushErr);
            }
        }
        // Without a connection by address it ends at this side.
        one.pair.disconnect().await.expect("it is in ERR already");
        assert!(!one.pair.is_disconnected());
    });
}

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let [ours, its] = runtime.block_on(async { timeout(LIMIT, meet(&ends)).await.expect("in time") });
    assert_eq!(left(|| ours.disconnected()), 0, "of disconnected()");
    let listener = Listener::bind(&one._device, 7472).expect("a listener");
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let [ours, its] = runtime.block_on(async { timeout(LIMIT, meet(&ends)).await.expect("in time") });
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

/// What is known of the end counts as of when it came, not as of when a task gets to look.
#[test]
fn a_failure_stays_one_when_a_disconnect_follows() {
    let ends = ends("async-failure-first", "", 4);
    let [one, two] = &ends;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Nobody drives the completions: this looks at them when it says so.
    runtime.block_on(async {
        let [ours, its] = timeout(LIMIT, meet(&ends)).await.expect("in time");
        let waits = its.recv(two.pool.take().expect("free"));
        let mut buffer = one.pool.take().expect("free");
        buffer.set(&[0; 8]).expect("it fits");
        let mut refused = pin!(ours.write(buffer, two.memory.remote().at(1 << 20)));
        let began = Instant::now();
        let refused = loop {
            one.completions.process().expect("a channel");
            if let Poll::Ready(refused) = poll_once(refused.as_mut()) {
                break refused.expect("posted");
            }
            assert!(began.elapsed() < LIMIT, "it is refused");
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!(refused.completion.status, WcStatus::RemAccessErr);
        let late = ours.recv(refused.buffer);
        timeout(LIMIT, ours.disconnect()).await.expect("in time").expect("it is in ERR already");
        timeout(LIMIT, its.disconnected()).await.expect("its peer has disconnected");
        for (end, wait) in [(one, late), (two, waits)] {
            end.completions.process().expect("a channel");
            let Poll::Ready(end) = poll_once(wait) else { panic!("it was flushed") };
            assert_eq!(end.expect("a failure is no orderly end").completion.status, WcStatus::WrFlushErr);
        }
    });
}

#[test]
fn atomics_are_awaited() {
    let ends = ends("async-atomics", "", 2);
    let [one, two] = &ends;
    run(&ends, async {
        two.memory.store_release_u64(16, 40).expect("aligned");
        let at = two.memory.remote().at(16);
        let done = one.pair.fetch_and_add(one.pool.take().expect("free"), at, 2).await.expect("posted");
        assert_eq!((done.completion.status, done.buffer.to_u64().expect("8 bytes")), (WcStatus::Success, 40));
        let done = one.pair.compare_and_swap(done.buffer, at, 41, 7).await.expect("posted");
        assert_eq!(done.buffer.to_u64().expect("8 bytes"), 42, "it was another");
        let done = one.pair.compare_and_swap(done.buffer, at, 42, 7).await.expect("posted");
        assert_eq!(done.buffer.to_u64().expect("8 bytes"), 42);
        assert_eq!(two.memory.load_acquire_u64(16).expect("aligned"), 7);
        let mut buffer = done.buffer;
        buffer.set(&[0; 7]).expect("it fits");
        assert!(matches!(buffer.to_u64(), Err(Error::OutOfBounds { end: 8, len: 7, .. })));

        let small = BufferPool::new(one._pd.register(7, Access::LOCAL_WRITE).expect("memory"), 7);
        let small = small.expect("one").take().expect("free");
        let refused = one.pair.fetch_and_add(small, at, 1).await;
        assert!(matches!(refused, Err(Error::OutOfBounds { end: 8, len: 7, .. })));
        assert_eq!(two.memory.load_acquire_u64(16).expect("aligned"), 7);
    });
}

#[test]
fn immediate_data_arrive_with_messages_and_writes() {
    let ends = ends("async-imm", "", 3);
    let [one, two] = &ends;
    run(&ends, async {
        let mut messages = two.pair.receives(&two.pool, 3);
        let full = |text: &[u8]| {
            let mut buffer = one.pool.take().expect("free");
            buffer.set(text).expect("it fits");
            buffer
        };
        let to = two.memory.remote().at(0);
        drop(one.pair.send(full(b"plain")));
        drop(one.pair.send_with_imm(full(b"message"), 0));
        one.pair.write_with_imm(full(b"in memory"), to, 0xDEAD_BEEF).await.expect("posted");
        for (text, imm) in [(&b"plain"[..], None), (b"message", Some(0)), (b"", Some(0xDEAD_BEEF))] {
            let got = messages.next().await.expect("a message").expect("posted");
            assert_eq!((&got.buffer.to_vec().expect("inside")[..], got.imm()), (text, imm));
        }
        let mut written = [0; 9];
        two.memory.read(0, &mut written).expect("inside");
        assert_eq!(&written, b"in memory");
    });
}

/// A receive that the program posted itself, before the pair became asynchronous, is no
/// operation's.
#[test]
fn a_receive_posted_ahead_of_the_connection_ends_no_operation() {
    let open = || Device::builder().driver(Driver::THREAD).open("sim:async-ids").expect("a device");
    let (here, there) = (open(), open());
    let (pd, completions) = (here.alloc_pd(), Completions::new(&here, 64).expect("a queue"));
    let memory = pd.register(64, Access::LOCAL_WRITE).expect("memory");
    let pool = BufferPool::new(pd.register(64, Access::LOCAL_WRITE).expect("memory"), 64).expect("buffers");
    let mut prepared = completions.queue_pair(&pd).build().expect("a queue pair");
    let early = [memory.slice(..).expect("inside")];
    prepared.post_recv(&RecvRequest { wr_id: 0, scatter: &early }).expect("posted");

    let (its_pd, its_cq) = (there.alloc_pd(), there.create_cq(16).expect("a queue"));
    let its = its_pd.queue_pair(&its_cq, &its_cq).build().expect("a queue pair");
    let (to_here, to_there) = (prepared.endpoint(), its.endpoint());
    let mut its = its.connect(&to_here).expect("connected");
    let pair = AsyncQueuePair::new(&completions, prepared.connect(&to_there).expect("connected"));
    let pair = pair.expect("completes there");

    let mut operation = pin!(pair.recv(pool.take().expect("free")));
    its.post_send(&SendRequest::send(SendData::Inline(b"first"))).expect("posted");
    let deadline = Instant::now() + LIMIT;
    let mut text = [0; 5];
    while &text != b"first" {
        memory.read(0, &mut text).expect("inside");
        assert!(Instant::now() < deadline, "it arrives in the program's own receive");
    }
    std::thread::sleep(Duration::from_millis(50));
    completions.process().expect("armed");
    let polled = operation.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "its receive is still the engine's");
}
