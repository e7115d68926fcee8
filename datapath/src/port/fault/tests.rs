mod alter;
mod config;
mod faults;
mod rules;

use super::*;
use crate::port::test_port::{TestPort, receive, send};

/// Longest frame of the tests.
const MAX_FRAME: usize = 256;

fn faulty(config: &str) -> Fault<TestPort> {
    Fault::new(TestPort::new(MAX_FRAME), &config.parse().unwrap())
}

/// Frame number `number`, no IP packet.
fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    frames.iter().map(|frame| u32::from_be_bytes(frame[14..18].try_into().unwrap())).collect()
}

/// Sends frames `first..last`, one a turn at a standing clock, and returns the numbers of what
/// reached the wire.
fn send_all(port: &mut Fault<TestPort>, first: u32, last: u32) -> Vec<u32> {
    for number in first..last {
        assert!(send(port, &frame(number)));
        port.tx_flush();
    }
    numbers(&std::mem::take(&mut port.inner_mut().wire))
}

/// Numbered frames that arrive at the inner port; the numbers of those that the fault injector
/// passes on.
fn receive_all(port: &mut Fault<TestPort>, first: u32, last: u32) -> Vec<u32> {
    port.inner_mut().arriving.extend((first..last).map(frame));
    let mut got = Vec::new();
    for _ in 0..=(last - first) {
        got.extend(numbers(&receive(port)));
    }
    got
}
