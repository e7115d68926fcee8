//! `sim:` devices: who opens one gets a port of the segment of that name.

use crate::error::Error;
use crate::spec::DeviceSpec;
use datapath::port::sim::{Segment, SimPort};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The segments of the process that have ports.
static SEGMENTS: Mutex<BTreeMap<String, Weak<Segment>>> = Mutex::new(BTreeMap::new());

/// A new port of the segment `name`, which the first one makes and the last one ends.
pub fn attach(name: &str, spec: &DeviceSpec) -> Result<SimPort, Error> {
    let max_frame = usize::from(spec.max_frame());
    let mut segments = SEGMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    segments.retain(|_, segment| segment.strong_count() > 0);
    let there = segments.get(name).and_then(Weak::upgrade);
    let segment = there.unwrap_or_else(|| {
        let segment = Arc::new(Segment::new(max_frame));
        segments.insert(name.to_owned(), Arc::downgrade(&segment));
        segment
    });
    if segment.max_frame() != max_frame {
        return Err(Error::Incompatible {
            what: "the longest frame of the segment, in bytes,",
            ours: u32::from(spec.max_frame()),
            theirs: u32::try_from(segment.max_frame()).unwrap_or(u32::MAX),
            remedy: "give all devices of a segment the same mtu",
        });
    }
    Ok(segment.attach(spec.mac)?)
}
