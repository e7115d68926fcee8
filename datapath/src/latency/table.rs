//! Histograms by queue pair, operation and status.

use super::part::{Part, Parts};
use super::quantiles::{Quantiles, Rotated};
use super::track::Sample;
use crate::queue::{SendOpcode, WcStatus};
use crate::time::Time;

/// Combinations of queue pair, operation and status with a histogram of their own. Those that come
/// later share the last one.
const KEYS_MAX: usize = 32;
/// How long histograms are filled until they become the ones before.
const ROTATE_NS: u64 = 60_000_000_000;

/// What operations are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The queue pair.
    pub qpn: u32,
    /// The operation.
    pub opcode: SendOpcode,
    /// How it ended.
    pub status: WcStatus,
}

/// Operations of one key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Operations {
    /// What they have in common; `None`: all that found no place of their own.
    pub key: Option<Key>,
    /// How many were sampled since the device was opened.
    pub count: u64,
    /// Their times together.
    pub parts: Parts,
    /// Of the whole time, over the last minute or two.
    pub total: Quantiles,
}

#[derive(Debug)]
struct Entry {
    key: Option<Key>,
    /// When the last sample came.
    at: Time,
    count: u64,
    parts: Parts,
    total: Rotated,
}

impl Entry {
    /// Becomes that of another key.
    fn begin(&mut self, key: Key) {
        (self.key, self.count, self.parts) = (Some(key), 0, Parts::default());
        self.total.clear();
    }
}

/// All that is kept of samples.
#[derive(Debug)]
pub(crate) struct Table {
    /// Free ones have no samples; the last one is of those that found none.
    entries: Vec<Entry>,
    parts: Vec<Rotated>,
    rotate_at: Time,
}

impl Table {
    /// Everything that it will need is allocated here.
    pub fn new() -> Self {
        let entry = || {
            Some(Entry {
                key: None,
                at: Time::ZERO,
                count: 0,
                parts: Parts::default(),
                total: Rotated::new()?,
            })
        };
        Self {
            entries: (0..KEYS_MAX).filter_map(|_| entry()).collect(),
            parts: Part::ALL.iter().filter_map(|_| Rotated::new()).collect(),
            rotate_at: Time::ZERO,
        }
    }

    /// Takes a sample in.
    pub fn add(&mut self, sample: &Sample, now: Time) {
        self.rotate(now);
        for (histogram, (_, ns)) in self.parts.iter_mut().zip(sample.parts.iter()) {
            histogram.record(ns);
        }
        let key = Key { qpn: sample.qpn, opcode: sample.opcode, status: sample.status };
        if let Some(entry) = self.entry(key, now) {
            entry.at = now;
            entry.count += 1;
            entry.parts.add(&sample.parts);
            entry.total.record(sample.parts.total());
        }
    }

    /// Where a key has its place: the one that it has, a free one, one that nobody has used for a
    /// minute, or the last, which is shared.
    fn entry(&mut self, key: Key, now: Time) -> Option<&mut Entry> {
        let (shared, own) = self.entries.split_last_mut()?;
        let place = own.iter().position(|entry| entry.key == Some(key));
        let place = place.or_else(|| own.iter().position(|entry| entry.key.is_none()));
        let place = place.or_else(|| own.iter().position(|entry| now.since(entry.at) > ROTATE_NS));
        let Some(place) = place else { return Some(shared) };
        let entry = &mut own[place];
        if entry.key != Some(key) {
            entry.begin(key);
        }
        Some(entry)
    }

    fn rotate(&mut self, now: Time) {
        let rotations = self.rotations(now);
        if rotations == 0 {
            return;
        }
        self.rotate_at = now.after(ROTATE_NS);
        let histograms = self.entries.iter_mut().map(|entry| &mut entry.total).chain(&mut self.parts);
        histograms.for_each(|histogram| (0..rotations).for_each(|_| histogram.rotate()));
    }

    /// How many times histograms are to be rotated by `now`: after two nothing is left.
    fn rotations(&self, now: Time) -> usize {
        let due = [self.rotate_at, self.rotate_at.after(ROTATE_NS)];
        due.into_iter().filter(|due| now >= *due).count()
    }

    /// What is kept at `now`, by key; allocates.
    pub fn operations(&self, now: Time) -> Vec<Operations> {
        let rotations = self.rotations(now);
        let told = self.entries.iter().filter(|entry| entry.count > 0);
        told.map(|entry| Operations {
            key: entry.key,
            count: entry.count,
            parts: entry.parts,
            total: entry.total.quantiles(rotations),
        })
        .collect()
    }

    /// Quantiles of each part at `now`, over all operations.
    pub fn parts(&self, now: Time) -> Vec<(Part, Quantiles)> {
        let rotations = self.rotations(now);
        let quantiles = self.parts.iter().map(|part| part.quantiles(rotations));
        Part::ALL.into_iter().zip(quantiles).collect()
    }
}
