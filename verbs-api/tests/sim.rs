//! `sim:` devices, as a program's own tests use them: no DPDK, no privileges, nothing outside the
//! process.

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/talk.rs"]
mod talk;

use talk::{complete, connect, connect_strictly, host, talk};
use verbs_api::{Device, Driver, Error, FaultStats, SendData, SendRequest, WcStatus};

#[test]
fn either_end_may_ask_for_strict_placement() {
    for strict in [[false, false], [true, false], [false, true], [true, true]] {
        let name = format!("sim:strict-{strict:?}").replace([' ', ','], "");
        let texts = [&name, &format!("fault:loss=10%,seed=3:{name}")];
        let [mut one, mut two] = texts.map(|text| host(Driver::Inline, text));
        let (mut a, _b) = connect_strictly(&one, &two, strict);
        let bytes = [7; 8];
        for _ in 0..20 {
            let mut batch = a.batch();
            for place in 0..8 {
                let write = SendRequest::write(SendData::Inline(&bytes), two.memory.remote().at(place * 8));
                batch.post_send(&write.signaled()).expect("room");
            }
            drop(batch);
            for _ in 0..8 {
                assert_eq!(complete(&mut one, &two), WcStatus::Success);
            }
        }
        two.device.progress();
        let counters = two.device.counters();
        let (kept, dropped) = (counters.rx_out_of_order > 0, counters.drop_strict_placement > 0);
        let agreed = strict.contains(&true);
        assert_eq!((kept, dropped), (!agreed, agreed), "{strict:?}: {:?}", two.cq.poll());
    }
}

with_all_drivers! {

fn three_hosts_of_a_segment_talk_through_faults(driver: Driver) {
    let name = format!("sim:three-{driver:?}");
    let mut hosts = [&name, &format!("fault:loss=5%,reorder=5%,seed=3:{name}"), &name].map(|text| host(driver, text));
    assert_eq!(hosts[2].device.ip().to_string(), "10.77.0.3");
    assert_eq!(hosts[1].device.mac(), [2, 0, 0, 0, 0, 2]);
    for (first, second) in [(0, 1), (1, 2), (0, 2)] {
        let [one, two] = hosts.get_disjoint_mut([first, second]).expect("two");
        let mut pairs = connect(one, two);
        for number in 1..100 {
            talk(one, two, &mut pairs, number);
        }
    }
    assert_ne!(hosts[1].device.fault_stats(), FaultStats::default(), "nothing was lost, so this shows nothing");
}

/// Frames lost by rule at the first host: what was sent, what was received, and all is well again.
fn chosen_frames_are_lost_and_nothing_else_is(driver: Driver) {
    for (number, (rules, picked)) in [
        ("data@3", (1, 0)),
        ("ack@1-2", (0, 2)),
        // A packet, its first two resends, and an acknowledgement.
        ("data@1/resend@1-2/ack@5", (3, 1)),
        // A black hole that heals by packets.
        ("any@5-9", (5, 5)),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("sim:rules-{driver:?}-{number}");
        let mut one = host(driver, &format!("fault:drop={rules}:{name}"));
        let mut two = host(driver, &name);
        let mut pairs = connect(&one, &two);
        for number in 1..20 {
            talk(&mut one, &mut two, &mut pairs, number);
        }
        let FaultStats { tx, rx } = one.device.fault_stats();
        assert_eq!((tx.picked, rx.picked), picked, "{rules}");
        assert_eq!((tx.dropped(), rx.dropped()), picked, "{rules}");
    }
}

fn a_black_hole_heals_in_time(driver: Driver) {
    let name = format!("sim:hole-{driver:?}");
    let (mut one, mut two) = (host(driver, &format!("fault:hole=0ns-5ms,loss_rx=10%:{name}")), host(driver, &name));
    let mut pairs = connect(&one, &two);
    for number in 1..100 {
        talk(&mut one, &mut two, &mut pairs, number);
    }
    let FaultStats { tx, rx } = one.device.fault_stats();
    assert!(tx.hole_lost > 0 && tx.lost == 0 && rx.lost > 0, "{tx:?} {rx:?}");
}

fn an_address_in_use_and_another_mtu_are_refused(driver: Driver) {
    let name = format!("sim:refused-{driver:?}");
    let _first = host(driver, &name);
    let error = |text: String| Device::builder().driver(driver).open(&text).err().expect("refused").to_string();
    assert_eq!(
        error(format!("{name},mac=02:00:00:00:00:01")),
        "another port of the segment has the Ethernet address 02:00:00:00:00:01"
    );
    assert!(error(format!("{name},mtu=1500")).contains("give all devices of a segment the same mtu"));
}

}

#[test]
fn a_processor_that_is_not_there_is_named() {
    let builder = Device::builder().driver(Driver::Thread { cpu: Some(100_000) });
    let error = builder.open("sim:nowhere").err().expect("no machine has that many");
    assert!(matches!(error, Error::Thread { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "the engine's thread cannot run on the processor asked for: there is no processor 100000"
    );
}

#[test]
fn a_size_beyond_the_limit_is_named() {
    let error = Device::builder().max_qps(1 << 21).open("sim:limit").err().expect("too many").to_string();
    assert_eq!(error, "max_qps is 2097152; it must be between 1 and 1048576");
    let device = Device::open("sim:limit").expect("a device");
    let error = device.create_cq(1 << 23).err().expect("too many").to_string();
    assert_eq!(error, "entries is 8388608; it must be between 1 and 4194304");
}

#[test]
fn the_string_may_choose_the_driver() {
    let device = Device::open("sim:chosen,poll=thread").expect("a device");
    assert_eq!(device.driver(), Driver::THREAD);
    assert_eq!(device.progress(), verbs_api::Turn::default());
}

#[test]
fn a_device_records_every_frame_that_passes_its_faults() {
    let path = std::env::temp_dir().join(format!("srnic-sim-{}.pcap", std::process::id()));
    let mut one = host(Driver::Inline, &format!("fault:loss=20%,seed=4:sim:pcap,pcap={}", path.display()));
    let mut two = host(Driver::Inline, "sim:pcap");
    let mut pairs = connect(&one, &two);
    for number in 1..50 {
        talk(&mut one, &mut two, &mut pairs, number);
    }
    let (port, faults) = (one.device.port_stats(), one.device.fault_stats());
    assert!(faults.tx.dropped() > 0, "the faults did nothing");
    drop((pairs, one, two));
    let bytes = std::fs::read(&path).expect("it was written");
    std::fs::remove_file(&path).expect("ours");
    // Nanosecond pcap: a header of 24 bytes, and one of 16 before each frame.
    assert_eq!(bytes[..4], 0xA1B2_3C4D_u32.to_ne_bytes());
    let (mut at, mut frames) = (24, 0);
    while let Some(len) = bytes.get(at + 8..at + 12) {
        at += 16 + u32::from_ne_bytes(len.try_into().expect("four bytes")) as usize;
        frames += 1;
    }
    assert_eq!(at, bytes.len());
    // What the engine sent is there, also what was lost behind it; and perhaps what it says at its
    // end, or asks about its address.
    let counted = port.rx_frames + port.tx_frames + faults.tx.dropped();
    assert!((counted..=counted + 4).contains(&frames), "{frames}, where {counted} were counted");
    let error = Device::open("sim:pcap,pcap=/nowhere/a.pcap").err().expect("no such directory");
    assert!(error.to_string().contains("/nowhere/a.pcap"), "{error}");
    let error = Device::open("sim:pcap,pcap=/dev/full").err().expect("no room even for the header");
    assert!(error.to_string().contains("cannot write /dev/full: No space left"), "{error}");
}
