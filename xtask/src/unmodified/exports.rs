//! Every exported function, called with what no program should give it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Place, Rows};
use crate::dropin;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::repo;

const SOURCE: &str = "xtask/src/unmodified/exports.c";
/// Draws of arguments in a round: each seed gives the same ones again.
const SEEDS: u64 = 4;
/// Without objects a draw takes next to no time.
const SEEDS_OF_GARBAGE: u64 = 50;
/// How the names of functions begin that do nothing, whatever they are given: no objects are made
/// for them.
const IDLE: &str = "ibv_cmd_";
/// Signals by which the C library's contract lets a call end that was given garbage: it followed a
/// pointer, or the allocator found out.
const ALLOWED: [&str; 3] = ["6", "7", "11"];
/// That of the harness's alarm. Calls that acknowledge lock what they are given, and garbage may be
/// a lock that is taken.
const ALARM: &str = "14";
/// What Rust says when it ends a process, or would have.
const OURS: [&str; 5] =
    ["fatal runtime error", "cannot unwind", "non-unwinding panic", "memory allocation of", "panicked at"];

/// What the functions are given.
const ROUNDS: [&str; 6] = ["null", "garbage", SOUND, WRONG, "alive", "dead"];
/// Objects that are alive and structures of zeros: no signal is allowed.
const SOUND: &str = "sound";
/// Addresses that are too low, or devices that are not listed: no signal is allowed, either.
const WRONG: &str = "wrong";
/// How long all calls of one draw may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Functions of the header, which reach the library by a table of an object: they are called with
/// objects only.
const INLINE: [&str; 23] = [
    "post_send",
    "post_recv",
    "post_srq_recv",
    "poll_cq",
    "req_notify_cq",
    "alloc_mw",
    "dealloc_mw",
    "bind_mw",
    "create_cq_ex",
    "create_qp_ex",
    "create_srq_ex",
    "query_device_ex",
    "query_rt_values_ex",
    "open_xrcd",
    "alloc_td",
    "alloc_parent_domain",
    "alloc_dm",
    "create_wq",
    "create_counters",
    "modify_cq",
    "advise_mr",
    "create_flow",
    "modify_qp_rate_limit",
];

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    rows.play_in_c("exports", &["readelf"], check)
}

/// Fails if NULL ends a process, or anything makes a function of ours end one.
fn check(place: &Place<'_>) -> Result<()> {
    let program = place.built(SOURCE, &[], &["-libverbs", "-ldl"])?;
    let all = functions(&place.library.join(dropin::LIBRARY))?;
    let mut faults = Vec::new();
    for round in ROUNDS {
        let mut names = all.clone();
        let seeds = match round {
            "null" => 1,
            "garbage" => SEEDS_OF_GARBAGE,
            // The header's own part would follow the address.
            WRONG => {
                names.retain(|name| !name.starts_with(IDLE));
                SEEDS
            }
            _ => {
                names.retain(|name| !name.starts_with(IDLE));
                names.extend(INLINE.map(|name| format!("inline:ibv_{name}")));
                SEEDS
            }
        };
        for seed in 1..=seeds {
            let mut calls = place.command(&program.to_string_lossy(), "sim:exports");
            calls.args([round, &seed.to_string()]).args(&names);
            let mut running = Process::start("calls", calls, place.dir)?;
            let status = running.end(LIMIT)?;
            let [said, errors] = ["calls.out", "calls.err"].map(|file| text(&place.dir.join(file)));
            let (said, errors) = (said?, errors?);
            faults.extend(
                judge(round, &said, &errors).into_iter().map(|fault| format!("seed {seed}: {fault}")),
            );
            if !status.success() || said.lines().count() != names.len() {
                return Err(Error(format!("{round}, seed {seed}: the harness ended early:\n{errors}")));
            }
        }
    }
    if faults.is_empty() {
        println!("{} functions, and {} of the header", all.len(), INLINE.len());
        return Ok(());
    }
    Err(Error(faults.join("\n")))
}

/// What it has said: what it was given may have made it say anything.
fn text(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).map_err(|e| Error::io("read", file, &e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What was wrong in a round.
fn judge(round: &str, said: &str, errors: &str) -> Vec<String> {
    let is_allowed =
        |name: &str, how: &str| ALLOWED.contains(&how) || how == ALARM && name.starts_with("ibv_ack_");
    let is_good = |name: &str, how: &str| {
        how == "exit" || !["null", SOUND, WRONG].contains(&round) && is_allowed(name, how)
    };
    let ended = said.lines().filter_map(|line| line.split_once(' '));
    let ended = ended.filter(|(name, how)| !is_good(name, how));
    let ended = ended.map(|(name, how)| format!("{round}: {name} ended with {how}"));
    let words = errors.lines().filter(|line| OURS.iter().any(|ours| line.contains(ours)));
    ended.chain(words.map(|line| format!("{round}: {line}"))).collect()
}

/// The functions that a library exports.
fn functions(library: &Path) -> Result<BTreeSet<String>> {
    let table = repo::output(Command::new("readelf").args(["-W", "--dyn-syms"]).arg(library))?;
    Ok(table.lines().filter_map(function).collect())
}

/// The name of a function that a line of `readelf` defines.
fn function(line: &str) -> Option<String> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let (kind, section, name) = (fields.get(3)?, fields.get(6)?, fields.get(7)?);
    let (name, _) = name.split_once("@@")?;
    (*kind == "FUNC" && *section != "UND").then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_may_end_nothing_and_garbage_only_what_c_allows() {
        let said = "ibv_a exit\nibv_b 11\nibv_c 6\n";
        assert_eq!(judge("null", said, ""), ["null: ibv_b ended with 11", "null: ibv_c ended with 6"]);
        assert!(judge("dead", said, "free(): double free detected in tcache 2\n").is_empty());
        let panicked = "thread panicked\nfatal runtime error: failed to initiate panic\n";
        assert_eq!(judge("dead", said, panicked).len(), 1);
        for ours in ["thread 'x' panicked at dropin/src/qp.rs:1:2:", "memory allocation of 8 bytes failed"] {
            assert_eq!(judge("alive", "", ours).len(), 1, "{ours}");
        }
        assert!([SOUND, WRONG].iter().all(|round| judge(round, "ibv_b 11\n", "").len() == 1));
        // It waited until its alarm, or had no objects.
        let said = "ibv_d 14\nibv_e failed\nibv_ack_cq_events 14\n";
        assert_eq!(judge("alive", said, "").len(), 2);
        assert_eq!(judge("null", said, "").len(), 3);
    }

    #[test]
    fn functions_are_told_from_data_and_from_what_is_missing() {
        let row = |kind, section, name| {
            function(&format!("  2: 0000000000008a10   120 {kind}    GLOBAL DEFAULT  {section} {name}"))
        };
        assert_eq!(row("FUNC", "13", "ibv_alloc_pd@@IBVERBS_1.1").as_deref(), Some("ibv_alloc_pd"));
        assert_eq!(row("OBJECT", "13", "verbs_allow_disassociate_destroy@@IBVERBS_PRIVATE_34"), None);
        assert_eq!(row("FUNC", "UND", "free@GLIBC_2.2.5"), None);
    }
}
