//! `--rdma_cm`: two processes that share nothing but their devices.

use super::support::{Ended, Running};
use super::{
    ATOMIC_LAT, Pair, RAW_BW, READ_BW, RPC, SEND_BW, SEND_LAT, TCP_LAT, WRITE_BW, WRITE_LAT, size_of, table,
};
use std::net::TcpListener;

/// What a device that nobody gave an address has.
const SERVER: &str = "10.77.0.1";
/// Of each kind of tool one.
const TOOLS: [&str; 5] = [READ_BW, WRITE_BW, WRITE_LAT, ATOMIC_LAT, RPC];

fn start(pair: &Pair, side: &str, wrapper: &str, options: &str) -> Running {
    pair.start_at(SERVER, side, wrapper, &format!("-R {options}"))
}

/// Both sides with the same options, to their successful end.
fn run(pair: &Pair, wrapper: &str, options: &str) -> [Ended; 2] {
    let (server, client) = (start(pair, "server", "", options), start(pair, "client", wrapper, options));
    let ended = [client.end(), server.end()];
    ended.iter().for_each(Ended::assert_success);
    ended
}

#[test]
fn every_kind_of_tool_delivers_every_byte_through_loss_and_without_tcp() {
    for tool in TOOLS {
        let pair = Pair::new(tool, "cm");
        // Nobody else can listen there.
        let _taken = TcpListener::bind(("127.0.0.1", pair.place.port)).expect("it was free");
        let wrapper = "fault:loss=1%,dup=1%,reorder=1%,seed=2:";
        let ended = run(&pair, wrapper, &format!("-s {} -n 200 --verify", size_of(tool)));
        for ended in ended {
            assert_eq!(table(&ended).1, [[size_of(tool), 200]], "{tool}");
        }
        assert_eq!(pair.json("client")["rdma_cm"], true, "{tool}");
    }
}

#[test]
fn many_queue_pairs_are_connected_in_either_dialect() {
    for options in ["", "--plain"] {
        let pair = Pair::new(WRITE_BW, "cm-many");
        let options = format!("-s 3000 -n 20 -q 50 -b --verify {options}");
        for ended in run(&pair, "fault:loss=1%,seed=3:", &options) {
            assert_eq!(table(&ended).1, [[3000, 2000]]);
        }
    }
    let pair = Pair::new(SEND_BW, "cm-srq");
    for ended in run(&pair, "", "-s 1500 -n 100 -q 4 --use-srq -r 32") {
        assert_eq!(table(&ended).1, [[1500, 400]]);
    }
}

#[test]
fn all_sizes_follow_each_other() {
    let [client, server] = run(&Pair::new(SEND_LAT, "cm-all"), "", "-a -n 3 --verify");
    assert_eq!(table(&client).1.len(), 23);
    assert_eq!(table(&client).1, table(&server).1);
}

#[test]
fn devices_have_ipv6_addresses() {
    let pair = Pair::new(SEND_BW, "cm-v6");
    let start = |side: &str, ip: &str| {
        let device = format!("memif:{},ip={ip}", pair.place.path("memif").display());
        pair.start_on(&device, "fd00::1", side, "-R -s 5000 -n 100 -q 3 --verify")
    };
    let mut server = start("server", "fd00::1");
    server.wait_for("waiting for a client on [fd00::1]:");
    let client = start("client", "fd00::2");
    for ended in [client.end(), server.end()] {
        ended.assert_success();
        assert_eq!(table(&ended).1, [[5000, 300]]);
    }
}

#[test]
fn what_does_not_go_together_is_said() {
    for tool in [TCP_LAT, RAW_BW] {
        start(&Pair::new(tool, "cm-none"), "server", "", "")
            .end()
            .assert_failed(2, "unexpected argument '-R'");
    }
    let pair = Pair::new(WRITE_BW, "cm-refuse");
    start(&pair, "server", "", "--bind 127.0.0.9").end().assert_failed(2, "cannot be used with");
    let mut server = start(&pair, "server", "", "-n 20");
    server.wait_for("waiting for a client on 10.77.0.1:");
    let loopback = pair.start_at("127.0.0.1", "client", "", "-R");
    loopback.end().assert_failed(1, "the server's address is that of its device; 127.0.0.1 is none");
    let family = pair.start_at("fd00::1", "client", "", "-R");
    family.end().assert_failed(1, "fd00::1 is of another family than this end's address, 10.77.0.2");
    // None of that has used up the server's one run.
    start(&pair, "client", "", "-n 10").end().assert_failed(1, "--iters is 10 here and 20 at the peer");
    server.end().assert_failed(1, "--iters is 20 here and 10 at the peer");
}

#[test]
fn another_tool_is_no_peer() {
    let mut pair = Pair::new(WRITE_BW, "cm-other");
    let server = start(&pair, "server", "", "");
    pair.tool = WRITE_LAT;
    let client = start(&pair, "client", "", "");
    client.end().assert_failed(1, "the peer said `srnic_write_bw 1` where `srnic_write_lat 1`");
    server.end().assert_failed(1, "the peer said `srnic_write_lat 1`");
}

/// Both sides in the middle of traffic.
fn endless(pair: &Pair) -> (Running, Running) {
    let options = format!("-D 100 -s {} --progress", size_of(pair.tool));
    let (server, mut client) = (start(pair, "server", "", &options), start(pair, "client", "", &options));
    client.wait_for(" messages in ");
    (server, client)
}

#[test]
fn an_interrupt_prints_the_table_so_far_and_the_peer_is_told() {
    for tool in [WRITE_BW, RPC] {
        let pair = Pair::new(tool, "cm-interrupt");
        let (server, client) = endless(&pair);
        client.signal("-INT");
        let client = client.end();
        client.assert_failed(130, "interrupted");
        assert_eq!(table(&client).1.len(), 1, "{tool}");
        server.end().assert_failed(1, "the peer failed: interrupted");
    }
}

#[test]
fn who_is_killed_is_missed() {
    let pair = Pair::new(SEND_LAT, "cm-kill");
    let (server, client) = endless(&pair);
    server.signal("-KILL");
    assert!(!client.end().0.status.success());
    // A server of WRITEs posts nothing itself: only the side channel tells it.
    drop(pair);
    let pair = Pair::new(WRITE_BW, "cm-kill-client");
    let (server, client) = endless(&pair);
    client.signal("-KILL");
    server.end().assert_failed(1, "the peer closed the side channel");
}
