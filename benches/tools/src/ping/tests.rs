use super::*;
use verbs_api::Driver;

fn device(text: &str) -> Device {
    Device::builder().driver(Driver::Inline).open(text).expect("a device")
}

#[test]
fn a_message_is_read_as_it_was_written_and_not_if_a_bit_turned() {
    for len in [HEADER, HEADER + 1, 100, 1024] {
        let bytes = encode(Kind::Request, 0x0123_4567_89AB, len);
        assert_eq!((bytes.len(), decode(&bytes)), (len, Some((Kind::Request, 0x0123_4567_89AB))));
        for at in 0..len {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_ne!(decode(&damaged), Some((Kind::Request, 0x0123_4567_89AB)), "byte {at} of {len}");
        }
        assert_eq!(decode(&bytes[..HEADER - 1]), None);
    }
}

#[test]
fn statistics_are_those_of_ping() {
    let mut statistics = Statistics { sent: 4, ..Statistics::default() };
    for micros in [1, 2, 6] {
        statistics.record(Duration::from_micros(micros));
    }
    assert_eq!(
        statistics.to_string(),
        "4 datagrams sent, 3 answered, 25.0% lost\nrtt min/avg/max/mdev = 1.0/3.0/6.0/2.2 us"
    );
    let silent = Statistics { sent: 2, ..Statistics::default() };
    assert_eq!(silent.to_string(), "2 datagrams sent, 0 answered, 100.0% lost");
    let strange = Statistics { duplicates: 1, strange: 2, ..silent };
    assert_eq!(strange.to_string(), "2 datagrams sent, 0 answered, +1 duplicates, +2 strange, 100.0% lost");
}

/// Both ends ask and answer, until nothing moves any more: the answers of the first.
fn exchange(ends: &mut [Pinger; 2]) -> Vec<Answer> {
    let mut answers = Vec::new();
    for _ in 0..2000 {
        answers.extend(ends[0].step().expect("it goes on"));
        ends[1].step().expect("it goes on");
    }
    answers
}

/// Tells an end on `from` the way to `to`: inline engines do not answer while the other one waits.
fn know(end: &mut Pinger, from: &Device, to: &Device) {
    let av = verbs_api::AddressVector {
        src_ip: from.ip(),
        dst_ip: to.ip(),
        dst_mac: Some(to.mac()),
        ..verbs_api::AddressVector::default()
    };
    let way = end.pd.create_ah(&av).expect("a way");
    end.ways.insert(to.ip(), way);
}

/// Two ends that know each other.
fn acquainted(devices: &[Device; 2]) -> [Pinger; 2] {
    let [mut one, mut two] = devices.each_ref().map(|device| Pinger::new(device).expect("an end"));
    know(&mut one, &devices[0], &devices[1]);
    know(&mut two, &devices[1], &devices[0]);
    [one, two]
}

#[test]
fn who_asks_is_answered_and_answers() {
    let devices = [device("sim:ping,mtu=1500"), device("sim:ping,mtu=1500")];
    let mut ends = acquainted(&devices);
    let lengths = [0, HEADER, 56, 1000, ends[0].longest()];
    for (number, len) in (0..).zip(lengths) {
        ends[0].ask(devices[1].ip(), number, len).expect("sent");
        ends[1].ask(devices[0].ip(), number, len).expect("sent");
    }
    let answers = exchange(&mut ends);
    let numbers: Vec<_> =
        answers.iter().map(|answer| (answer.from, answer.number, answer.duplicate)).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4].map(|number| (devices[1].ip(), number, false)));
    for end in &ends {
        let statistics = end.statistics();
        assert_eq!(
            (statistics.sent, statistics.received, statistics.strange, end.unanswered()),
            (5, 5, 0, 0)
        );
    }
    let too_long = ends[0].longest() + 1;
    ends[0].ask(devices[1].ip(), 9, too_long).expect_err("a datagram is one packet");
}

#[test]
fn who_cannot_be_reached_is_counted_and_the_others_are_answered() {
    let [answerer, asker, stranger] = [0, 1, 2].map(|_| device("sim:ping-unreachable"));
    let [mut answers, mut asks, mut mute] =
        [&answerer, &asker, &stranger].map(|device| Pinger::new(device).expect("an end"));
    know(&mut mute, &stranger, &answerer);
    know(&mut asks, &asker, &answerer);
    know(&mut answers, &answerer, &asker);
    // Nobody runs the stranger's engine while its address is looked for.
    mute.ask(answerer.ip(), 1, 56).expect("sent");
    asks.ask(answerer.ip(), 2, 56).expect("sent");
    for _ in 0..2000 {
        answers.step().expect("it goes on");
    }
    let answer = (0..2000).find_map(|_| asks.step().expect("it goes on")).expect("answered");
    assert_eq!((answer.number, answers.statistics().unreachable), (2, 1));
    let text = answers.statistics().to_string();
    assert!(text.contains("+1 unreachable"), "{text}");
}

#[test]
fn what_is_remembered_of_many_requests_is_bounded() {
    let device = device("sim:ping-many,ip=10.77.0.9");
    let mut end = Pinger::new(&device).expect("an end");
    for number in 0..2 * REMEMBERED as u64 {
        end.ask(device.ip(), number, 56).expect("sent");
        while end.awaits(number) {
            end.step().expect("it goes on");
        }
    }
    assert_eq!((end.answered.len(), end.unanswered()), (REMEMBERED, 0));
}

/// The answers to each of fifty requests, one after the other, over a segment. The first end's
/// device has faults.
fn fifty(faults: &str, segment: &str) -> (Vec<Vec<Answer>>, Pinger) {
    let devices = [device(&format!("fault:{faults}:sim:{segment}")), device(&format!("sim:{segment}"))];
    let mut ends = acquainted(&devices);
    let mut answers = Vec::new();
    for number in 0..50 {
        ends[0].ask(devices[1].ip(), number, 56).expect("sent");
        answers.push(exchange(&mut ends));
    }
    let [asks, _] = ends;
    (answers, asks)
}

/// Lost are packets by their numbers, and no other frames: from time to time the device asks for
/// its own address.
#[test]
fn what_is_lost_is_not_answered() {
    let (answers, asks) = fifty("drop=data@3/data@11-20,dir=tx", "ping-loss");
    for (number, answers) in (0..).zip(&answers) {
        let lost = number == 2 || (10..20).contains(&number);
        let said: Vec<_> = answers.iter().map(|answer| (answer.number, answer.duplicate)).collect();
        assert_eq!(said, if lost { vec![] } else { vec![(number, false)] }, "request {number}");
    }
    let statistics = asks.statistics();
    assert_eq!((statistics.sent, statistics.received, asks.unanswered()), (50, 39, 11), "{statistics}");
}

/// Each request comes twice, and so does each of the two answers.
#[test]
fn what_comes_twice_is_said() {
    let (answers, asks) = fifty("dup=100%", "ping-dup");
    for (number, answers) in (0..).zip(&answers) {
        let said: Vec<_> = answers.iter().map(|answer| (answer.number, answer.duplicate)).collect();
        assert_eq!(said, [false, true, true, true].map(|duplicate| (number, duplicate)));
        assert!(answers.iter().all(|answer| answer.time > Duration::ZERO), "{answers:?}");
    }
    let statistics = asks.statistics();
    assert_eq!((statistics.sent, statistics.received, statistics.duplicates), (50, 50, 150), "{statistics}");
}
