//! `srnic isolate` as a process.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use serde_json::Value;
use std::fs;
use support::{Ended, Place, Running, srnic};

/// One that takes milliseconds to simulate.
const SMALL: &str = "
time_us = 100
lead_us = 5
[host]
frame_ns = 50
tx_ring = 16
[[attacker]]
name = 'crowd'
workload = [{ qps = 16, sizes = 2048 }]
[[attacker]]
name = 'not-ready'
workload = [{ op = 'send', sizes = 64, qps = 4, receives = 1, receive_ns = 100000 }]
[[victim]]
name = 'one'
workload = [{ sizes = 2048 }]
[[victim]]
name = 'small'
workload = [{ op = 'send', sizes = 64, qps = 4, receives = 64 }]
";

fn isolate(arguments: &[&str]) -> Ended {
    let mut command = srnic("isolate");
    command.args(arguments).env_remove("SRNIC_LOG");
    Running::start(command).end()
}

/// The small matrix, as a file.
fn small(place: &Place) -> String {
    let file = place.path("small.toml");
    fs::write(&file, SMALL).expect("ours");
    file.display().to_string()
}

fn document(ended: &Ended) -> Value {
    serde_json::from_slice(&ended.0.stdout).unwrap_or_else(|error| panic!("{error}: {:?}", ended.0))
}

fn positive(pair: &Value) {
    for key in ["alone", "guaranteed", "off", "on"] {
        assert!(pair[key].as_f64().is_some_and(|gbps| gbps > 0.0), "{key}: {pair}");
    }
}

#[test]
fn pairs_are_told_as_json_and_drawn() {
    let place = Place::new("isolate");
    let (matrix, picture) = (small(&place), place.path("map.svg"));
    let options =
        ["--matrix", &matrix, "--attackers", "crowd", "--json", "--svg", &picture.display().to_string()];
    let ended = isolate(&options);
    let told = document(&ended);
    let pairs = told["pairs"].as_array().expect("pairs");
    assert_eq!((pairs.len(), &told["complete"]), (2, &true.into()), "{told}");
    pairs.iter().for_each(positive);
    assert_eq!((&pairs[0]["attacker"], &pairs[1]["victim"]), (&"crowd".into(), &"small".into()));
    let all_hold = told["failed_on"] == 0;
    assert_eq!(ended.0.status.code(), Some(i32::from(!all_hold)), "{told}");
    let svg = fs::read_to_string(&picture).expect("it was written");
    assert_eq!(svg.matches("crowd").count(), 2, "a map without tenants and one with them: {svg}");
    assert_eq!(told, document(&isolate(&options)));
}

#[test]
fn what_is_no_matrix_is_refused() {
    let place = Place::new("isolate-bad");
    let printed = isolate(&["--print"]);
    printed.assert_success();
    let text = String::from_utf8_lossy(&printed.0.stdout).into_owned();
    assert!(text.contains("[[attacker]]\nname = \"bulk\""), "{text}");
    let matrix = small(&place);
    let told = isolate(&["--matrix", &matrix, "--victims", "one"]);
    let text = String::from_utf8_lossy(&told.0.stdout).into_owned();
    assert!(text.contains("without tenants: ") && text.contains("of 2 pairs, "), "{text}");
    isolate(&["--matrix", &matrix, "--victims", "nobody"]).assert_failed(2, "there is no victim \"nobody\"");
    isolate(&["--matrix", "/nowhere/at/all"]).assert_failed(2, "cannot read");
    fs::write(&matrix, "[[attacker]]\nname = 'a'\nworkload = [{op = 'fly'}]\n").expect("ours");
    isolate(&["--matrix", &matrix]).assert_failed(2, "fly");
}

/// A round each: whether figures hold depends on who else uses the machine.
#[test]
fn pairs_are_measured_on_two_processes() {
    let place = Place::new("isolate-real");
    let matrix = small(&place);
    let ended = isolate(&["--real", "--json", "--matrix", &matrix, "--victims", "small", "--rounds", "1"]);
    let told = document(&ended);
    let pairs = told["pairs"].as_array().expect("pairs");
    assert_eq!((pairs.len(), &told["complete"]), (2, &true.into()), "{told}");
    for pair in pairs {
        positive(pair);
        positive(&pair["simulated"]);
    }
}

#[test]
fn what_two_processes_cannot_play_is_refused() {
    let place = Place::new("isolate-unreal");
    let matrix = small(&place);
    let lossy = SMALL.replace("{ qps = 16,", "{ qps = 16, faults = { loss = 0.5 },");
    fs::write(&matrix, lossy).expect("ours");
    isolate(&["--rounds", "2"]).assert_failed(2, "--real");
    let real = ["--real", "--rounds", "1", "--matrix", &matrix];
    let reason = "attackers that --real cannot play: crowd (faults); choose of --attackers not-ready";
    isolate(&real).assert_failed(2, reason);
    isolate(&[&real[..], &["--attackers", "crowd"]].concat()).assert_failed(2, reason);
    isolate(&[&real[..], &["--svg", "map.svg"]].concat()).assert_failed(2, "cannot be used with");
}
