//! What a tunnel tells Prometheus, at the `stat=` of its device.

use crate::setup::{Switched, Tunnel, assert_reset, reset, tell, told};
use crate::support::Place;
use std::io::{Read, Write};
use std::net::TcpListener;

/// Those that the documents name.
const NAMES: [&str; 6] = [
    "open",
    "connections_total",
    "refused_total",
    "broken_total",
    "sent_bytes_total",
    "received_bytes_total",
];

/// Their figures at `end`.
#[track_caller]
fn assert_told(place: &Place, end: &str, expected: [f64; 6]) {
    let told = told(place, end);
    let figures = NAMES.map(|name| told.get(&format!("tunnel_{name}")).copied());
    assert_eq!(figures, expected.map(Some), "{end}: {NAMES:?}");
}

/// Figures stand when the line of a connection's end is said.
#[test]
fn a_tunnel_counts_its_connections_and_their_bytes() {
    let mut tunnel = Tunnel::new("tunnel-metrics");
    for end in ["here", "there"] {
        assert_told(&tunnel.place, end, [0.0; 6]);
    }
    let (mut client, mut server) = tunnel.programs();
    client.write_all(&[1; 1000]).expect("written");
    server.read_exact(&mut [0; 1000]).expect("read");
    server.write_all(&[2; 300]).expect("written");
    client.read_exact(&mut [0; 300]).expect("read");
    for end in ["here", "there"] {
        let told = told(&tunnel.place, end);
        assert_eq!(["tunnel_open", "tunnel_connections_total"].map(|name| told[name]), [1.0; 2], "{end}");
    }
    drop((client, server));
    tunnel.here.wait_for("1000 bytes out, 300 bytes in");
    tunnel.there.wait_for("300 bytes out, 1000 bytes in");
    assert_told(&tunnel.place, "here", [0.0, 1.0, 0.0, 0.0, 1000.0, 300.0]);
    assert_told(&tunnel.place, "there", [0.0, 1.0, 0.0, 0.0, 300.0, 1000.0]);

    let (client, mut server) = tunnel.programs();
    reset(client);
    assert_reset(&mut server);
    tunnel.here.wait_for("0 bytes out, 0 bytes in, ");
    tunnel.there.wait_for("0 bytes out, 0 bytes in, ");
    assert_told(&tunnel.place, "here", [0.0, 2.0, 0.0, 1.0, 1000.0, 300.0]);
    assert_told(&tunnel.place, "there", [0.0, 2.0, 0.0, 1.0, 300.0, 1000.0]);

    // The port is free again: its connection is refused there, and breaks here.
    tunnel.server = TcpListener::bind(("127.0.0.1", 0)).expect("another");
    assert_reset(&mut tunnel.connect());
    tunnel.here.wait_for("0 bytes out, 0 bytes in, ");
    tunnel.there.wait_for("not connected: ");
    assert_told(&tunnel.place, "here", [0.0, 3.0, 0.0, 2.0, 1000.0, 300.0]);
    assert_told(&tunnel.place, "there", [0.0, 2.0, 1.0, 1.0, 300.0, 1000.0]);
    tunnel.end();
}

/// On a busy machine it may go over more than once.
#[test]
fn carriers_that_change_are_counted() {
    let mut tunnel = Switched::new("tunnel-metrics-moves", true);
    let figures = |place: &Place, end: &str| {
        let told = told(place, end);
        ["moved_to_tcp_total", "returned_to_rdma_total", "over_tcp"]
            .map(|name| told[&format!("streams_{name}")])
    };
    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);
    tunnel.switch.signal("-STOP");
    tunnel.here.wait_for(" connections went over to TCP");
    tunnel.there.wait_for(" connections went over to TCP");
    for end in ["here", "there"] {
        let [moved, returned, over_tcp] = figures(&tunnel.place, end);
        assert!(moved > 0.0 && over_tcp == 1.0, "{end}: {moved}, {returned}, {over_tcp}");
    }
    let bytes = |end: &str, what: &str| told(&tunnel.place, end)[&format!("streams_{what}_bytes_total")];
    let before = [bytes("here", "written"), bytes("there", "read")];
    tell(&mut client, &mut server);
    assert_eq!([bytes("here", "written"), bytes("there", "read")], before.map(|bytes| bytes + 4.0));
    tunnel.switch.signal("-CONT");
    tunnel.here.wait_for(" 1 came back to RDMA");
    tunnel.there.wait_for(" 1 came back to RDMA");
    for end in ["here", "there"] {
        let [moved, returned, over_tcp] = figures(&tunnel.place, end);
        assert!(returned > 0.0 && over_tcp == moved - returned, "{end}: {moved}, {returned}, {over_tcp}");
    }
    tell(&mut server, &mut client);
    drop((client, server));
    for running in [tunnel.here, tunnel.there] {
        running.signal("-INT");
        running.end().assert_success();
    }
}
