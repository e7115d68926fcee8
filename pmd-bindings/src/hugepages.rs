//! Free hugepages, and the lock under which processes take them.

use std::fs::{self, DirEntry, File};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where the kernel says what it has.
pub(crate) const SYSFS: &str = "/sys/kernel/mm/hugepages";
/// How long a process waits for its turn: taking half a gigabyte lasts a quarter of a second.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Among the processes of this crate only one at a time counts free hugepages and takes them, or
/// several would count the same ones. A turn lasts until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Held by its lock, which any process may take that can read the directory.
    _directory: Option<File>,
}

impl Turn {
    /// Waits for it; not for ever, as somebody else may hold the lock.
    pub(crate) fn wait() -> Self {
        let end = Instant::now() + PATIENCE;
        let directory = File::open(SYSFS).ok();
        while directory.as_ref().is_some_and(|directory| directory.try_lock().is_err())
            && Instant::now() < end
        {
            sleep(LOOK_AGAIN);
        }
        Self { _directory: directory }
    }
}

/// Megabytes in free hugepages that nobody has reserved, of the size that has the most.
pub(crate) fn free_mb(sysfs: &Path) -> u64 {
    let Ok(sizes) = fs::read_dir(sysfs) else { return 0 };
    let free_of = |dir: DirEntry| -> Option<u64> {
        let name = dir.file_name().into_string().ok()?;
        let page_kb: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = |file| fs::read_to_string(dir.path().join(file)).ok()?.trim().parse::<u64>().ok();
        let free = count("free_hugepages")?.saturating_sub(count("resv_hugepages").unwrap_or(0));
        Some(free * page_kb / 1024)
    };
    sizes.flatten().filter_map(free_of).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_hugepages_are_those_of_the_best_size() {
        let sysfs = std::env::temp_dir().join(format!("pmd-hugepages-{}", std::process::id()));
        assert_eq!(free_mb(&sysfs), 0, "no such directory");
        for (size, free) in [("hugepages-2048kB", "100\n"), ("hugepages-1048576kB", "1\n"), ("other", "7\n")]
        {
            let dir = sysfs.join(size);
            fs::create_dir_all(&dir).expect("a directory");
            fs::write(dir.join("free_hugepages"), free).expect("a file");
            fs::write(dir.join("resv_hugepages"), "0\n").expect("a file");
        }
        assert_eq!(free_mb(&sysfs), 1024);
        fs::write(sysfs.join("hugepages-1048576kB/resv_hugepages"), "1\n").expect("a file");
        let free = free_mb(&sysfs);
        fs::remove_dir_all(&sysfs).expect("ours");
        assert_eq!(free, 200, "what somebody has reserved is not free");
    }

    #[test]
    fn turns_are_taken_one_after_the_other() {
        if !Path::new(SYSFS).is_dir() {
            return;
        }
        let first = Turn::wait();
        let other = std::thread::spawn(|| {
            let _turn = Turn::wait();
            Instant::now()
        });
        sleep(Duration::from_millis(20));
        let given_back = Instant::now();
        drop(first);
        assert!(other.join().expect("no panic") >= given_back);
    }
}
