//! The perftest-like tools as two processes over memif. Times are measured, but decide nothing.

mod rdma_cm;
#[path = "../support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use support::{Ended, Place, Running, srnic};

const WRITE_BW: &str = "write-bw";
const READ_BW: &str = "read-bw";
const READ_LAT: &str = "read-lat";
const ATOMIC_BW: &str = "atomic-bw";
const ATOMIC_LAT: &str = "atomic-lat";
const SEND_BW: &str = "send-bw";
const SEND_LAT: &str = "send-lat";
const WRITE_LAT: &str = "write-lat";
const RAW_BW: &str = "raw-bw";
const RAW_LAT: &str = "raw-lat";
const TCP_BW: &str = "tcp-bw";
const TCP_LAT: &str = "tcp-lat";
const STREAM_BW: &str = "stream-bw";
const STREAM_LAT: &str = "stream-lat";
const RPC: &str = "rpc";
const ALL: [&str; 15] = [
    READ_BW, READ_LAT, ATOMIC_BW, ATOMIC_LAT, WRITE_BW, WRITE_LAT, SEND_BW, SEND_LAT, RPC, RAW_BW, RAW_LAT,
    TCP_BW, TCP_LAT, STREAM_BW, STREAM_LAT,
];

/// One of each kind: what happens when a peer ends is the same code for all of a kind.
const KINDS: [&str; 6] = [READ_LAT, WRITE_BW, RPC, RAW_BW, TCP_LAT, STREAM_BW];

/// Both sides of a tool. One pair at a time: each keeps two cores busy.
struct Pair {
    tool: &'static str,
    place: Place,
    _alone: MutexGuard<'static, ()>,
}

impl Pair {
    fn new(tool: &'static str, name: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self { tool, place: Place::new(name), _alone: alone }
    }

    fn start(&self, side: &str, wrapper: &str, options: &str) -> Running {
        self.start_at("127.0.0.1", side, wrapper, options)
    }

    fn start_at(&self, host: &str, side: &str, wrapper: &str, options: &str) -> Running {
        let device = format!("{wrapper}memif:{}", self.place.path("memif").display());
        self.start_on(&device, host, side, options)
    }

    fn start_on(&self, device: &str, host: &str, side: &str, options: &str) -> Running {
        let mut command = srnic(self.tool);
        command.args(["-p", &self.place.port.to_string(), "--json"]);
        command.arg(self.place.path(side)).args(options.split_whitespace());
        if ![TCP_BW, TCP_LAT].contains(&self.tool) {
            command.args(["-d", device]);
        }
        if ![TCP_BW, TCP_LAT, RAW_BW, RAW_LAT, STREAM_BW, STREAM_LAT].contains(&self.tool) {
            // A pause of the whole machine is no failure of the peer.
            command.args(["-u", "18"]);
        }
        command.args((side == "client").then_some(host));
        Running::start(command)
    }

    /// Both sides with the same options, to their successful end; the client's device has a
    /// wrapper.
    fn run(&self, wrapper: &str, options: &str) -> [Ended; 2] {
        let (server, client) = (self.start("server", "", options), self.start("client", wrapper, options));
        let ended = [client.end(), server.end()];
        ended.iter().for_each(Ended::assert_success);
        ended
    }

    fn json(&self, side: &str) -> serde_json::Value {
        self.place.json(side)
    }
}

/// The heading of a table, and the first two columns of each row: sizes and iterations.
fn table(ended: &Ended) -> (String, Vec<[u64; 2]>) {
    let out = String::from_utf8_lossy(&ended.0.stdout);
    let mut lines = out.lines();
    let heading = lines.next().expect("a heading").to_owned();
    let row = |line: &str| -> [u64; 2] {
        let mut cells = line.split_whitespace().map(|cell| cell.parse().expect("a number"));
        [cells.next().expect("a size"), cells.next().expect("iterations")]
    };
    (heading, lines.map(row).collect())
}

#[test]
fn write_bw_delivers_every_byte() {
    let pair = Pair::new(WRITE_BW, "bw");
    for ended in pair.run("", "-s 10000 -n 300 -q 2 --verify --report_gbits") {
        let (heading, rows) = table(&ended);
        assert!(heading.contains("BW average[Gb/sec]   MsgRate[Mpps]"), "{heading}");
        assert_eq!(rows, [[10_000, 600]]);
    }
    let result = &pair.json("client")["results"][0];
    assert_eq!((&result["size"], &result["iterations"]), (&10_000.into(), &600.into()));
    let (peak, average) = (result["bw_peak_gbps"].as_f64(), result["bw_avg_gbps"].as_f64());
    assert!(average > Some(0.0) && peak >= average, "{result}");
    let messages = result["msg_rate_mpps"].as_f64().expect("a rate") * 1e6;
    assert!((messages * 80_000e-9 / average.expect("a rate") - 1.0).abs() < 1e-6, "{result}");
    assert_eq!(result["drops"], 0);
}

#[test]
fn write_bw_delivers_every_byte_both_ways_through_loss() {
    let pair = Pair::new(WRITE_BW, "loss");
    let wrapper = "fault:loss=2%,dup=1%,reorder=1%,seed=3:";
    for ended in pair.run(wrapper, "-s 20000 -n 400 -b -l 7 -Q 50 -t 60 --verify") {
        assert_eq!(table(&ended).1, [[20_000, 800]]);
    }
    let result = &pair.json("client")["results"][0];
    assert!(result["drops"].as_u64() > Some(10) && result["retransmits"].as_u64() > Some(10), "{result}");
}

#[test]
fn write_bw_measures_every_size() {
    let pair = Pair::new(WRITE_BW, "all");
    let [client, server] = pair.run("", "-a -n 5 -I 64 --verify");
    let expected: Vec<[u64; 2]> = (1..=23).map(|power| [1 << power, 5]).collect();
    assert_eq!((table(&client).1, table(&server).1), (expected.clone(), expected));
}

#[test]
fn read_bw_fetches_every_byte() {
    let pair = Pair::new(READ_BW, "read");
    for (wrapper, options, size) in [
        ("", "-s 10000 -n 300 -q 2", 10_000),
        ("fault:loss=2%,dup=1%,reorder=1%,seed=6:", "-s 20000 -n 150 -b -q 2", 20_000),
    ] {
        for ended in pair.run(wrapper, &format!("{options} --verify")) {
            assert_eq!(table(&ended).1, [[size, 600]]);
        }
    }
    assert!(pair.json("client")["drops"].as_u64() > Some(10));
}

#[test]
fn read_lat_fetches_every_byte() {
    let pair = Pair::new(READ_LAT, "read-lat");
    for (wrapper, options, rows) in [
        ("", "-s 10000 -n 200", vec![[10_000, 200]]),
        ("fault:loss=1%,dup=1%,seed=6:", "-s 20000 -m 1024 -n 100", vec![[20_000, 100]]),
        ("", "-a -n 3", (1..=23).map(|power| [1 << power, 3]).collect()),
    ] {
        for ended in pair.run(wrapper, &format!("{options} --verify")) {
            assert_eq!(table(&ended).1, rows);
        }
    }
}

#[test]
fn tools_deliver_every_byte_in_plain_rocev2_through_loss() {
    let wrapper = "fault:loss=1%,dup=1%,reorder=1%,seed=5:";
    for (tool, options, row) in [
        (WRITE_BW, "-s 9000 -n 300 -b", [9000, 600]),
        (SEND_BW, "-s 9000 -n 300 -q 2", [9000, 600]),
        (READ_BW, "-s 9000 -n 200 -q 2 -o 4", [9000, 400]),
        (ATOMIC_BW, "-n 500 -q 2 -b -o 4", [8, 2000]),
        (WRITE_LAT, "-s 9000 -n 100", [9000, 100]),
        (SEND_LAT, "-s 64 -n 100", [64, 100]),
    ] {
        let pair = Pair::new(tool, "plain");
        for ended in pair.run(wrapper, &format!("{options} --plain --verify")) {
            assert_eq!(table(&ended).1, [row], "{tool}");
        }
        assert_eq!(pair.json("client")["plain"], true, "{tool}");
    }
}

#[test]
fn every_atomic_is_executed_once() {
    let wrapper = "fault:loss=2%,dup=2%,reorder=1%,seed=8:";
    for kind in ["FETCH_AND_ADD", "CMP_AND_SWAP"] {
        for (tool, options, count) in [
            (ATOMIC_BW, "-n 1500 -q 2 -b -o 4", 6000),
            (ATOMIC_BW, "-n 1500 -q 3", 4500),
            (ATOMIC_LAT, "-n 400", 400),
        ] {
            let pair = Pair::new(tool, "atomic");
            for ended in pair.run(wrapper, &format!("{options} -A {kind} --verify")) {
                assert_eq!(table(&ended).1, [[8, count]]);
            }
            assert!(pair.json("client")["drops"].as_u64() > Some(3));
        }
    }
    let pair = Pair::new(ATOMIC_BW, "atomic-time");
    pair.run("", "-D 1 -q 3 --verify");
    let (server, client) = (pair.start("server", "", "-s 16"), pair.start("client", "", "-s 16"));
    [server, client]
        .map(Running::end)
        .iter()
        .for_each(|ended| ended.assert_failed(1, "an atomic has 8 bytes"));
}

#[test]
fn write_bw_ends_after_its_time() {
    let pair = Pair::new(WRITE_BW, "time");
    let start = Instant::now();
    let [client, server] = pair.run("", "-D 1 -s 64 -q 3 --verify --cc dctcp");
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert!(table(&client).1[0][1] >= 3 * 128);
    assert_eq!(table(&client).1, table(&server).1);
}

#[test]
fn send_bw_delivers_every_byte() {
    let pair = Pair::new(SEND_BW, "send");
    for ended in pair.run("", "-s 10000 -n 300 -q 2 -r 64 --verify") {
        assert_eq!(table(&ended).1, [[10_000, 600]]);
    }
    let result = &pair.json("client")["results"][0];
    assert!(result["bw_avg_gbps"].as_f64() > Some(0.0), "{result}");
}

#[test]
fn send_bw_delivers_every_byte_both_ways_through_loss() {
    let pair = Pair::new(SEND_BW, "send-loss");
    // With few receives, so that the sender has to wait for them, too.
    for ended in pair.run("fault:loss=2%,dup=1%,reorder=1%,seed=4:", "-s 20000 -n 200 -b -r 4 --verify") {
        assert_eq!(table(&ended).1, [[20_000, 400]]);
    }
    let result = &pair.json("client")["results"][0];
    assert!(result["drops"].as_u64() > Some(10) && result["retransmits"].as_u64() > Some(10), "{result}");
}

#[test]
fn send_bw_delivers_every_byte_through_a_shared_receive_queue() {
    let pair = Pair::new(SEND_BW, "send_bw_srq");
    for (options, messages) in [("-q 1 --verify", 500), ("-q 4", 2000)] {
        for ended in pair.run("fault:loss=1%,seed=3:", &format!("-s 1500 -n 500 --use-srq -r 32 {options}")) {
            assert_eq!(table(&ended).1, [[1500, messages]], "{options}");
        }
    }
}

#[test]
fn send_bw_measures_every_size_and_ends_after_its_time() {
    let pair = Pair::new(SEND_BW, "send-all");
    let [client, server] = pair.run("", "-a -n 5 -b --verify");
    assert_eq!(table(&client).1.len(), 23);
    assert_eq!(table(&client).1, table(&server).1);
    let [client, server] = pair.run("", "-D 1 -s 64 --verify");
    assert!(table(&client).1[0][1] >= 128);
    assert_eq!(table(&client).1, table(&server).1);
    let (server, client) = (pair.start("server", "", "-a -D 1"), pair.start("client", "", "-a -D 1"));
    client.end().assert_failed(1, "--all and --duration do not go together");
    assert!(!server.end().0.status.success());
}

#[test]
fn write_lat_sees_every_message_whole() {
    every_message_is_whole(WRITE_LAT);
}

#[test]
fn send_lat_sees_every_message_whole() {
    every_message_is_whole(SEND_LAT);
}

fn every_message_is_whole(tool: &'static str) {
    for (name, options, size) in [
        ("lat", "-n 200 --verify", 2),
        ("lat-mid", "-s 1000 -n 200 --verify", 1000),
        ("lat-long", "-s 10001 -m 1024 -n 200 --verify", 10_001),
    ] {
        let pair = Pair::new(tool, name);
        for ended in pair.run("", options) {
            let (heading, rows) = table(&ended);
            assert!(heading.contains("t_typical[usec]") && heading.ends_with("99.9% percentile[usec]"));
            assert_eq!(rows, [[size, 200]]);
        }
        let latency = &pair.json("client")["results"][0]["lat_us"];
        let times = ["min", "p50", "p99", "p99.9", "max"].map(|key| latency[key].as_f64().expect("a time"));
        assert!(times[0] > 0.0 && times.is_sorted(), "{latency}");
    }
}

#[test]
fn latency_tools_see_every_message_whole_through_loss_and_reordering() {
    for tool in [WRITE_LAT, SEND_LAT] {
        let pair = Pair::new(tool, "lat-loss");
        let wrapper = "fault:loss=1%,reorder=5%,dup=1%,seed=5:";
        pair.run(wrapper, "-s 20000 -m 1024 -n 50 --verify");
        assert!(pair.json("client")["results"][0]["drops"].as_u64() > Some(0));
    }
}

#[test]
fn latency_tools_measure_every_size() {
    for tool in [WRITE_LAT, SEND_LAT] {
        let pair = Pair::new(tool, "lat-all");
        let [client, server] = pair.run("", "-a -n 3 --verify");
        assert_eq!(table(&client).1.len(), 23);
        assert_eq!(table(&client).1, table(&server).1);
    }
}

#[test]
fn raw_bw_counts_every_frame() {
    // 1003 is no multiple of a burst.
    for (options, frames) in [("-n 1003", 1003), ("-n 1003 -b", 2006), ("-n 1003 -b --copy --crc", 2006)] {
        let pair = Pair::new(RAW_BW, "raw-bw");
        for ended in pair.run("", options) {
            assert_eq!(table(&ended).1, [[4200, frames]]);
        }
        let json = pair.json("client");
        assert_eq!((&json["iterations"], &json["drops"]), (&frames.into(), &0.into()));
        assert!(
            json["bw_avg_gbps"].as_f64() > Some(0.0) && json["msg_rate_mpps"].as_f64() > Some(0.0),
            "{json}"
        );
    }
}

#[test]
fn raw_tools_measure_every_size_that_fits() {
    for tool in [RAW_BW, RAW_LAT] {
        let pair = Pair::new(tool, "raw-all");
        let expected: Vec<[u64; 2]> = (6..=12).map(|power| [1 << power, 100]).collect();
        for ended in pair.run("", "-a -n 100") {
            assert_eq!(table(&ended).1, expected);
        }
    }
}

#[test]
fn raw_tools_end_after_their_time() {
    for tool in [RAW_BW, RAW_LAT] {
        let pair = Pair::new(tool, "raw-time");
        let start = Instant::now();
        let [client, server] = pair.run("", "-D 1");
        assert!(start.elapsed() >= Duration::from_secs(1));
        assert!(table(&client).1[0][1] > 0);
        assert_eq!(table(&client).1, table(&server).1);
    }
}

#[test]
fn raw_tools_refuse_what_no_frame_can_be() {
    for (wrapper, options, reason) in [
        ("", "-s 59", "has 60 to 4608 bytes; 59 are asked for"),
        ("", "-s 4609", "has 60 to 4608 bytes; 4609 are asked for"),
        ("fault:loss=1%:", "", "raw frames pass no `fault:`"),
    ] {
        let pair = Pair::new(RAW_BW, "raw-refuse");
        let (server, client) = (pair.start("server", "", options), pair.start("client", wrapper, options));
        client.end().assert_failed(1, reason);
        server.signal("-TERM");
        server.end();
    }
}

#[test]
fn tcp_tools_count_every_message() {
    for (tool, options) in [(TCP_BW, ""), (TCP_BW, "--spin"), (TCP_LAT, ""), (TCP_LAT, "--spin")] {
        let pair = Pair::new(tool, "tcp");
        for ended in pair.run("", &format!("-s 1000 -n 300 {options}")) {
            assert_eq!(table(&ended).1, [[1000, 300]]);
        }
        let [client, server] = pair.run("", &format!("-a -n 3 {options}"));
        assert_eq!(table(&client).1.len(), 23);
        assert_eq!(table(&client).1, table(&server).1);
    }
}

#[test]
fn stream_tools_count_every_message_whichever_way_it_goes() {
    for tool in [STREAM_BW, STREAM_LAT] {
        let pair = Pair::new(tool, "stream");
        for way in ["chosen", "send", "write", "read"] {
            for ended in pair.run("fault:loss=1%,seed=4:", &format!("-s 40000 -n 50 --way {way}")) {
                assert_eq!(table(&ended).1, [[40_000, 50]], "{way}");
            }
        }
        let [client, server] = pair.run("", "-a -n 3 --checked");
        assert_eq!(table(&client).1.len(), 23);
        assert_eq!(table(&client).1, table(&server).1);
        // Which way is meant, both must know.
        let (server, client) =
            (pair.start("server", "", "--way send"), pair.start("client", "", "--way write"));
        for ended in [client.end(), server.end()] {
            ended.assert_failed(1, "--way is");
        }
    }
}

#[test]
fn rpc_answers_every_request() {
    let pair = Pair::new(RPC, "rpc");
    for (options, requests) in
        [("-n 2000", 2000), ("-n 500 -q 4 -w 8 -s 1000", 2000), ("-n 100 -w 1 -s 5000", 100)]
    {
        for ended in pair.run("", &format!("{options} --verify")) {
            assert_eq!(table(&ended).1[0][1], requests, "{options}");
        }
    }
    assert!(pair.json("client")["msg_rate_mpps"].as_f64() > Some(0.0));
    let [client, server] = pair.run("", "-D 1 -w 4 --verify");
    assert_eq!(table(&client).1, table(&server).1);
}

#[test]
fn rpc_answers_every_request_through_loss() {
    let pair = Pair::new(RPC, "rpc-loss");
    let wrapper = "fault:loss=2%,dup=1%,reorder=1%,seed=9:";
    for ended in pair.run(wrapper, "-n 3000 -q 2 --verify") {
        assert_eq!(table(&ended).1, [[32, 6000]]);
    }
    assert!(pair.json("client")["drops"].as_u64() > Some(10));
}

#[test]
fn a_long_run_shows_its_progress_when_asked() {
    for tool in KINDS {
        let pair = Pair::new(tool, "progress");
        let [client, _] = pair.run("", "-D 2 --progress");
        assert!(client.error().contains(" messages in 1 s"), "{tool}: {}", client.error());
    }
    let [client, _] = Pair::new(WRITE_BW, "silence").run("", "-s 64 -D 2");
    assert_eq!(client.error(), "", "nobody asked");
}

#[test]
fn options_that_differ_are_named_on_both_sides() {
    for (tool, ours, theirs, reason) in [
        (WRITE_BW, "-n 10", "-n 20", "--iters is 10 here and 20 at the peer"),
        (WRITE_BW, "-s 10", "-a", "--size is 10 here and all at the peer"),
        (WRITE_LAT, "-m 1024", "-m 512", "--mtu is 1024 here and 512 at the peer"),
    ] {
        let pair = Pair::new(tool, "differ");
        let (server, client) = (pair.start("server", "", theirs), pair.start("client", "", ours));
        client.end().assert_failed(1, reason);
        assert!(!server.end().0.status.success());
    }
}

#[test]
fn another_tool_is_no_peer() {
    let mut pair = Pair::new(WRITE_BW, "other");
    let server = pair.start("server", "", "");
    pair.tool = WRITE_LAT;
    pair.start("client", "", "")
        .end()
        .assert_failed(1, "the peer said `srnic_write_bw 1` where `srnic_write_lat 1`");
    server.end().assert_failed(1, "the peer said `srnic_write_lat 1`");
}

#[test]
fn a_shared_receive_queue_is_checked_with_one_queue_pair_only() {
    let pair = Pair::new(SEND_BW, "srq-refuse");
    let server = pair.start("server", "", "--use-srq --verify -q 2");
    server.end().assert_failed(1, "--use-srq and --verify go together with one queue pair only");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let pair = Pair::new(WRITE_BW, "refuse");
    let server = pair.start("server", "", "-t 8 -Q 9");
    server.end().assert_failed(1, "--cq-mod is 9; it cannot be more than --tx-depth, which is 8");
    pair.start("server", "", "--use_xrc").end().assert_failed(2, "unexpected argument '--use_xrc'");
}

#[test]
fn a_server_listens_where_it_is_told_to() {
    for tool in [WRITE_BW, TCP_LAT] {
        let pair = Pair::new(tool, "bind");
        let server = pair.start("server", "", "-n 10 --bind 127.0.0.9");
        let client = pair.start_at("127.0.0.9", "client", "", "-n 10");
        [client.end(), server.end()].iter().for_each(Ended::assert_success);
    }
}

/// Bytes of a message that costs a while.
fn size_of(tool: &str) -> u64 {
    if [ATOMIC_BW, ATOMIC_LAT].contains(&tool) { 8 } else { 4096 }
}

/// Both sides in the middle of traffic.
fn endless(pair: &Pair) -> (Running, Running) {
    let size = format!("-s {}", size_of(pair.tool));
    let options = &format!("-D 100 {size} --progress");
    let (server, mut client) = (pair.start("server", "", options), pair.start("client", "", options));
    client.wait_for(" messages in ");
    (server, client)
}

#[test]
fn a_server_that_is_killed_ends_the_client() {
    for tool in KINDS {
        let pair = Pair::new(tool, "kill-server");
        let (server, client) = endless(&pair);
        server.signal("-KILL");
        assert!(!client.end().0.status.success());
    }
}

#[test]
fn a_client_that_is_killed_ends_the_server() {
    for tool in KINDS {
        let pair = Pair::new(tool, "kill-client");
        let (server, client) = endless(&pair);
        client.signal("-KILL");
        server.end().assert_failed(1, "the peer closed the side channel");
    }
}

#[test]
fn an_interrupt_prints_the_table_so_far() {
    for tool in ALL {
        let pair = Pair::new(tool, "interrupt");
        let (server, client) = endless(&pair);
        client.signal("-INT");
        let client = client.end();
        client.assert_failed(130, "interrupted");
        let rows = table(&client).1;
        assert!(rows.len() == 1 && rows[0][0] == size_of(tool) && rows[0][1] > 0, "{tool}: {rows:?}");
        assert_eq!(pair.json("client")["results"][0]["iterations"], rows[0][1]);
        server.end().assert_failed(1, "the peer failed: interrupted");
    }
}
