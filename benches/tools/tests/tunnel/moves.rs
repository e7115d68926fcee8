//! With an address of TCP connections go on without RDMA, and come back to it.

use crate::setup::{Numbered, PART, Switched, assert_reset, over_pool, pool, tell, told};
use crate::support::{LIMIT, Place};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::scope;

/// With an address of TCP they go on without it.
#[test]
fn a_pool_that_ends_is_gone_round_by_tcp() {
    let (place, carriers) = (Place::new("tunnel-pool-tcp"), Place::new("tunnel-pool-carriers"));
    let (switch, device) = pool(&place);
    let by_tcp = format!("127.0.0.1:{}", carriers.port);
    let ([mut here, there], [mut client, mut server]) = over_pool(&device, &["--tcp", &by_tcp]);
    switch.signal("-KILL");
    here.wait_for("1 connections went over to TCP");
    tell(&mut client, &mut server);
    tell(&mut server, &mut client);
    drop((client, server));
    for tunnel in [here, there] {
        tunnel.signal("-INT");
        tunnel.end().assert_success();
    }
}

#[test]
fn a_black_hole_in_mid_transfer_is_gone_round_by_tcp_and_left_when_it_heals() {
    let mut tunnel = Switched::new("tunnel-hole", true);
    let (mut client, mut server) = tunnel.programs();
    let done = AtomicBool::new(false);
    let (arrived, crossing) = mpsc::channel();
    let (sent, came) = scope(|threads| {
        let sends = threads.spawn(|| {
            let mut sent = Numbered::default();
            while !done.load(Ordering::Relaxed) {
                client.write_all(&sent.next()).expect("written");
            }
            client.shutdown(Shutdown::Write).expect("half a close");
            sent.count
        });
        let reads = threads.spawn(|| {
            let (mut expected, mut part) = (Numbered::default(), [0; PART]);
            while server.peek(&mut [0]).expect("read") > 0 {
                server.read_exact(&mut part).expect("read");
                assert!(part == expected.next(), "part {}", expected.count);
                let _ = arrived.send(());
            }
            expected.count
        });
        crossing.recv_timeout(LIMIT).expect("bytes cross it");
        tunnel.switch.signal("-STOP");
        tunnel.here.wait_for("1 connections went over to TCP");
        // What arrives from now on came over TCP: far more than was on its way.
        while crossing.try_recv().is_ok() {}
        for _ in 0..64 {
            crossing.recv_timeout(LIMIT).expect("it goes on over TCP");
        }
        tunnel.switch.signal("-CONT");
        tunnel.here.wait_for("1 came back to RDMA");
        while crossing.try_recv().is_ok() {}
        for _ in 0..64 {
            crossing.recv_timeout(LIMIT).expect("it goes on over RDMA");
        }
        done.store(true, Ordering::Relaxed);
        (sends.join().expect("no panic"), reads.join().expect("no panic"))
    });
    assert_eq!(sent, came);
    drop((client, server));
    for running in [tunnel.here, tunnel.there] {
        running.signal("-INT");
        running.end().assert_success();
    }
}

/// Who accepted has gone then, and nobody takes the next carrier.
#[test]
fn after_ctrl_c_at_the_server_a_path_that_fails_is_a_reset() {
    let mut tunnel = Switched::new("tunnel-hole-drain", true);
    let (mut client, mut server) = tunnel.programs();
    tunnel.there.signal("-INT");
    tunnel.there.wait_for("waits for 1 connections");
    tell(&mut client, &mut server);
    tell(&mut server, &mut client);
    tunnel.switch.signal("-STOP");
    assert_reset(&mut client);
    assert_reset(&mut server);
    assert_eq!(told(&tunnel.place, "here")["streams_moved_to_tcp_total"], 0.0);
    tunnel.switch.signal("-CONT");
    tunnel.there.end().assert_success();
    tunnel.here.signal("-INT");
    tunnel.here.end().assert_success();
}

#[test]
fn after_ctrl_c_at_the_server_the_end_of_a_pool_is_a_reset() {
    let (place, carriers) = (Place::new("tunnel-pool-drain"), Place::new("tunnel-pool-drain-tcp"));
    let (switch, device) = pool(&place);
    let by_tcp = format!("127.0.0.1:{}", carriers.port);
    let ([here, mut there], mut programs) = over_pool(&device, &["--tcp", &by_tcp]);
    there.signal("-INT");
    there.wait_for("waits for 1 connections");
    switch.signal("-KILL");
    programs.iter_mut().for_each(assert_reset);
    there.end().assert_success();
    // It goes on without its device.
    here.signal("-INT");
    here.end().assert_success();
}

/// The listener is at the other end, and goes on.
#[test]
fn after_ctrl_c_at_the_client_a_path_that_fails_is_gone_round_by_tcp() {
    let mut tunnel = Switched::new("tunnel-hole-drain-here", true);
    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);
    tunnel.here.signal("-INT");
    tunnel.here.wait_for("waits for 1 connections");
    tunnel.switch.signal("-STOP");
    tunnel.there.wait_for("1 connections went over to TCP");
    tunnel.here.wait_for("1 connections went over to TCP");
    tell(&mut client, &mut server);
    tell(&mut server, &mut client);
    drop((client, server));
    tunnel.switch.signal("-CONT");
    tunnel.here.end().assert_success();
    tunnel.there.signal("-INT");
    tunnel.there.end().assert_success();
}
