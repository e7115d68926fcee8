//! Multicast groups, by `mckey`: what one sends, all others get.

use std::process::Command;

use super::jobs::start_switch;
use super::{LIMIT, Place, Rows, is_there};
use crate::error::Result;
use crate::process::Process;

const MCKEY: &str = "mckey";
/// What a receiver says once all its queue pairs are members.
const JOINED: &str = "receiving data transfers";

/// A sender and its receivers.
struct Case {
    /// Options of all of them.
    options: &'static str,
    /// Of the receivers alone.
    receiver: &'static str,
    /// What follows the devices of the two ends of a memif; none: they meet at a switch.
    ends: Option<[&'static str; 2]>,
    receivers: usize,
}

const CASES: [Case; 4] = [
    Case { options: "-m 239.7.8.9", receiver: "", ends: Some([""; 2]), receivers: 1 },
    Case {
        options: "-m 239.7.8.9 -c 3 -C 20 -S 1000",
        receiver: "-b 10.77.0.1",
        ends: Some([""; 2]),
        receivers: 1,
    },
    Case {
        options: "-m ff0e::7:8:9",
        receiver: "",
        ends: Some([",ip=fd00::1", ",ip=fd00::2"]),
        receivers: 1,
    },
    Case { options: "-m 239.7.8.9 -C 20", receiver: "", ends: None, receivers: 3 },
];

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    let mut switch = None;
    for case in &CASES {
        let at_switch = if case.ends.is_none() { ", 3 receivers at a switch" } else { "" };
        let name = format!("{MCKEY} {}{at_switch}", case.options);
        if case.ends.is_none() && rows.is_asked_for(&name) && is_there(MCKEY) {
            switch = Some(start_switch(rows.tool, rows.scratch.path(), &[])?);
        }
        let pool = switch.as_ref().map(|(_, socket)| format!("pool:{}", socket.display()));
        rows.play(&name, &[MCKEY, "stdbuf"], |place| {
            let device = |end: usize| match case.ends {
                Some(behind) => place.memif(["server", "client"][end], "", behind[end]),
                None => pool.clone().unwrap_or_default(),
            };
            run(case, place, &[device(0), device(1)])
        })?;
    }
    Ok(())
}

/// All of them, to their successful end. The sender comes when all others are members.
fn run(case: &Case, place: &Place<'_>, [receivers, sender]: &[String; 2]) -> Result<()> {
    let mut all = Vec::new();
    for number in 0..case.receivers {
        let command = command(place, receivers, &[case.options, case.receiver]);
        let mut receiver = Process::start(&format!("receiver{number}"), command, place.dir)?;
        receiver.wait_for(JOINED)?;
        all.push(receiver);
    }
    let sender = command(place, sender, &[case.options, "-s"]);
    Process::start("sender", sender, place.dir)?.finish(LIMIT)?;
    all.iter_mut().try_for_each(|receiver| receiver.finish(LIMIT))
}

/// What it says is seen at once, among its errors.
fn command(place: &Place<'_>, device: &str, options: &[&str]) -> Command {
    let mut command = place.command("sh", device);
    command.args(["-c", "exec stdbuf -oL \"$0\" \"$@\" >&2", MCKEY]);
    command.args(options.iter().flat_map(|options| options.split_whitespace()));
    command
}
