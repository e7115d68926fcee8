//! What beside its gates keeps a queue pair from its turns: its program, which has paused it, and
//! the rate of its peer's host (docs/adr/0074). Its turn comes, and is not taken: it stands in no
//! queue until something puts it back.

use crate::qp::{Qp, Units};
use crate::qp_state::QpType;
use crate::sched::{HostSign, SchedFlags, Scheduled};
use core::net::IpAddr;
use sr_recovery::StreamId;
use wire::WireMode;

/// Whether a stream whose turn it is takes it, and how much of it: reduces `turn` by what may not
/// be sent at once. False: something puts it back later.
#[cold]
#[inline(never)]
pub(crate) fn takes_turn(qp: &mut Qp<'_>, units: &mut Units, stream: StreamId, turn: &mut Scheduled) -> bool {
    let host = qp.cold.host;
    let flags = qp.hot.sched_of(stream);
    if flags.contains(SchedFlags::PAUSED) {
        flags.insert(SchedFlags::HELD);
        if let Some(host) = host {
            forget(units, host, turn.slot);
        }
        return false;
    }
    let (Some(hosts), Some(host)) = (&mut units.hosts, host) else { return true };
    let admitted = hosts.admit(host, turn.slot, units.now);
    flags.set(SchedFlags::WAITS_FOR_HOST, admitted.is_none());
    turn.bytes = turn.bytes.min(admitted.unwrap_or(0));
    admitted.is_some()
}

/// A stream had its turn, and sent so many bytes to its peer's host.
#[cold]
#[inline(never)]
pub(crate) fn charge_host(qp: &Qp<'_>, units: &mut Units, bytes: u64) {
    if let (Some(hosts), Some(host)) = (&mut units.hosts, qp.cold.host) {
        let next = hosts.charge(host, bytes, units.now);
        next.into_iter().for_each(|number| units.mux.put_back(number));
    }
}

/// An acknowledgement of what that stream sent says how long the peer's host took, and that much is
/// acknowledged. `app_limited`: the stream has nothing more to send.
#[cold]
#[inline(never)]
pub(crate) fn hear_host(qp: &Qp<'_>, units: &mut Units, id: StreamId, delay_ns: u32, app_limited: bool) {
    let (tx, rtt) = match qp.cold.responses.as_deref() {
        Some(responses) if id.response => (&responses.tx, &responses.watchdog.rtt),
        _ => (&qp.hot.tx, &qp.cold.watchdog.rtt),
    };
    let (srtt_ns, stream) = (rtt.srtt_ns(), units.number_of(id));
    let sign = HostSign { delay_ns, srtt_ns, stream, una: tx.una(), nxt: tx.nxt(), app_limited };
    if let (Some(hosts), Some(host)) = (&mut units.hosts, qp.cold.host) {
        let next = hosts.learn(host, sign, units.now);
        next.into_iter().for_each(|number| units.mux.put_back(number));
    }
}

/// A reliable queue pair of the SRNIC dialect begins to send to the host with that address.
pub(crate) fn join_host(qp: &mut Qp<'_>, units: &mut Units, address: IpAddr) {
    leave_host(qp, units);
    let paces = qp.hot.service == QpType::Rc && qp.hot.id.mode == WireMode::Srnic && !qp.hot.id.loopback;
    let Some(hosts) = units.hosts.as_mut().filter(|_| paces) else { return };
    qp.cold.host = hosts.join(address, units.now);
    if qp.cold.host.is_some() {
        qp.hot.sched.insert(SchedFlags::PACED);
        qp.hot.responses_sched.insert(SchedFlags::PACED);
    }
}

/// It does not any more, and its program's wish ends, too: its streams stand where others do.
pub(crate) fn ungovern(qp: &mut Qp<'_>, units: &mut Units) {
    let (requests, responses) = (qp.cold.requests(), qp.cold.of_responses());
    for stream in [requests, responses] {
        let_go(qp, units, stream);
        qp.hot.sched_of(stream).remove(SchedFlags::GOVERNED);
    }
    leave_host(qp, units);
}

fn leave_host(qp: &mut Qp<'_>, units: &mut Units) {
    if let (Some(hosts), Some(host)) = (&mut units.hosts, qp.cold.host.take()) {
        hosts.leave(host);
    }
}

/// Puts a stream back that stands in no queue, and one that waits behind it.
fn let_go(qp: &mut Qp<'_>, units: &mut Units, stream: StreamId) {
    let number = units.number_of(stream);
    let flags = qp.hot.sched_of(stream);
    if flags.contains(SchedFlags::HELD) {
        flags.remove(SchedFlags::HELD);
        units.mux.put_back(number);
    }
    flags.remove(SchedFlags::WAITS_FOR_HOST);
    if let Some(host) = qp.cold.host {
        forget(units, host, number);
    }
}

/// A stream does not wait for its host any more.
fn forget(units: &mut Units, host: u16, number: u32) {
    if let Some(hosts) = &mut units.hosts {
        let next = hosts.forget(host, number, units.now);
        next.into_iter().flatten().for_each(|number| units.mux.put_back(number));
    }
}

/// Its program pauses the queue pair, or lets it go on.
pub(crate) fn set_paused(qp: &mut Qp<'_>, units: &mut Units, paused: bool) {
    for stream in [qp.cold.requests(), qp.cold.of_responses()] {
        let number = units.number_of(stream);
        let flags = qp.hot.sched_of(stream);
        flags.set(SchedFlags::PAUSED, paused);
        if !paused && flags.contains(SchedFlags::HELD) {
            flags.remove(SchedFlags::HELD);
            units.mux.put_back(number);
        }
    }
}

/// As if the last packets had gone out now: nothing was to be expected while it was paused.
pub(crate) fn restart_timers(qp: &mut Qp<'_>, units: &mut Units) {
    let now = units.now;
    qp.cold.watchdog.progress(now);
    qp.cold.reads.iter_mut().for_each(|reads| reads.watchdog.progress(now));
    qp.cold.responses.iter_mut().for_each(|responses| responses.watchdog.progress(now));
    for stream in [qp.cold.requests(), qp.cold.of_responses()] {
        units.timers.arm(units.number_of(stream), now);
        qp.hot.sched_of(stream).insert(SchedFlags::TIMED);
    }
}
