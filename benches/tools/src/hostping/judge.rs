//! From what probes measured to a verdict on each part, in words.

#[cfg(test)]
mod tests;

use super::baseline::Baseline;
use super::finding::Finding;
use super::measure::Measured;
use super::path::{Memory, Outcome, Part, Path};
use super::tomography::{History, Probe, Verdict, blame};

/// A probe that is a fifth slower than usual is bad, as in Hostping.
pub const TOLERANCE: f64 = 1.2;

/// A probe beside what is usual for it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its way.
    pub path: Path,
    /// What it measured; `None`: there was no answer.
    pub measured: Option<Measured>,
    /// What it should have; `None` if no probe of its kind was answered either.
    pub usual: Option<Measured>,
}

impl Row {
    /// Whether latency and bandwidth are within a fifth of what is usual.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.slowness() <= TOLERANCE
    }

    /// How much worse it is than usual, in latency or bandwidth; infinite without an answer.
    #[must_use]
    pub fn slowness(&self) -> f64 {
        let (Some(measured), Some(usual)) = (self.measured, self.usual) else { return f64::INFINITY };
        (measured.latency_ns / usual.latency_ns).max(usual.gbps / measured.gbps)
    }
}

/// Sets each probe beside its baseline, or beside the best of its kind where it has none: loopbacks
/// beside loopbacks, probes of a peer beside those.
#[must_use]
pub fn rows(probes: &[Outcome], baseline: &Baseline) -> Vec<Row> {
    let usual = |path: &Path| {
        let alike = probes.iter().filter(|(other, _)| other.peer == path.peer);
        let best = alike.filter_map(|(_, measured)| *measured).reduce(Measured::best_of);
        baseline.of(path).or(best)
    };
    let row = |(path, measured): &Outcome| Row { path: *path, measured: *measured, usual: usual(path) };
    probes.iter().map(row).collect()
}

/// Which probes a baseline says nothing of, if there are such: they were compared with the best of
/// this look, so that what slows all of them down is not seen.
#[must_use]
pub fn missing(rows: &[Row], baseline: &Baseline) -> Option<Finding> {
    let unknown = rows.iter().filter(|row| baseline.of(&row.path).is_none());
    let unknown: Vec<String> = unknown.map(|row| row.path.to_string()).collect();
    let words = || format!("nothing of {}: compared with the best of this look", unknown.join("; "));
    let remedy = "make one with these CPUs, pages and HOST by --save, while all is well";
    (!unknown.is_empty()).then(|| Finding::warning("baseline", words(), remedy))
}

/// What is to blame for the rows that are bad, part by part; `history` knows the rounds before.
#[must_use]
pub fn judge(rows: &[Row], history: &mut History) -> Vec<Finding> {
    let mut parts: Vec<Part> = rows.iter().flat_map(|row| row.path.parts()).collect();
    parts.sort_unstable();
    parts.dedup();
    let index = |part: &Part| parts.binary_search(part).ok();
    let probes: Vec<Probe> = rows
        .iter()
        .map(|row| Probe {
            prober: row.path.cpu,
            links: row.path.parts().iter().filter_map(index).collect(),
            good: row.is_good(),
        })
        .collect();
    let verdicts = blame(&probes, parts.len());
    history.note(&verdicts);
    let told = parts.iter().zip(&verdicts).enumerate();
    told.map(|(link, (part, verdict))| tell(*part, *verdict, rows, history.is_flapping(link))).collect()
}

fn tell(part: Part, verdict: Verdict, rows: &[Row], is_flapping: bool) -> Finding {
    let over: Vec<&Row> = rows.iter().filter(|row| row.path.parts().contains(&part)).collect();
    let slow = || over.iter().filter(|row| !row.is_good());
    let silent = over.iter().filter(|row| row.measured.is_none()).count();
    let name = part.to_string();
    match verdict {
        Verdict::Good => Finding::good(name, format!("as usual on {}", probes(over.len()))),
        Verdict::Unseen => Finding::unknown(name, "no probe crossed it"),
        Verdict::Shadowed => Finding::unknown(
            name,
            "all probes over it are slow, and what is bad explains them: mend that, and look again",
        ),
        Verdict::Gray if is_flapping => {
            Finding::bad(name, "fast and slow in turn for three rounds: it is flapping", remedy(part))
        }
        Verdict::Gray => Finding::warning(
            name,
            format!("slow on {} of {}, and fast on others", slow().count(), probes(over.len())),
            "--watch 10 tells whether it stays so",
        ),
        Verdict::Bad { .. } if silent > 0 => {
            let words = format!("no answer to {silent} of {}", probes(over.len()));
            let remedy = match part {
                Part::Peer(_) => "see whether srnic hostping --answer runs there, and whether the link is up",
                part => remedy(part),
            };
            Finding::bad(name, words, remedy)
        }
        Verdict::Bad { .. } => {
            let worst = slow().max_by(|one, other| one.slowness().total_cmp(&other.slowness()));
            let example =
                worst.and_then(|row| Some(format!(": {}, where {} are usual", row.measured?, row.usual?)));
            let words = format!("slow on all of {}{}", probes(over.len()), example.unwrap_or_default());
            Finding::bad(name, words, remedy(part))
        }
    }
}

fn probes(count: usize) -> String {
    if count == 1 { "1 probe".to_owned() } else { format!("{count} probes") }
}

const fn remedy(part: Part) -> &'static str {
    match part {
        Part::Cpu(_) => {
            "look at what else runs there (top, then 1), or choose another: taskset, poll=thread@CPU"
        }
        Part::Memory(Memory::Ordinary) => {
            "use huge pages (sysctl vm.nr_hugepages=512), on the node of the CPU"
        }
        Part::Memory(Memory::Huge) => {
            "see on which node they are (numactl -H), and take some of the CPU's own"
        }
        Part::Device => "everything on this host is slow: look at the settings above, and at top",
        Part::Peer(_) => {
            "look at drops and limits by srnic stat at both ends, and start srnic hostping at the peer"
        }
    }
}
