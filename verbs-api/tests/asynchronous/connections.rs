//! Connections by address: requests, listeners that come late, peers that die.

use crate::ends::{End, LIMIT, ends, run, runtime};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use verbs_api::{AsyncQueuePair, Completions, Connector, Device, Driver, Error, Listener, WcStatus};

/// Requests and connections, through loss; a future that is dropped takes its connection back.
#[test]
fn connections_by_address_are_awaited() {
    let ends = ends("async-connect", "fault:loss=5%,seed=4:", 4);
    let [one, two] = &ends;
    let listener = Listener::bind(&two.device, 7471).expect("a listener");
    let build = |end: &End| end.completions.queue_pair(&end.pd).build().expect("a queue pair");
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
    runtime().block_on(async {
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

/// Tells a test that it is the process that dies, and where.
const VICTIM: &str = "SRNIC_TEST_SOCKET";

/// Over memif the link goes down with the peer, and nobody waits 9 s for its answer.
#[test]
fn a_peer_that_died_is_not_waited_for() {
    const NAME: &str = "connections::a_peer_that_died_is_not_waited_for";
    let open = |socket: &Path, role| {
        let text = format!("memif:{},role={role}", socket.display());
        let device = Device::builder().driver(Driver::THREAD).open(&text).expect("a device");
        let completions = Completions::new(&device, 16).expect("a queue");
        let prepared = completions.queue_pair(&device.alloc_pd()).build().expect("a queue pair");
        (device, completions, prepared)
    };
    let runtime = runtime();
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
