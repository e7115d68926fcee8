//! The receiving rules of protocol.md 2.4, the same for requests at the responder and for responses
//! at the requester.

use wire::serial::Psn;

use crate::context::Cx;
use crate::defects::Defect;
use crate::packet::{NakCode, Side};
use crate::rx::{Advance, Arrival, RxStream, State};
use crate::slow_path::Command;

/// Why a packet cannot be placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No receive WQE.
    NotReady,
    /// An error of the peer.
    Error(NakCode),
}

/// The owner of a receiving stream: what it does with the packets.
pub trait Sink {
    /// A packet's content.
    type Item: Copy;
    /// Which stream this is.
    const SIDE: Side;

    /// The stream.
    fn rx(&mut self) -> &mut RxStream;
    /// BTH.AckReq.
    fn ack_requested(item: &Self::Item) -> bool;
    /// The silent checks of protocol.md 2.5.
    fn fits(&self, psn: Psn, item: &Self::Item) -> bool;
    /// Why it cannot be placed, if so.
    fn refusal(&self, item: &Self::Item, cx: &Cx<'_>) -> Option<Refusal>;
    /// Tells the peer that the packet at epsn cannot be placed.
    fn raise(&mut self, refusal: Refusal, cx: &mut Cx<'_>);
    /// An error was raised: no more is acknowledged.
    fn has_refused(&self) -> bool;
    /// Places the payload and fills the completion slot.
    fn place(&mut self, psn: Psn, item: &Self::Item, in_order: bool, cx: &mut Cx<'_>);
    /// Executes, in order, all that is complete below epsn.
    fn emit(&mut self, cx: &mut Cx<'_>);
    /// A duplicate came; its acknowledgement is sent already.
    fn on_duplicate(&mut self, item: &Self::Item, cx: &mut Cx<'_>);
}

/// Handles a packet of the stream.
pub fn on_data<S: Sink>(sink: &mut S, psn: Psn, item: &S::Item, cx: &mut Cx<'_>) {
    let arrival = sink.rx().classify(psn);
    match arrival {
        Arrival::Duplicate => return on_duplicate(sink, psn, item, cx),
        Arrival::BeyondWindow => return,
        Arrival::InOrder | Arrival::OutOfOrder => {}
    }
    if !sink.fits(psn, item) {
        return;
    }
    if let Some(refusal) = sink.refusal(item, cx) {
        let raised = psn == sink.rx().epsn;
        if raised && !(arrival == Arrival::OutOfOrder && cx.has(Defect::ErrorDroppedInRecovery)) {
            sink.raise(refusal, cx);
        } else {
            cx.drop_unsacked(S::SIDE, sink.rx(), psn, false);
        }
        return;
    }
    if arrival == Arrival::InOrder {
        in_order(sink, psn, item, cx)
    } else {
        out_of_order(sink, psn, item, cx)
    }
}

fn on_duplicate<S: Sink>(sink: &mut S, psn: Psn, item: &S::Item, cx: &mut Cx<'_>) {
    if cx.has(Defect::DuplicatePlaced) {
        sink.place(psn, item, true, cx);
    }
    if !(S::SIDE == Side::Response && cx.has(Defect::DuplicateResponseIgnored)) {
        cx.send_ack(S::SIDE, sink.rx(), Some(psn));
    }
    sink.on_duplicate(item, cx);
}

fn in_order<S: Sink>(sink: &mut S, psn: Psn, item: &S::Item, cx: &mut Cx<'_>) {
    sink.place(psn, item, true, cx);
    cx.oracle.on_placed(cx.host, cx.stream(S::SIDE), psn);
    move_epsn(sink, cx, |rx| rx.epsn = rx.epsn.next());
    sink.emit(cx);
    if sink.has_refused() {
        return;
    }
    let (every, flush, now) = (cx.schedule.ack_every, cx.schedule.flush, cx.now);
    let rx = sink.rx();
    if !cx.has(Defect::DroppedReportedOnExitOnly) && report_dropped(rx, cx) {
        cx.send_nack(S::SIDE, rx, None, 0);
        return;
    }
    rx.unacked += 1;
    if rx.unacked >= every || S::ack_requested(item) {
        cx.send_ack(S::SIDE, rx, None);
    } else if rx.flush_at.is_none() {
        rx.flush_at = flush.map(|delay| now + delay);
    }
}

/// Takes the `dropped` flag, whenever epsn moves: the packet dropped may itself be the gap that
/// Recovery waits for.
fn report_dropped(rx: &mut RxStream, cx: &Cx<'_>) -> bool {
    std::mem::take(&mut rx.dropped) && !cx.has(Defect::DroppedNeverReported)
}

fn out_of_order<S: Sink>(sink: &mut S, psn: Psn, item: &S::Item, cx: &mut Cx<'_>) {
    let rx = sink.rx();
    let at_epsn = psn == rx.epsn;
    if cx.schedule.strict {
        if rx.asked_all != Some(rx.epsn) {
            rx.asked_all = Some(rx.epsn);
            cx.send_nack(S::SIDE, rx, None, 0);
        }
        return;
    }
    let n = rx.records_for(psn, cx.defect).iter().flatten().count();
    if !cx.slow.has_room(n, at_epsn) && !cx.has(Defect::SackWithoutRecord) {
        cx.drop_unsacked(S::SIDE, rx, psn, true);
        return;
    }
    sink.place(psn, item, false, cx);
    cx.oracle.on_placed(cx.host, cx.stream(S::SIDE), psn);
    let records = sink.rx().note_out_of_order(psn, cx.defect);
    for record in records.into_iter().flatten() {
        cx.slow.push(cx.stream(S::SIDE), record);
    }
    if cx.has(Defect::EmittedEarly) {
        sink.emit(cx);
    }
    cx.send_nack(S::SIDE, sink.rx(), Some(psn), 0);
    cx.oracle.check_recovery(cx.host, cx.stream(S::SIDE), sink.rx(), cx.slow);
}

/// Obeys a command of the slow path.
pub fn on_command<S: Sink>(sink: &mut S, command: &Command, cx: &mut Cx<'_>) {
    let mut advance = Advance::Ignored;
    let defect = cx.defect;
    move_epsn(sink, cx, |rx| advance = rx.on_advance(command.gen_no, command.base, defect));
    if advance == Advance::Ignored {
        return;
    }
    sink.emit(cx);
    if sink.has_refused() {
        return;
    }
    let rx = sink.rx();
    let recovering = rx.state == State::Recovery;
    if !(recovering && cx.has(Defect::DroppedReportedOnExitOnly)) && report_dropped(rx, cx) {
        cx.send_nack(S::SIDE, rx, None, 0);
    } else if recovering {
        let bitmap = if command.base == rx.epsn { command.above } else { 0 };
        let right = rx.right;
        cx.send_nack(S::SIDE, rx, Some(right), bitmap);
    } else {
        cx.send_ack(S::SIDE, rx, None);
    }
    cx.oracle.check_recovery(cx.host, cx.stream(S::SIDE), sink.rx(), cx.slow);
}

fn move_epsn<S: Sink>(sink: &mut S, cx: &mut Cx<'_>, change: impl FnOnce(&mut RxStream)) {
    let old = sink.rx().epsn;
    change(sink.rx());
    let new = sink.rx().epsn;
    cx.oracle.on_epsn(cx.host, cx.stream(S::SIDE), old, new);
}
