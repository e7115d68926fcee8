//! Links that are missing, paths that fail and ends that are killed, where there is no TCP.

use crate::setup::{Switched, Tunnel, accepting, assert_reset, listening, over_pool, pool, start, tell};
use crate::support::Place;
use std::io::{Read, Write};
use std::thread::scope;
use std::time::{Duration, Instant};

/// A peer that is not there yet, or is killed, is told without a connection that fails.
#[test]
fn a_link_that_is_missing_is_told_and_so_is_its_coming() {
    let place = Place::new("tunnel-link");
    let device = format!("memif:{}", place.path("memif").display());
    let listens = ["--listen", "localhost:0", "--peer", "10.77.0.1:7471"];
    let accepts = ["--accept", "7471", "--to", "localhost:1"];
    let mut here = start(&device, &listens);
    here.wait_for("waiting: the link did not come up yet; nobody listens at ");
    let there = start(&device, &accepts);
    here.wait_for("the link is up");
    there.signal("-KILL");
    here.wait_for("waiting: the link did not come up again yet; ");
    let there = start(&device, &accepts);
    here.wait_for("the link is up");
    for running in [here, there] {
        running.signal("-INT");
        running.end().assert_success();
    }
}

/// The end of a pool's switch is that of its tunnels, which say what to do, after Ctrl-C as before.
/// What they carried is reset.
#[test]
fn a_pool_that_ends_is_told() {
    for after_ctrl_c in [false, true] {
        let place = Place::new(&format!("tunnel-pool-{after_ctrl_c}"));
        let (switch, device) = pool(&place);
        let (mut tunnels, mut programs) = over_pool(&device, &[]);
        if after_ctrl_c {
            tunnels[0].signal("-INT");
            tunnels[0].wait_for("waits for 1 connections");
        }
        switch.signal("-KILL");
        programs.iter_mut().for_each(assert_reset);
        for tunnel in tunnels {
            let ended = tunnel.end();
            ended.assert_failed(1, "has ended; start `srnic switch --pool ");
            assert!(ended.error().contains("1 connections are reset"), "{}", ended.error());
        }
    }
}

/// Without an address of TCP the connection ends by a reset.
#[test]
fn a_black_hole_without_tcp_is_a_reset() {
    let tunnel = Switched::new("tunnel-no-tcp", false);
    let (mut client, mut server) = tunnel.programs();
    client.write_all(b"x").expect("written");
    server.read_exact(&mut [0]).expect("read");
    tunnel.switch.signal("-STOP");
    client.write_all(b"y").expect("written");
    assert_reset(&mut client);
    tunnel.switch.signal("-CONT");
}

/// Whichever end is killed, the other one says so, its program sees a reset, and the next
/// connection works as soon as the end is there again.
#[test]
fn an_end_that_is_killed_is_reported_and_comes_back() {
    let mut tunnel = Switched::new("tunnel-kill", false);
    let to = tunnel.server.local_addr().expect("its address");

    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);
    tunnel.there.signal("-KILL");
    client.write_all(b"lost").expect("written");
    assert_reset(&mut client);
    tunnel.here.wait_for("8 bytes out, 0 bytes in, ");
    tunnel.there = accepting(&tunnel.place, to, &[]);
    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);

    tunnel.here.signal("-KILL");
    server.write_all(b"lost").expect("written");
    assert_reset(&mut server);
    tunnel.there.wait_for("4 bytes in, ");
    (tunnel.here, tunnel.entry) = listening(&tunnel.place, &[]);
    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);
    tell(&mut server, &mut client);
}

/// The longest that an idle connection may take to hear that the other end was killed: the
/// documents say 19 s, and a busy machine has more.
const UNHEARD: Duration = Duration::from_secs(60);

/// Nothing is written: only the silence of the end that was killed tells of it.
#[test]
fn an_idle_connection_hears_of_an_end_that_is_killed() {
    scope(|threads| {
        for kills_here in [false, true] {
            threads.spawn(move || {
                let tunnel = Switched::new(&format!("tunnel-idle-{kills_here}"), false);
                let (mut client, mut server) = tunnel.programs();
                tell(&mut client, &mut server);
                tell(&mut server, &mut client);
                let (killed, hears) =
                    if kills_here { (&tunnel.here, &mut server) } else { (&tunnel.there, &mut client) };
                killed.signal("-KILL");
                let begun = Instant::now();
                assert_reset(hears);
                assert!(begun.elapsed() < UNHEARD, "{:?}", begun.elapsed());
            });
        }
    });
}

/// The link of a pair is down at once, and may come up again: the connection waits as long.
#[test]
fn an_idle_connection_of_a_pair_hears_of_an_end_that_is_killed() {
    let tunnel = Tunnel::new("tunnel-idle-pair");
    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);
    tell(&mut server, &mut client);
    tunnel.there.signal("-KILL");
    let begun = Instant::now();
    assert_reset(&mut client);
    assert!(begun.elapsed() < UNHEARD, "{:?}", begun.elapsed());
}
