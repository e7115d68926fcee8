//! Connections by their numbers: what sinks are told, and in which order.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use verbs_api::raw::{CommId, ConnectionSink, Connections, Event, Failure, Options, Request, Terms};
use verbs_api::{Device, Dialect, WireMode};

const PORT: u16 = 7471;
const PATIENCE: Duration = Duration::from_secs(60);

/// Notes what it is told.
#[derive(Default)]
struct Log {
    requests: Mutex<Vec<(CommId, Request)>>,
    events: Mutex<Vec<Event>>,
    /// Who is told of the connections that peers ask for.
    next: Option<Arc<Log>>,
}

impl ConnectionSink for Log {
    fn requested(&self, id: CommId, request: &Request) -> Arc<dyn ConnectionSink> {
        self.requests.lock().expect("no panic").push((id, request.clone()));
        self.next.clone().expect("it listens")
    }

    fn happened(&self, event: &Event) {
        self.events.lock().expect("no panic").push(event.clone());
    }
}

fn terms(device: &Device, qpn: u32, src_port: Option<u16>) -> Terms {
    Terms {
        qpn,
        rq_psn: 1000 + qpn,
        path_mtu: device.path_mtu_max(),
        takes_1408: true,
        responder_resources: 4,
        initiator_depth: 3,
        retry_count: 5,
        rnr_retry_count: 6,
        ack_timeout: 13,
        src_port,
        srq: true,
        window: 64,
        strict_placement: false,
        dialect: Dialect::Prefer,
    }
}

/// Runs both devices until `found` finds something.
fn until<T>(devices: [&Device; 2], mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "nothing came");
        for device in devices {
            device.progress();
        }
    }
}

fn next_event(devices: [&Device; 2], log: &Log) -> Event {
    until(devices, || {
        let mut events = log.events.lock().expect("no panic");
        (!events.is_empty()).then(|| events.remove(0))
    })
}

#[test]
fn each_end_is_told_what_happens_to_its_connection_and_no_more_once_it_is_released() {
    let open = || Device::open("sim:raw-connections").expect("a device");
    let (here, there) = (open(), open());
    let both = [&here, &there];
    let manager = |device| Connections::of(device).expect("queue pair 1");
    let (active, passive) = (manager(&here), manager(&there));
    let (ours, theirs) = (Arc::new(Log::default()), Arc::new(Log::default()));
    let listener = Arc::new(Log { next: Some(Arc::clone(&theirs)), ..Log::default() });
    passive.listen(PORT, 4, Arc::clone(&listener) as Arc<dyn ConnectionSink>).expect("a port");
    assert!(passive.listen(PORT, 4, Arc::clone(&listener) as Arc<dyn ConnectionSink>).is_err());

    let to = (there.ip(), PORT).into();
    let asked = terms(&here, 17, Some(4791));
    let sink = || Arc::clone(&ours) as Arc<dyn ConnectionSink>;
    let id = active.connect(to, &asked, b"hello", PATIENCE, sink()).expect("begun");
    let (theirs_id, request) = until(both, || listener.requests.lock().expect("no panic").first().cloned());
    assert_eq!((request.peer, request.port, request.qpn), ((here.ip(), 4791).into(), PORT, 17));
    assert_eq!((request.retry_count, request.rnr_retry_count, request.ack_timeout), (5, 6, 13));
    // Private data are as long as their message has room.
    assert!(request.srq && request.private_data.starts_with(b"hello\0"));

    let granted = terms(&there, 18, None);
    assert_eq!(passive.agree(theirs_id, &granted).expect("they go together").remote_qpn, 17);
    let agreed = passive.accept(theirs_id, &granted, b"welcome").expect("accepted");
    assert_eq!((agreed.sq_psn, agreed.wire_mode, agreed.window), (1017, WireMode::Srnic, Some(64)));
    let Event::Replied { agreed, private_data, .. } = next_event(both, &ours) else { panic!("no reply") };
    assert!(private_data.starts_with(b"welcome\0"));
    assert_eq!((agreed.remote_qpn, agreed.sq_psn, agreed.initiator_depth), (18, 1018, 3));
    active.established(id).expect("it was granted");
    assert_eq!(next_event(both, &theirs), Event::Established { id: theirs_id });

    active.disconnect(id);
    assert_eq!(next_event(both, &theirs), Event::Disconnected { id: theirs_id });
    assert_eq!(next_event(both, &ours), Event::Disconnected { id });
    active.release(id);
    passive.release(theirs_id);

    // Nobody listens any more, and who has let go of an attempt is not told of its end.
    passive.unlisten(PORT);
    let released = active.connect(to, &asked, b"", Duration::ZERO, sink()).expect("begun");
    active.release(released);
    let refused = active.connect(to, &terms(&here, 19, None), b"", Duration::ZERO, sink()).expect("begun");
    let Event::Failed { id, failure: Failure::Rejected { .. } } = next_event(both, &ours) else {
        panic!("it was not refused")
    };
    assert_eq!(id, refused);
    assert!(ours.events.lock().expect("no panic").is_empty());
}

#[test]
fn the_options_of_the_dialect_have_words_of_their_own() {
    let device = Device::open("sim:raw-connections-options").expect("a device");
    let path_mtu = device.path_mtu_max();
    let options = Options { window: 64, strict_placement: true, path_mtu, takes_1408: true };
    let (vendor, modifier) = options.to_ece();
    assert_eq!(Options::from_ece(vendor, modifier), Some(options));
    assert_eq!(Options::from_ece(vendor, 0), None);
}
