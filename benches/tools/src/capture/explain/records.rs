//! The packets of a connection in one capture, and the streams in them.

use super::flow::Record;
use super::pairing::is_read_ack;
use super::stream::{Traffic, View};
use wire::{Kind, Position};

/// The packets of a connection in one capture; `true` for those of the direction seen first.
pub type Records = Vec<(bool, Record)>;

/// Bytes of payload of the packets that are not the last of a message.
pub fn path_mtu(records: &Records) -> Option<u32> {
    let full =
        |record: &&Record| matches!(record.headers.bth.opcode.position(), Position::First | Position::Middle);
    records
        .iter()
        .map(|(_, record)| record)
        .filter(full)
        .map(|record| record.payload)
        .filter(|len| *len > 0)
        .max()
}

/// One stream as a capture has it.
pub fn view(records: &Records, forward: bool, traffic: Traffic, pmtu: Option<u32>) -> View {
    let mut view = View::default();
    for (own, record) in records {
        if *own == forward && Traffic::of(record) == Some(traffic) {
            view.packet(record, pmtu);
        } else if *own != forward && answers(record, traffic) {
            view.answer(record);
        }
    }
    view
}

/// Whether a packet of the other direction acknowledges this stream.
pub fn answers(record: &Record, traffic: Traffic) -> bool {
    match (record.kind(), traffic) {
        (Kind::Ack, Traffic::Requests) => !is_read_ack(record),
        (Kind::Ack, Traffic::Responses) => is_read_ack(record),
        (Kind::ReadResponse | Kind::AtomicAck, Traffic::Requests) => !record.is_srnic(),
        _ => false,
    }
}
