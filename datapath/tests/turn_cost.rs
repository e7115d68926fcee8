//! Instructions that turns of the engine take, counted by callgrind on an optimised build.
//!
//! Without valgrind the tests say so and pass, unless `SRNIC_REQUIRE_TOOLS=1`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// `<what> <bytes> <instructions at most>`; what each word means stands at its head.
const LIMITS: &str = include_str!("turn_cost.limits");

/// False, with a word about it, if there is no valgrind.
fn have_valgrind() -> bool {
    let found =
        Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    let required = std::env::var_os("SRNIC_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(found || !required, "SRNIC_REQUIRE_TOOLS=1, but there is no valgrind");
    if !found {
        say("SKIPPED: no valgrind (SRNIC_REQUIRE_TOOLS=1 makes this fail)");
    }
    found
}

/// Past the test harness, which shows what failed tests print only.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The optimised example, built once into the target directory of this test.
fn example() -> &'static Path {
    static EXAMPLE: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLE.get_or_init(|| {
        // target/<profile>/deps/<this test>
        let own = std::env::current_exe().expect("the test has a path");
        let target = own.ancestors().nth(3).expect("it lies in a target directory");
        let arguments =
            ["build", "--release", "-p", "srnic-datapath", "--no-default-features", "--example", "turn_cost"];
        let status = Command::new(env!("CARGO"))
            .args(arguments)
            .arg("--target-dir")
            .arg(target)
            .status()
            .expect("cargo runs");
        assert!(status.success(), "cargo {}", arguments.join(" "));
        target.join("release/examples/turn_cost")
    })
}

/// Instructions of the counted turns.
fn instructions(what: &str, size: u32, count: u32) -> u64 {
    let (size, count) = (size.to_string(), count.to_string());
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=*counted_*")
        .arg(example())
        .args([what, &size, &count])
        .output()
        .expect("valgrind runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "turn_cost {what} {size} {count}: {text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    collected
        .and_then(|(_, number)| number.trim().parse().ok())
        .unwrap_or_else(|| panic!("no count in {text}"))
}

/// The functions of a profile that have costs: of the counted turns, or of everything.
fn functions(what: &str, everything: bool) -> Vec<String> {
    let profile = std::env::temp_dir().join(format!("srnic-profile-{what}-{}", std::process::id()));
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", profile.display()));
    if !everything {
        command.args(["--collect-atstart=no", "--toggle-collect=*counted_*"]);
    }
    let output = command.arg(example()).args([what, "64", "400"]).output().expect("valgrind runs");
    assert!(output.status.success(), "turn_cost {what}: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&profile).expect("callgrind wrote its profile");
    std::fs::remove_file(&profile).expect("it can be removed");
    let names = text.lines().filter(|line| line.starts_with("fn=") || line.starts_with("cfn="));
    names.map(str::to_owned).collect()
}

/// Instructions of one more, whatever the set-up took, in hundredths.
fn each(what: &str, size: u32, few: u32, many: u32) -> u64 {
    let more = instructions(what, size, many) - instructions(what, size, few);
    more * 100 / u64::from(many - few)
}

#[test]
fn a_turn_over_ten_thousand_idle_queue_pairs_costs_what_it_costs_with_one() {
    if !have_valgrind() {
        return;
    }
    let (one, many) = (each("idle", 1, 100, 1_100), each("idle", 10_000, 100, 1_100));
    say(&format!("an idle turn: {} instructions, with 10,000 queue pairs {}", one / 100, many / 100));
    assert!(one > 1_000, "{one}: less than ten instructions are no turn");
    assert!(one.abs_diff(many) * 100 <= one, "1 queue pair {one}, 10,000 queue pairs {many}");
}

#[test]
fn destroying_a_queue_that_nobody_uses_costs_the_same_among_ten_thousand_queue_pairs() {
    if !have_valgrind() {
        return;
    }
    let (one, many) = (each("destroy", 1, 10, 60), each("destroy", 10_000, 10, 60));
    say(&format!("two queues end: {} instructions, with 10,000 queue pairs {}", one / 100, many / 100));
    assert!(one > 1_000, "{one}: nothing was done");
    // The engine's part is the same. There is one `free` in it, whose cost depends on all that was
    // freed before: 40 instructions by the C library of Debian 12, 50 by that of 13. A look at each
    // queue pair would take 10,000 at least.
    assert!(one.abs_diff(many) <= 20_000, "1 queue pair {one}, 10,000 queue pairs {many}");
}

#[test]
fn a_packet_ahead_that_cannot_be_placed_costs_the_same_at_any_window() {
    if !have_valgrind() {
        return;
    }
    let [small, large] = [64, 1 << 14].map(|window| each("unplaceable", window, 100, 600));
    say(&format!(
        "dropped ahead of its turn: {} instructions, at the largest window {}",
        small / 100,
        large / 100
    ));
    assert!(small > 10_000, "{small}: nothing was done");
    assert!(small.abs_diff(large) * 100 <= small, "window 64 {small}, 16384 {large}");
}

#[test]
fn without_loss_the_slow_path_costs_nothing() {
    if !have_valgrind() {
        return;
    }
    let of_recovery = |names: &[String]| names.iter().filter(|name| name.contains("sr_recovery")).count();
    assert!(of_recovery(&functions("send", true)) > 0, "the whole program makes a slow path");
    for what in ["send", "receive", "ack"] {
        let names = functions(what, false);
        assert!(names.iter().any(|name| name.contains("counted_turns")), "{names:?}");
        let found: Vec<_> = names.iter().filter(|name| name.contains("sr_recovery")).collect();
        assert!(found.is_empty(), "{what} without a loss: {found:#?}");
    }
}

#[test]
fn packets_cost_no_more_instructions_than_they_may() {
    if !have_valgrind() {
        return;
    }
    let mut over = Vec::new();
    let lines = LIMITS.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let [what, bytes, limit] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (bytes, limit): (u32, u64) = (bytes.parse().unwrap(), limit.parse().unwrap());
        // Four packets have one acknowledgement.
        let cost = each(what, bytes, 400, 4_400) * if what == "ack" { 4 } else { 1 };
        let said = format!("{what} {bytes}: {} instructions, at most {limit}", cost / 100);
        say(&said);
        assert!(cost > 5_000, "{said}: nothing was done");
        if cost > limit * 100 {
            over.push(said);
        }
    }
    assert!(over.is_empty(), "{over:#?}; if this is worth it, or the compiler's doing, raise the limits");
}

/// A WRITE at both its ends, with one in 64 sampled and with none.
#[test]
fn to_sample_one_operation_in_64_costs_at_most_three_percent() {
    if !have_valgrind() {
        return;
    }
    // Four packets to a turn, and one acknowledgement for them: turns are short here, and each is
    // looked behind.
    let sender = |kind: &str| {
        each(&format!("{kind}send"), 64, 400, 4_400) + each(&format!("{kind}ack"), 64, 400, 4_400)
    };
    let receiver = |kind: &str| each(&format!("{kind}receive"), 64, 400, 4_400);
    let ends = [("sender", sender(""), sender("sampled-")), ("receiver", receiver(""), receiver("sampled-"))];
    for (who, without, with) in ends {
        say(&format!("{who}: {} instructions a WRITE, with sampling {}", without / 100, with / 100));
        assert!(with > without, "{who}: nothing was sampled: {without} {with}");
    }
    let [without, with] =
        ends.iter().fold([0, 0], |sum, (_, without, with)| [sum[0] + without, sum[1] + with]);
    assert!((with - without) * 100 <= without * 3, "{ends:?}");
}

/// Packets of an engine with tenants, of which one has something to send, and of one without: in
/// turns of four, and of sixteen.
#[test]
fn a_packet_costs_at_most_12_instructions_more_with_tenants() {
    if !have_valgrind() {
        return;
    }
    for (what, bytes) in [("send", 64), ("send-long", 256)] {
        let [without, with] = ["", "tenants-"].map(|kind| each(&format!("{kind}{what}"), bytes, 400, 4_400));
        say(&format!("{what} {bytes}: {} instructions, with tenants {}", without / 100, with / 100));
        assert!(with > without, "the engine has tenants: {without} {with}");
        assert!(with - without <= 1_200, "{what} {bytes}: {without} {with}");
    }
}

/// Two queue pairs with a turn each: of an engine without tenants, and of two tenants, which share.
#[test]
fn a_turn_costs_at_most_200_instructions_more_where_tenants_share() {
    if !have_valgrind() {
        return;
    }
    let [pair, rivals] = ["pair-send", "rivals-send"].map(|what| each(what, 64, 800, 8_800));
    say(&format!("two queue pairs: {} instructions a packet, of two tenants {}", pair / 100, rivals / 100));
    assert!(rivals > pair, "the engine has tenants: {pair} {rivals}");
    assert!((rivals - pair) * 4 <= 20_000, "{pair} {rivals}");
}
