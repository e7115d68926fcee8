//! What an endpoint tells at the `stat=` of its device.

mod support;

use srnic_streams::{Endpoint, Stream};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::thread::scope;
use support::{LIMIT, small};
use verbs_api::StatAddress;

/// Numbers by metric with its labels, without `srnic_`.
fn told(address: &StatAddress) -> BTreeMap<String, f64> {
    let text = address.read().expect("an answer");
    let metric = |line: &str| {
        let (name, value) = line.strip_prefix("srnic_streams_")?.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(metric).collect()
}

#[test]
fn a_device_tells_of_its_streams() {
    let path = std::env::temp_dir().join(format!("srnic-streams-metrics-{}", std::process::id()));
    let device = format!("sim:streams-metrics,stat={}", path.display());
    let here = Endpoint::open(&device, small()).expect("an endpoint");
    let there = Endpoint::open("sim:streams-metrics", small()).expect("an endpoint");
    let address = StatAddress::Unix(path);
    assert_eq!(told(&address)["open"], 0.0);
    let listener = there.listen(0).expect("a port");
    let streams = |from: &Endpoint| -> (Stream, Stream) {
        scope(|threads| {
            let accepts = threads.spawn(|| listener.accept_within(LIMIT));
            let one = from.connect(listener.local_addr(), LIMIT).expect("connected");
            (one, accepts.join().expect("no panic").expect("accepted").expect("in time"))
        })
    };
    let (mut one, mut other) = streams(&here);
    one.write_all(&[7; 300]).expect("written");
    other.read_exact(&mut [0; 300]).expect("read");
    other.write_all(&[8; 20]).expect("written");
    one.read_exact(&mut [0; 20]).expect("read");
    let mut buffer = one.buffer(8).expect("memory");
    buffer.write_all(b"in place").expect("room");
    one.write_buffer(&mut buffer).expect("written");
    other.read_exact(&mut [0; 8]).expect("read");
    other.write_all(b"there").expect("written");
    assert_eq!(*one.read_buffer().expect("read"), *b"there");
    let now = told(&address);
    let shown =
        ["open", "made_total", "written_bytes_total", "read_bytes_total", "over_tcp", "rejected_total"];
    assert_eq!(shown.map(|name| now[name]), [1.0, 1.0, 308.0, 25.0, 0.0, 0.0]);
    assert_eq!(["written", "read"].map(|what| now[&format!("{what}_in_place_bytes_total")]), [8.0, 5.0]);
    assert_eq!(now["messages_total{way=\"send\"}"], 2.0);
    assert!(now["memory_bytes"] > 0.0 && now["registrations_total"] > 0.0);
    assert!(now.keys().filter(|name| name.starts_with("violations_total{rule=")).count() > 10);
    // A second endpoint of the device is told of in the same numbers.
    let more = Endpoint::new(here.device(), small()).expect("an endpoint");
    let _pair = streams(&more);
    assert_eq!(told(&address)["made_total"], 2.0);
    assert_eq!(told(&address)["open"], 2.0);
}
