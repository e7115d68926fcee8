//! Waiting for a link, and why there is none.

#[path = "support/drivers.rs"]
mod drivers;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use verbs_api::{Device, Driver, Error, LinkDown};

const LIMIT: Duration = Duration::from_secs(60);
/// Long enough for either end to have looked several times.
const MOMENT: Duration = Duration::from_millis(300);

/// A path for a socket of its own.
fn socket() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("srnic-links-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(name)
}

fn open(driver: Driver, text: &str) -> Device {
    Device::builder().driver(driver).open(text).expect("a device")
}

/// The drivers of a memif in this build.
const DRIVERS: &[&str] = if cfg!(feature = "dpdk") { &["native", "dpdk"] } else { &["native"] };

fn why(waited: Result<(), Error>) -> (Duration, LinkDown) {
    match waited {
        Err(Error::LinkDown { limit, why }) => (limit, why),
        other => panic!("{other:?}"),
    }
}

with_all_drivers! {

fn who_waits_in_vain_learns_where_and_as_which_end(driver: Driver) {
    for kind in DRIVERS {
        let at = socket();
        let text = |role: &str| format!("memif:{},role={role},driver={kind}", at.display());
        let server = open(driver, &text("server"));
        let waited = server.wait_link(MOMENT);
        let said = waited.as_ref().expect_err("nobody is there").to_string();
        let at = at.display();
        let words = format!(
            "the link did not come up within 300ms: no client has come to {at}: this end is the server, start the other \
             one with role=client"
        );
        assert_eq!(said, words);
        assert!(matches!(why(waited), (MOMENT, LinkDown::NoPeer(_))));
        drop(server);
        let client = open(driver, &text("client"));
        let said = client.wait_link(MOMENT).expect_err("nobody is there").to_string();
        assert!(said.contains(&format!("nobody listens at {at}: this end is the client")), "{said}");
    }
}

fn both_ends_learn_that_their_mtu_differs(driver: Driver) {
    for (server, client) in DRIVERS.iter().flat_map(|one| DRIVERS.iter().map(move |other| (one, other))) {
        let at = socket();
        let at = at.display();
        let server = open(driver, &format!("memif:{at},role=server,driver={server}"));
        let client = open(driver, &format!("fault:loss=1%:memif:{at},role=client,mtu=1500,driver={client}"));
        let told = AtomicU32::new(0);
        let wait = |device: &Device| {
            let (start, mut said) = (Instant::now(), None);
            // Either must go on for the other to hear it. Who is alone so far says that first.
            while told.load(Ordering::Relaxed) < 2 {
                let (_, why) = why(device.wait_link(MOMENT));
                assert!(start.elapsed() < LIMIT, "{why}");
                if let (LinkDown::TurnedAway(reason), None) = (why, &said) {
                    said = Some(reason);
                    told.fetch_add(1, Ordering::Relaxed);
                }
            }
            said.expect("told")
        };
        let words = "the server has mtu=4590, the client mtu=1500: both ends need the same";
        std::thread::scope(|scope| {
            let ends = [&server, &client].map(|end| scope.spawn(|| wait(end)));
            for end in ends {
                let said = end.join().expect("no panic");
                assert!(said.ends_with(words), "{said}");
            }
        });
    }
}

fn a_link_that_comes_up_ends_the_wait(driver: Driver) {
    let at = socket();
    let at = at.display().to_string();
    let server = open(driver, &format!("memif:{at},role=server"));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| server.wait_link(LIMIT));
        std::thread::sleep(MOMENT);
        assert!(!waits.is_finished());
        let client = open(driver, &format!("memif:{at},role=client"));
        client.wait_link(LIMIT).expect("a link");
        waits.join().expect("no panic").expect("a link");
        assert_eq!(client.link_down(), None);
    });
}

/// The processor is for others meanwhile.
fn who_waits_rests(driver: Driver) {
    let at = socket();
    let device = open(driver, &format!("memif:{},role=server", at.display()));
    let before = processor_time();
    device.wait_link(Duration::from_secs(1)).expect_err("nobody is there");
    let used = processor_time() - before;
    assert!(used < Duration::from_millis(300), "{used:?} of a second");
}

}

/// What this thread has had of a processor.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs");
    let first = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(first.expect("nanoseconds"))
}
