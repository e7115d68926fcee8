//! Hugepages of the machine, borrowed.

use std::fs;

const COUNT: &str = "/proc/sys/vm/nr_hugepages";
/// Of 2 MB each: for two processes, and for others that start meanwhile and take what is free.
const WANTED: u64 = 1024;

/// Free hugepages; what was there before comes back when dropped.
pub struct Hugepages {
    before: u64,
}

/// How many of the default size are free.
pub fn free() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").expect("Linux");
    field(&info, "HugePages_Free:")
}

fn field(info: &str, name: &str) -> u64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

impl Hugepages {
    /// `None`, and a line that says why, where this user may not have them or the machine is too
    /// small.
    pub fn borrow() -> Option<Self> {
        let info = fs::read_to_string("/proc/meminfo").expect("Linux");
        let small =
            field(&info, "MemAvailable:") < 4 * WANTED * 2048 || field(&info, "Hugepagesize:") != 2048;
        let before = fs::read_to_string(COUNT).ok().and_then(|text| text.trim().parse().ok());
        let Some(before) = before.filter(|_| !small) else {
            println!("skipped: this machine has no memory to spare for hugepages");
            return None;
        };
        let borrowed = Self { before };
        if fs::write(COUNT, (before + WANTED).to_string()).is_err() || free() < WANTED {
            println!("skipped: no hugepages can be reserved (it takes root, and memory in one piece)");
            return None;
        }
        Some(borrowed)
    }
}

impl Drop for Hugepages {
    fn drop(&mut self) {
        let _ = fs::write(COUNT, self.before.to_string());
    }
}
