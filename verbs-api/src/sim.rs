//! `sim:` devices: who opens one gets a port of the segment of that name.

use crate::error::Error;
use crate::spec::DeviceSpec;
use core::num::NonZeroU8;
use datapath::port::sim::{Segment, SimPort};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The segments of the process that have ports.
static SEGMENTS: Mutex<BTreeMap<String, Weak<Segment>>> = Mutex::new(BTreeMap::new());

/// A new port of the segment `name`.
pub fn attach(name: &str, spec: &DeviceSpec) -> Result<SimPort, Error> {
    Ok(segment(name, spec)?.attach(spec.mac)?)
}

/// New ports of the segment `name`, one for each engine.
pub fn attach_engines(name: &str, spec: &DeviceSpec) -> Result<Vec<SimPort>, Error> {
    let engines = NonZeroU8::new(spec.engines).unwrap_or(NonZeroU8::MIN);
    Ok(segment(name, spec)?.attach_queues(spec.mac, engines)?)
}

/// The segment `name`, which its first port makes and its last one ends.
fn segment(name: &str, spec: &DeviceSpec) -> Result<Arc<Segment>, Error> {
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
    Ok(segment)
}
