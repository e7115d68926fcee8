//! Ctrl-C takes no new connections, and gives those that are open their time.

use crate::setup::{Tunnel, assert_reset, tell};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn ctrl_c_waits_for_open_connections() {
    let mut tunnel = Tunnel::new("tunnel-drain");
    let (mut here, mut there) = tunnel.programs();
    here.write_all(b"before").expect("written");
    tunnel.here.signal("-INT");
    tunnel.here.wait_for("waits for 1 connections, 60 s at most");
    // Nobody is accepted any more, and what is open goes on.
    let error = TcpStream::connect(tunnel.entry).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    here.write_all(b" and after").expect("written");
    here.shutdown(Shutdown::Write).expect("half a close");
    let mut text = String::new();
    there.read_to_string(&mut text).expect("read");
    assert_eq!(text, "before and after");
    drop(there);
    assert_eq!(here.read(&mut [0]).expect("the end"), 0);
    let Tunnel { here, there, .. } = tunnel;
    here.end().assert_success();
    there.signal("-INT");
    there.end().assert_success();
}

/// Whichever end it is, both programs see a reset, and not before the time is over.
#[test]
fn what_is_open_when_the_time_is_over_is_reset() {
    let short: &[&str] = &["--drain", "2"];
    for (name, options) in [("tunnel-drain-here", [short, &[]]), ("tunnel-drain-there", [&[], short])] {
        let tunnel = Tunnel::with_each(name, options);
        let (mut client, mut server) = tunnel.programs();
        tell(&mut client, &mut server);
        tell(&mut server, &mut client);
        let Tunnel { here, there, .. } = tunnel;
        let (ends, stays) = if options[0].is_empty() { (there, here) } else { (here, there) };
        let begun = Instant::now();
        ends.signal("-INT");
        assert_reset(&mut client);
        assert_reset(&mut server);
        assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
        let ended = ends.end();
        ended.assert_success();
        assert!(ended.error().contains("1 connections are reset"), "{}", ended.error());
        stays.signal("-INT");
        stays.end().assert_success();
    }
}
