//! Each example, server and client, over a network in this process that loses packets.

use srnic_streams::{Config, Endpoint};
use srnic_streams_examples::block::{self, Client as Disk, Op, Workload};
use srnic_streams_examples::{grpc, http};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};
use verbs_api::{Device, Driver};

const LIMIT: Duration = Duration::from_secs(100);

fn endpoints(name: &str) -> [Endpoint; 2] {
    [(); 2].map(|()| {
        let device = format!("fault:loss=1%,seed=11:sim:{name}");
        Endpoint::open(&device, Config::default()).expect("an endpoint")
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_by_axum_and_hyper() {
    let [server, client] = endpoints("examples-http");
    let listener = server.listen(0).expect("a port");
    let to = listener.local_addr();
    let serves = tokio::spawn(http::serve(listener.into()));
    let mut one = http::Client::connect(&client, to).await.expect("connected");
    assert_eq!(&one.ask("/", None).await.expect("an answer")[..], b"hello over RDMA\n");
    let body: Vec<u8> = (0..300_000_u32).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
    let back = one.ask("/echo", Some(body.clone().into())).await.expect("an answer");
    assert!(back[..] == body[..], "{} bytes came", back.len());
    let refused = one.ask("/bytes/99999999999", None).await.expect_err("too much");
    assert!(refused.to_string().contains("413"), "{refused}");
    let load = http::load(&client, to, (8, 20), 4096).await.expect("measured");
    assert_eq!((load.count(), load.bytes), (160, 160 * 4096));
    serves.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_by_tonic() {
    let [server, client] = endpoints("examples-grpc");
    let listener = server.listen(0).expect("a port");
    let to = listener.local_addr();
    let serves = tokio::spawn(grpc::serve(listener.into()));
    let mut one = grpc::Client::connect(&client, to).await.expect("connected");
    assert_eq!(one.hello("world").await.expect("an answer"), "hello world");
    let refused = one.hello("").await.expect_err("no name");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    let load = one.chat(200, 3000).await.expect("each note came back");
    assert_eq!(load.count(), 200);
    serves.abort();
}

#[test]
fn a_disk_in_another_hosts_memory() {
    let device = || {
        let text = "fault:loss=1%,seed=12:sim:examples-block";
        Device::builder().driver(Driver::THREAD).open(text).expect("a device")
    };
    let (here, there, stop) = (device(), device(), AtomicBool::new(false));
    scope(|threads| {
        threads.spawn(|| block::serve(&there, 3260, 4 << 20, &stop).expect("served"));
        let mut disk = Disk::connect(&here, (there.ip(), 3260).into()).expect("connected");
        let bytes: Vec<u8> = (0..40_000_u32).map(|at| at.wrapping_mul(7).to_le_bytes()[1]).collect();
        disk.write(12_345, &bytes).expect("written");
        let mut back = vec![0; bytes.len()];
        disk.read(12_345, &mut back).expect("read");
        assert!(back == bytes, "other bytes came back");
        let mut before = [1; 100];
        disk.read(12_245, &mut before).expect("read");
        assert_eq!(before, [0; 100], "what was not written is zeros");
        let refused = disk.read((4 << 20) - 50, &mut before).expect_err("behind the end");
        assert!(refused.to_string().contains("does not have"), "{refused}");
        // The connection goes on.
        for (op, size, count) in [
            (Op::Write, 8 << 10, 200),
            (Op::Read, 8 << 10, 200),
            (Op::Write, 1 << 20, 8),
            (Op::Read, 1 << 20, 8),
        ] {
            let begun = Instant::now();
            let load = disk.run(&Workload { op, size, count, depth: 16, span: 4 << 20 }).expect("measured");
            assert_eq!((load.count(), load.bytes), (count as u64, (count * size) as u64));
            assert!(begun.elapsed() < LIMIT);
        }
        stop.store(true, Ordering::Relaxed);
    });
}
