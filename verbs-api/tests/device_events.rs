//! Asynchronous events as a program waits for them: the descriptor, the waiting call, and what the
//! link does.

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/host.rs"]
#[expect(dead_code, reason = "what other tests need of it")]
mod host;

use host::wait::PATIENCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use verbs_api::{AsyncEvent, Device, Driver, EngineConfig, Port, PortStats, SrqCaps};

use datapath::port::{PortCaps, RxFrame};

fn readable(device: &Device) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let fd = device.event_fd().expect("a descriptor");
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).expect("poll works") == 1
}

fn wait(device: &Device) -> Option<AsyncEvent> {
    device.wait_event(PATIENCE).expect("a descriptor")
}

/// A cable that nothing goes through.
#[derive(Clone, Default)]
struct Cable {
    plugged: Arc<AtomicBool>,
    /// Whoever drives the engine panics.
    cursed: Arc<AtomicBool>,
}

impl Cable {
    fn device(&self, driver: Driver) -> Device {
        let builder = Device::builder().driver(driver);
        builder.from_port(self.clone(), EngineConfig::default()).expect("a device")
    }
}

impl Port for Cable {
    fn caps(&self) -> PortCaps {
        PortCaps { mac: [2, 0, 0, 0, 0, 1], max_frame: 1200 }
    }

    fn link_up(&self) -> bool {
        self.plugged.load(Ordering::Relaxed)
    }

    fn rx_burst(&mut self) -> usize {
        assert!(!self.cursed.load(Ordering::Relaxed), "as the test wants it");
        0
    }

    fn rx_frame(&self, _index: usize) -> RxFrame<'_> {
        RxFrame::new(&[])
    }

    fn rx_release(&mut self) {}

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        None
    }

    fn tx_commit(&mut self, _len: usize) {}

    fn tx_cancel(&mut self) {}

    fn tx_flush(&mut self) {}

    fn stats(&self) -> PortStats {
        PortStats::default()
    }
}

with_all_drivers! {

/// The limit of a shared receive queue that holds fewer is told of at once.
fn the_descriptor_is_readable_while_events_wait(driver: Driver) {
    let device = Device::builder().driver(driver).open(&format!("sim:fd-{driver:?}")).expect("a device");
    let srqs = [(); 3].map(|()| device.alloc_pd().create_srq(SrqCaps::default()).expect("a queue"));
    // What happened before anybody asked for the descriptor counts, too.
    srqs[0].arm_limit(1).expect("armed");
    assert!(readable(&device));
    srqs[1].arm_limit(1).expect("armed");
    assert_eq!(device.poll_event(), Some(AsyncEvent::SrqLimit { srq: srqs[0].number() }));
    assert!(readable(&device), "there is another one");
    assert_eq!(wait(&device), Some(AsyncEvent::SrqLimit { srq: srqs[1].number() }));
    assert!(!readable(&device));
    assert_eq!(device.wait_event(Duration::from_millis(1)).expect("a descriptor"), None);
    srqs[2].arm_limit(1).expect("armed");
    assert!(readable(&device), "again");
    assert_eq!(device.poll_event(), Some(AsyncEvent::SrqLimit { srq: srqs[2].number() }));
    assert_eq!((device.poll_event(), readable(&device)), (None, false));
}

/// Of a link that changes several times between two looks only the last change is told.
fn the_link_is_told_of_when_it_changes(driver: Driver) {
    let cable = Cable::default();
    let device = cable.device(driver);
    assert_eq!(device.poll_event(), None, "it is as it was at the beginning");
    cable.plugged.store(true, Ordering::Relaxed);
    assert_eq!(wait(&device), Some(AsyncEvent::PortActive));
    assert!(device.query_port().active);
    for up in [false, true, false] {
        cable.plugged.store(up, Ordering::Relaxed);
        assert_eq!(device.link_up(), up);
    }
    assert_eq!(wait(&device), Some(AsyncEvent::PortError));
    assert_eq!((device.poll_event(), readable(&device)), (None, false));
}

}

#[test]
fn an_engine_that_ends_by_a_panic_is_told_of() {
    let cable = Cable::default();
    let device = cable.device(Driver::THREAD);
    assert!(!readable(&device));
    cable.cursed.store(true, Ordering::Relaxed);
    assert_eq!(wait(&device), Some(AsyncEvent::DeviceFatal));
    assert_eq!((device.poll_event(), readable(&device)), (None, false));
}
