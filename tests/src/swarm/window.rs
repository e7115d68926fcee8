//! Memory windows: what the WRITEs, READs and atomics of a flow may go through (protocol.md 1.11).

use super::flow::{CONSUMED, Flow, Withdrawn};
use super::message::{Kind, Message};
use datapath::memory::{Access, WindowType};
use datapath::queue::{Completion, WcFlags};
use simnet::{NodeId, Region, Rig, Span, Work};

/// What peers may do through a window.
const SHOWN: Access = Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

/// The window of a flow, on the receiver's node.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Its key before it is bound.
    unbound: u32,
    /// Its key when it is.
    pub key: u32,
    /// It is bound.
    pub open: bool,
    /// LOCAL_INV was posted.
    pub ending: bool,
}

/// The window of the other direction, as who binds it sees it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    unbound: u32,
    key: u32,
    part: Span,
}

impl Target {
    /// BIND_MW.
    pub fn bind(self) -> Work {
        Work::bind(self.unbound, self.key, self.part, SHOWN)
    }

    /// LOCAL_INV.
    pub const fn unbind(self) -> Work {
        Work::local_inv(self.key)
    }
}

/// Memory to be written by the peer: by the window, if there is one, and then by nothing else.
pub fn target(rig: &mut Rig, node: NodeId, len: usize, kind: Option<WindowType>) -> (Region, Option<Window>) {
    let Some(kind) = kind else { return (rig.region(node, len), None) };
    let pd = rig.pd(node);
    let region = rig.region_with(node, len, pd, Access::LOCAL_WRITE | Access::MW_BIND);
    let unbound =
        rig.engine_mut(node).core_mut().memory_mut().allocate_window(pd, kind).expect("a window is free").0;
    let [low, ..] = unbound.to_le_bytes();
    let key = unbound & !0xFF | u32::from(low.wrapping_add(1));
    (region, Some(Window { unbound, key, open: false, ending: false }))
}

impl Flow {
    /// What the other direction needs to bind this one's window.
    pub fn to_bind(&self) -> Option<Target> {
        let part = self.target.all();
        self.window.map(|Window { unbound, key, .. }| Target { unbound, key, part })
    }

    /// Returns `true` if the window has ended, or may any moment.
    pub fn window_ends(&self) -> bool {
        self.window.is_some_and(|window| window.ending)
    }

    /// How far the other direction, which binds the window and ends it, has come.
    pub fn follow_binder(&mut self, rig: &Rig, posted: usize, succeeded: usize, unbind: Option<usize>) {
        let Some(window) = &mut self.window else { return };
        window.open = succeeded > 0;
        window.ending = unbind.is_some_and(|unbind| posted > unbind);
        if self.withdrawn.is_none() && unbind.is_some_and(|unbind| succeeded > unbind) {
            self.withdrawn = Some(Withdrawn::Window(rig.bytes(self.target.all())));
        }
    }

    /// Returns `true` if the completion of a receive says of the window what it must: by then it is
    /// no more.
    pub(super) fn ends_window(&self, rig: &Rig, message: &Message, done: &Completion) -> bool {
        let key = self.remote().key;
        let memory = rig.engine(self.to.node()).core().memory();
        let ended = || done.imm == key && memory.check_invalidate(key, rig.qpn(self.to)).is_err();
        done.flags.contains(WcFlags::WITH_INV) == message.invalidates && (!message.invalidates || ended())
    }

    /// Nothing was written through the window after it ended.
    pub(super) fn check_behind_window(&self, bytes: &[u8], before: &[u8]) {
        for message in self.messages.iter().filter(|message| message.kind != Kind::Send) {
            for offset in message.target.iter().flat_map(|piece| piece.offset..piece.offset + piece.len) {
                let same = bytes[offset] == before[offset] || bytes[offset] == CONSUMED;
                assert!(same, "byte {offset} was written after its window ended: {message:?}");
            }
        }
    }
}
