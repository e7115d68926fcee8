//! Where looks at devices come from: the devices themselves, each in a thread of its own so that
//! one that hangs holds up nobody, or a file.

use super::record::{Recording, seconds_since_1970};
use crate::error::{Error, Result};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use verbs_api::StatAddress;

/// Looks that wait for who shows them.
const LOOKS_MAX: usize = 16;

/// What a device told, or why it told nothing.
#[derive(Debug)]
pub struct Look {
    /// Where the device stands among all.
    pub device: usize,
    /// In seconds since 1970.
    pub time: f64,
    /// The text of OpenMetrics.
    pub answer: io::Result<String>,
}

/// Devices, and the looks at them; the channel ends with the looks.
pub struct Source {
    /// Addresses of the devices.
    pub addresses: Vec<String>,
    pub looks: Receiver<Look>,
}

/// Looks at devices that live, once each, and then again and again.
///
/// # Errors
/// [`Error::Stat`] if one of them is not there to begin with. One that goes later is looked for
/// until it is there again.
pub fn watch(addresses: &[StatAddress], interval: Duration) -> Result<Source> {
    let (sender, looks) = sync_channel(LOOKS_MAX + addresses.len());
    for (device, address) in addresses.iter().enumerate() {
        let first = look(device, address);
        if let Err(source) = first.answer {
            return Err(Error::Stat { address: address.to_string(), source });
        }
        // There is room for the first of each, and the receiver is here.
        let _ = sender.send(first);
    }
    for (device, address) in addresses.iter().enumerate() {
        let (address, sender) = (address.clone(), sender.clone());
        spawn(move || while_wanted(interval, || sender.send(look(device, &address)).is_ok()))?;
    }
    Ok(Source { addresses: addresses.iter().map(ToString::to_string).collect(), looks })
}

/// Looks at what was recorded, as fast as it was recorded, or, if `hurried`, at once.
///
/// # Errors
/// [`Error::Terminal`] if the system has no thread for it.
pub fn replay(recording: Recording, hurried: bool) -> Result<Source> {
    let (sender, looks) = sync_channel(LOOKS_MAX);
    let Recording { addresses, looks: recorded } = recording;
    spawn(move || play(recorded, hurried, &sender))?;
    Ok(Source { addresses, looks })
}

fn play(recorded: Vec<Look>, hurried: bool, sender: &SyncSender<Look>) {
    let mut time = recorded.first().map_or(0.0, |first| first.time);
    for look in recorded {
        let pause = Duration::try_from_secs_f64(look.time - time).unwrap_or_default();
        time = look.time;
        if !hurried {
            thread::sleep(pause);
        }
        if sender.send(look).is_err() {
            return;
        }
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name("srnic-look".to_owned()).spawn(body);
    thread.map(drop).map_err(Error::Terminal)
}

/// Does it at each end of an interval, until it says that nobody wants it any more.
fn while_wanted(interval: Duration, mut act: impl FnMut() -> bool) {
    let mut next = Instant::now() + interval;
    loop {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        if !act() {
            return;
        }
        next = (next + interval).max(Instant::now());
    }
}

fn look(device: usize, address: &StatAddress) -> Look {
    let answer = address.read();
    Look { device, time: seconds_since_1970(), answer }
}
