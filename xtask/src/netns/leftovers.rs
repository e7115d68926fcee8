//! Network namespaces that a killed run left behind: told by a name that says who made them, and
//! ended.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};
use crate::repo::output;

const PREFIX: &str = "srnic-xtask-";
/// Field of /proc/PID/stat behind the command's name: when the process began, in ticks since boot.
const STARTED: usize = 19;

/// The name of this process's next namespace. A process number comes back, together with the time
/// of its start it does not.
pub fn next_name() -> Result<String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    let started = started(pid).ok_or_else(|| Error::new("/proc does not say when this process began"))?;
    Ok(format!("{PREFIX}{pid}-{started}-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Ends what is left of runs whose process is gone: what runs in their namespaces, and those. Those
/// of others stay.
pub fn clean_up() -> Result<()> {
    for name in namespaces()?.into_iter().filter(|name| is_abandoned(name, started)) {
        println!("the namespace {name} is left of a run that was killed: it goes");
        if let Err(error) = end(&name)
            && namespaces()?.contains(&name)
        {
            return Err(error);
        }
        // Otherwise another run, which began at the same time, was faster.
    }
    Ok(())
}

/// Ends what runs in a namespace, and it.
fn end(name: &str) -> Result<()> {
    let pids = output(Command::new("ip").args(["netns", "pids", name]))?;
    for pid in pids.split_whitespace() {
        // It may have ended by itself. The shell has its own `kill`; the program is not everywhere.
        let _ = output(Command::new("sh").args(["-c", "kill -KILL \"$0\"", pid]));
    }
    output(Command::new("ip").args(["netns", "delete", name])).map(drop)
}

/// The names of all namespaces.
fn namespaces() -> Result<Vec<String>> {
    let listed = output(Command::new("ip").args(["netns", "list"]))?;
    Ok(listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

/// Returns `true` if a namespace is one of ours whose maker, by what `started` says of processes,
/// is gone.
fn is_abandoned(name: &str, started: impl Fn(u32) -> Option<u64>) -> bool {
    let mut numbers = name.strip_prefix(PREFIX).into_iter().flat_map(|owner| owner.split('-'));
    let mut number = || numbers.next().and_then(|number| number.parse::<u64>().ok());
    let (Some(pid), Some(at), Some(_)) = (number(), number(), number()) else { return false };
    u32::try_from(pid).is_ok_and(|pid| started(pid) != Some(at))
}

/// When a process began, if it lives.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may have spaces and parentheses.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(STARTED)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    #[test]
    fn only_namespaces_of_ours_whose_maker_is_gone_are_abandoned() {
        let alive = |pid| (pid == 7).then_some(100);
        assert!(is_abandoned("srnic-xtask-8-100-0", alive), "the process is gone");
        assert!(is_abandoned("srnic-xtask-7-99-3", alive), "another process has its number");
        for name in ["srnic-xtask-7-100-1", "srnic-xtask-8-100", "srnic-xtask-x-y-z", "somebody-else", ""] {
            assert!(!is_abandoned(name, alive), "{name}");
        }
    }

    #[test]
    fn what_a_killed_run_left_goes_with_its_processes() {
        let mut maker = Command::new("sleep").arg("0").spawn().expect("it starts");
        let began = started(maker.id()).expect("not waited for yet");
        maker.wait().expect("it ends");
        let name = format!("{PREFIX}{}-{began}-0", maker.id());
        if output(Command::new("ip").args(["netns", "add", &name])).is_err() {
            println!("skipped: no network namespace can be made (it takes iproute2 and root)");
            return;
        }
        let mut left = Command::new("ip");
        left.args(["netns", "exec", &name, "sh", "-c", "echo up; exec sleep 600"]);
        let mut left = left.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = [0];
        let stdout = left.stdout.as_mut().expect("it is piped");
        stdout.read_exact(&mut said).expect("it runs in the namespace");
        clean_up().expect("nothing is in the way");
        assert!(!namespaces().expect("ip lists them").contains(&name));
        // Nothing is said of how: later versions of `ip` wait for what they start, and end by
        // themselves.
        let began = Instant::now();
        left.wait().expect("it has ended");
        assert!(began.elapsed() < Duration::from_secs(300), "it slept to its end");
    }

    #[test]
    fn this_process_is_not_gone() {
        let name = next_name().expect("/proc is there");
        assert!(!is_abandoned(&name, started), "{name}");
        assert_eq!(started(std::process::id()), started(std::process::id()));
    }
}
