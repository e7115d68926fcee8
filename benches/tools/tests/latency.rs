//! `srnic latency` looks at a running tool.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use std::time::{Duration, Instant};
use support::{Ended, LIMIT, Place, Running, srnic};

/// What `srnic latency` says of the client's device.
fn ask(place: &Place, options: &[&str]) -> Ended {
    let mut command = srnic("latency");
    command.args(options).arg(place.path("client.stat"));
    Running::start(command).end()
}

/// A test of bandwidth that goes on, whose client's device is opened with `keys` as well.
fn start(place: &Place, keys: &str) -> [Running; 2] {
    ["server", "client"].map(|side| {
        let mut command = srnic("write-bw");
        let keys = if side == "client" { keys } else { "" };
        let [socket, stat] =
            ["memif".to_owned(), format!("{side}.stat")].map(|name| place.path(&name).display().to_string());
        command.args(["-d", &format!("memif:{socket},stat={stat}{keys}"), "-p", &place.port.to_string()]);
        command.args(["-D", "600", "-u", "20", "--progress"]).args((side == "client").then_some("127.0.0.1"));
        Running::start(command)
    })
}

#[test]
fn sampled_operations_are_told_with_parts_that_sum_to_their_time() {
    let place = Place::new("latency");
    let [server, mut client] = start(&place, ",latency=64,slow=1ns");
    client.wait_for("messages in");
    let deadline = Instant::now() + LIMIT;
    let document = loop {
        let ended = ask(&place, &["--once", "--json"]);
        ended.assert_success();
        let document: serde_json::Value = serde_json::from_slice(&ended.0.stdout).expect("a document");
        if document["operations"][0]["count"].as_f64() >= Some(10.0) {
            break document;
        }
        assert!(Instant::now() < deadline, "{document}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let of = &document["operations"][0];
    assert_eq!((&of["opcode"], &of["status"]), (&"Write".into(), &"Success".into()), "{document}");
    let parts = of["parts"].as_object().expect("parts").values().filter_map(serde_json::Value::as_f64);
    let (sum, count) = (parts.sum::<f64>(), of["count"].as_f64().expect("a count"));
    let mean = of["mean"].as_f64().expect("a mean");
    assert!(mean > 0.0 && (sum / count - mean).abs() <= mean * 1e-6, "{document}");
    let slow = document["slow"][0].as_object().expect("every one is slow");
    let number = |key: &str| slow[key].as_str().and_then(|text| text.parse::<u64>().ok()).expect("a number");
    let parts = verbs_api::Part::ALL.map(|part| number(part.name()));
    assert_eq!(parts.iter().sum::<u64>(), number("total"), "exactly: {slow:?}");
    let told = ask(&place, &["--explain"]);
    let told = String::from_utf8_lossy(&told.0.stdout).into_owned();
    assert!(told.contains("What to do: ") && told.contains("Write "), "{told}");
    let table = ask(&place, &["--once"]);
    let table = String::from_utf8_lossy(&table.0.stdout).into_owned();
    assert!(table.contains("  Write  Success  ") && table.contains("o posting"), "{table}");
    client.signal("-INT");
    drop((server, client));
}

#[test]
fn a_device_that_samples_nothing_says_how_to_open_it() {
    let place = Place::new("latency-off");
    let [server, mut client] = start(&place, "");
    client.wait_for("messages in");
    ask(&place, &["--once"]).assert_failed(1, "open it with latency=64");
    client.signal("-INT");
    drop((server, client));
}
