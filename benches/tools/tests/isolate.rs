//! `srnic isolate` as a process.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use serde_json::Value;
use std::fs;
use support::{Ended, Place, Running, srnic};

const SHORT: [&str; 6] = ["--attackers", "bulk", "--victims", "write-64K,read-8", "--time", "50"];

fn isolate(arguments: &[&str]) -> Ended {
    let mut command = srnic("isolate");
    command.args(arguments).env_remove("SRNIC_LOG");
    Running::start(command).end()
}

#[test]
fn pairs_are_told_as_json_and_drawn() {
    let place = Place::new("isolate");
    let picture = place.path("map.svg");
    let options = [&SHORT[..], &["--json", "--svg", &picture.display().to_string()]].concat();
    let ended = isolate(&options);
    let document: Value = serde_json::from_slice(&ended.0.stdout).expect("a document");
    let pairs = document["pairs"].as_array().expect("pairs");
    assert_eq!((pairs.len(), &document["complete"]), (2, &true.into()), "{document}");
    for pair in pairs {
        for key in ["alone", "guaranteed", "off", "on"] {
            assert!(pair[key].as_f64().is_some_and(|gbps| gbps > 0.0), "{key}: {pair}");
        }
        assert_eq!((&pair["attacker"], pair["victim"].is_string()), (&"bulk".into(), true), "{pair}");
    }
    let all_hold = document["failed_on"] == 0;
    assert_eq!(ended.0.status.code(), Some(i32::from(!all_hold)), "{document}");
    let svg = fs::read_to_string(&picture).expect("it was written");
    assert_eq!(svg.matches("read-8").count(), 2, "a map without tenants and one with them: {svg}");
    assert_eq!(document, serde_json::from_slice::<Value>(&isolate(&options).0.stdout).expect("the same"));
}

#[test]
fn a_matrix_of_ones_own_is_played() {
    let place = Place::new("isolate-own");
    let printed = isolate(&["--print"]);
    printed.assert_success();
    let file = place.path("matrix.toml");
    fs::write(&file, &printed.0.stdout).expect("ours");
    let file = file.display().to_string();
    let own = isolate(&[&SHORT[..], &["--matrix", &file]].concat());
    assert_eq!(own.0.stdout, isolate(&SHORT).0.stdout);
    let text = String::from_utf8_lossy(&own.0.stdout).into_owned();
    assert!(text.contains("without tenants: ") && text.contains("of 2 pairs, "), "{text}");
    fs::write(place.path("bad.toml"), "[[attacker]]\nname = 'a'\nworkload = [{op = 'fly'}]\n").expect("ours");
    isolate(&["--matrix", &place.path("bad.toml").display().to_string()]).assert_failed(2, "fly");
    isolate(&["--victims", "nobody"]).assert_failed(2, "there is no victim \"nobody\"");
    isolate(&["--matrix", "/nowhere/at/all"]).assert_failed(2, "cannot read");
}

/// A round each: whether figures hold depends on who else uses the machine.
#[test]
fn a_pair_is_measured_on_two_processes() {
    let pairs = ["--attackers", "tiny,not-ready", "--victims", "send-4K", "--rounds", "1"];
    let ended = isolate(&[&["--real", "--json"][..], &pairs].concat());
    let document: Value = serde_json::from_slice(&ended.0.stdout).expect("a document");
    let pairs = document["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 2, "{document}");
    for pair in pairs {
        for key in ["alone", "guaranteed", "off", "on"] {
            assert!(pair[key].as_f64().is_some_and(|gbps| gbps > 0.0), "{key}: {pair}");
            assert!(pair["simulated"][key].as_f64().is_some_and(|gbps| gbps > 0.0), "{key}: {pair}");
        }
    }
    let ended = isolate(&["--real", "--attackers", "control", "--victims", "write-8", "--rounds", "1"]);
    ended.assert_failed(2, "create is played in virtual time only");
}
