//! Links and events of devices.

use crate::ends::{LIMIT, ends, join, poll_once, run, runtime};
use std::time::Duration;
use tokio::time::timeout;
use verbs_api::{AsyncEvent, Device, Driver, Error, WcStatus};

/// A device without a thread has nobody who would wake the task.
#[test]
fn a_task_waits_for_a_link() {
    let at = std::env::temp_dir().join(format!("srnic-async-link-{}", std::process::id()));
    let open = |role: &str, driver| {
        let text = format!("memif:{},role={role}", at.display());
        Device::builder().driver(driver).open(&text).expect("a device")
    };
    let server = open("server", Driver::THREAD);
    runtime().block_on(async {
        timeout(Duration::from_millis(100), server.when_link_up()).await.expect_err("nobody is there");
        assert!(server.link_down().is_some());
        let waits = tokio::spawn({
            let server = server.clone();
            async move { server.when_link_up().await }
        });
        tokio::task::yield_now().await;
        let client = open("client", Driver::THREAD);
        timeout(LIMIT, client.when_link_up()).await.expect("in time").expect("a link");
        timeout(LIMIT, waits).await.expect("in time").expect("no panic").expect("a link");
        client.when_link_up().await.expect("it is up");
        drop(client);
        let inline = open("client", Driver::Inline);
        assert!(matches!(inline.when_link_up().await, Err(Error::Unsupported(_))));
    });
}

/// Events of both devices, in a task that may be cancelled.
#[test]
fn events_of_devices_are_awaited() {
    let ends = ends("async-events", "", 2);
    let [one, two] = &ends;
    run(&ends, async {
        assert!(poll_once(two.device.next_event()).is_pending(), "nothing has happened");
        let mut buffer = one.pool.take().expect("free");
        buffer.set(&[0; 8]).expect("it fits");
        let refused = one.pair.write(buffer, two.memory.remote().at(1 << 20));
        let (event, refused) = join(two.device.next_event(), refused).await;
        assert!(matches!(event.expect("an event"), AsyncEvent::QpAccessError { .. }));
        assert_eq!(refused.expect("posted").completion.status, WcStatus::RemAccessErr);
        let inline = Device::open("sim:async-events").expect("a device");
        assert!(matches!(inline.next_event().await, Err(Error::Unsupported(_))));
    });
}
