//! The last samples of each device, and what was counted between them.

use super::snapshot::Snapshot;
use std::collections::VecDeque;

/// Samples kept of a device: as many as a wide terminal has columns.
const SAMPLES_MAX: usize = 240;

/// The devices in the order in which they were named.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub tracks: Vec<Track>,
}

/// The last samples of a device.
#[derive(Clone, Debug)]
pub struct Track {
    address: String,
    samples: VecDeque<Sample>,
    /// Why it could not be read when it was looked at last.
    trouble: Option<String>,
}

#[derive(Clone, Debug)]
struct Sample {
    /// In seconds since 1970.
    time: f64,
    snapshot: Snapshot,
    /// The look before this one failed: the device may be another.
    behind_gap: bool,
}

impl History {
    /// Devices of which nothing is known yet.
    pub fn new(addresses: impl IntoIterator<Item = String>) -> Self {
        Self { tracks: addresses.into_iter().map(Track::new).collect() }
    }

    /// Takes over what a look at a device has shown, or why it has shown nothing.
    pub fn note(&mut self, device: usize, time: f64, seen: Result<Snapshot, String>) {
        if let Some(track) = self.tracks.get_mut(device) {
            track.note(time, seen);
        }
    }
}

impl Track {
    fn new(address: String) -> Self {
        Self { address, samples: VecDeque::new(), trouble: None }
    }

    fn note(&mut self, time: f64, seen: Result<Snapshot, String>) {
        match seen {
            Ok(snapshot) => {
                if self.samples.len() == SAMPLES_MAX {
                    self.samples.pop_front();
                }
                let behind_gap = self.trouble.take().is_some();
                self.samples.push_back(Sample { time, snapshot, behind_gap });
            }
            Err(reason) => self.trouble = Some(reason),
        }
    }

    /// Where the device tells it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Why the device cannot be read now.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What the last look that succeeded has shown.
    pub fn now(&self) -> Option<&Snapshot> {
        self.samples.back().map(|sample| &sample.snapshot)
    }

    /// What the look before that has shown, if nothing was in between.
    pub fn before(&self) -> Option<&Snapshot> {
        let last = self.samples.back().filter(|last| !last.behind_gap);
        last.and_then(|_| self.samples.iter().nth_back(1)).map(|sample| &sample.snapshot)
    }

    /// When the last look was, in seconds since 1970.
    pub fn time(&self) -> f64 {
        self.samples.back().map_or(0.0, |sample| sample.time)
    }

    /// A second, what `count` says was counted between two samples, for each two of them that
    /// follow on each other; `None` where that is not known.
    pub fn rates(&self, count: impl Fn(&Snapshot, &Snapshot) -> Option<f64>) -> Vec<Option<f64>> {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        pairs.map(|(before, now)| rate(before, now, &count)).collect()
    }

    /// The last of them.
    fn rate(&self, count: impl Fn(&Snapshot, &Snapshot) -> Option<f64>) -> Option<f64> {
        rate(self.samples.iter().nth_back(1)?, self.samples.back()?, &count)
    }

    /// How fast a counter of the device runs.
    pub fn counter_rate(&self, name: &str) -> Option<f64> {
        self.rate(counter(name))
    }

    /// How many frames are dropped a second.
    pub fn drop_rate(&self) -> Option<f64> {
        self.rate(drops)
    }

    /// How many requests of a queue pair complete a second.
    pub fn completed_rate(&self, qpn: u32) -> Option<f64> {
        self.rate(completed(qpn))
    }

    /// The share of the time between the last two looks that each limit has held a queue pair back.
    pub fn limit_shares(&self, qpn: u32) -> Vec<(String, f64)> {
        let pair = |snapshot: &'_ Snapshot| snapshot.queue_pairs.get(&qpn).cloned();
        match (self.before().and_then(pair), self.now().and_then(pair)) {
            (Some(before), Some(now)) => now.limit_shares(&before),
            _ => Vec::new(),
        }
    }

    /// How many packets a queue pair sends again a second.
    pub fn resend_rate(&self, qpn: u32) -> Option<f64> {
        self.rate(resends(qpn))
    }

    /// How fast a counter of a tenant runs.
    pub fn tenant_rate(&self, number: u32, counter: &str) -> Option<f64> {
        self.rate(|before, now| {
            Some(now.tenants.get(&number)?.counted(counter, Some(before.tenants.get(&number)?)))
        })
    }

    /// A number of each sample.
    pub fn values(&self, of: impl Fn(&Snapshot) -> Option<f64>) -> Vec<Option<f64>> {
        self.samples.iter().map(|sample| of(&sample.snapshot)).collect()
    }
}

fn rate(before: &Sample, now: &Sample, count: impl Fn(&Snapshot, &Snapshot) -> Option<f64>) -> Option<f64> {
    let seconds = now.time - before.time;
    if now.behind_gap || seconds <= 0.0 {
        return None;
    }
    // A device that was closed and opened again counts from 0.
    count(&before.snapshot, &now.snapshot).filter(|count| *count >= 0.0).map(|count| count / seconds)
}

/// How far a counter of the device has gone.
pub fn counter(name: &str) -> impl Fn(&Snapshot, &Snapshot) -> Option<f64> {
    move |before, now| Some(now.counter(name)? - before.counter(name)?)
}

/// Frames dropped.
#[expect(clippy::unnecessary_wraps, reason = "as all of them")]
pub fn drops(before: &Snapshot, now: &Snapshot) -> Option<f64> {
    Some(now.dropped() - before.dropped())
}

/// Requests of a queue pair completed.
pub fn completed(qpn: u32) -> impl Fn(&Snapshot, &Snapshot) -> Option<f64> {
    move |before, now| Some(now.queue_pairs.get(&qpn)?.completed_since(Some(before.queue_pairs.get(&qpn)?)))
}

/// Packets of a queue pair sent again.
pub fn resends(qpn: u32) -> impl Fn(&Snapshot, &Snapshot) -> Option<f64> {
    move |before, now| Some(now.queue_pairs.get(&qpn)?.resends() - before.queue_pairs.get(&qpn)?.resends())
}
