//! Where figures were measured, and how undisturbed.

use std::fs;

use serde_json::{Value, json};

/// The machine, and its processors' time so far.
pub struct Machine {
    model: String,
    kernel: String,
    /// CPUs that this process may use.
    cpus: Vec<usize>,
    /// Ticks of `nice` and `steal` when the measurement began.
    began: (u64, u64),
}

impl Machine {
    /// Looks at /proc.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            model: field(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown").to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpus: list(field(&read("/proc/self/status"), "Cpus_allowed_list").unwrap_or("0")),
            began: nice_and_steal(&read("/proc/stat")),
        }
    }

    /// A CPU for each of two processes, if there are two.
    pub fn two_cpus(&self) -> Option<[usize; 2]> {
        self.cpus.first_chunk::<2>().copied()
    }

    /// Ticks (10 ms) of `nice` and `steal` since the measurement began: others' work, and the
    /// hypervisor's.
    pub fn disturbed(&self) -> (u64, u64) {
        let now = nice_and_steal(&fs::read_to_string("/proc/stat").unwrap_or_default());
        (now.0.saturating_sub(self.began.0), now.1.saturating_sub(self.began.1))
    }

    /// For the JSON file.
    pub fn to_json(&self) -> Value {
        let (nice, steal) = self.disturbed();
        json!({
            "cpu": self.model, "cpus": self.cpus.len(), "kernel": self.kernel,
            "nice_ticks": nice, "steal_ticks": steal,
        })
    }

    /// For a person.
    pub fn line(&self) -> String {
        let (nice, steal) = self.disturbed();
        format!(
            "{}, {} CPUs, Linux {}; meanwhile {nice} ticks nice, {steal} stolen",
            self.model,
            self.cpus.len(),
            self.kernel
        )
    }
}

/// The value behind `name :` in a file of such lines.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let of_line = |line: &'a str| line.strip_prefix(name)?.trim_start().strip_prefix(':');
    text.lines().find_map(of_line).map(str::trim)
}

/// The numbers of `0-1,4`.
fn list(text: &str) -> Vec<usize> {
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Of all CPUs together.
fn nice_and_steal(stat: &str) -> (u64, u64) {
    let mut ticks = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let mut tick = |index| ticks.nth(index).and_then(|text| text.parse().ok()).unwrap_or(0);
    // user nice system idle iowait irq softirq steal
    (tick(1), tick(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_fields_are_read() {
        assert_eq!(list("0-2,5, 7-7"), [0, 1, 2, 5, 7]);
        let status = "Name:\tx\nCpus_allowed_list:\t0-1\n";
        assert_eq!(field(status, "Cpus_allowed_list"), Some("0-1"));
        assert_eq!(field("model name\t: A B\n", "model name"), Some("A B"));
    }

    #[test]
    fn ticks_stand_where_the_kernel_puts_them() {
        assert_eq!(nice_and_steal("cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2\n"), (20, 80));
        assert_eq!(nice_and_steal(""), (0, 0));
    }
}
