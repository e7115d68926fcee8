//! A packet in a frame: headers as the layout of its opcode has them, payload, pad and ICRC.
//! Whatever is sent is built here, but for the commonest requests, whose headers are put together
//! in registers (`crate::qp::requester`, docs/adr/0022).

use super::context::QpIdentity;
use crate::memory::Mapped;
use crate::queue::WcStatus;
use icrc::Kernel;
use wire::emit::ICRC_LEN;
use wire::{Bth, Fields, Head, Layout, Opcode, Template, WireMode, bth};

/// What a packet carries behind its headers.
pub(super) trait Body {
    /// Its bytes, without pad.
    fn len(&self) -> usize;

    /// Copies it to byte `at` of a frame that begins with the IP header, has its other headers, and
    /// ends with the ICRC; writes pad bytes and ICRC.
    ///
    /// # Errors
    /// The status with which the request fails, if its memory may not be read.
    fn write_sealed(&self, frame_from_l3: &mut [u8], at: usize) -> Result<(), WcStatus>;
}

/// So many bytes of zeros.
pub(super) struct Zeros(pub usize);

impl Body for Zeros {
    fn len(&self) -> usize {
        self.0
    }

    #[inline(always)]
    fn write_sealed(&self, frame_from_l3: &mut [u8], at: usize) -> Result<(), WcStatus> {
        let Self(len) = *self;
        frame_from_l3[at..at + len.next_multiple_of(4)].fill(0);
        Kernel::detected().seal(frame_from_l3);
        Ok(())
    }
}

/// Registered memory that may be read.
impl Body for Mapped<'_> {
    fn len(&self) -> usize {
        Self::len(self)
    }

    #[inline(always)]
    fn write_sealed(&self, frame_from_l3: &mut [u8], at: usize) -> Result<(), WcStatus> {
        self.read_sealed(Kernel::detected(), frame_from_l3, at, self.len());
        Ok(())
    }
}

/// The headers of a packet, and where it goes.
pub(super) struct PacketBuilder<'a> {
    template: &'a Template,
    layout: &'static Layout,
    bth: Bth,
    fields: Fields,
}

impl<'a> PacketBuilder<'a> {
    /// `fields` that the opcode of `bth` has not in wire mode `mode` are not sent.
    ///
    /// # Errors
    /// The status with which a request fails, if there is no such packet.
    #[inline(always)]
    pub fn new(template: &'a Template, mode: WireMode, bth: Bth, fields: Fields) -> Result<Self, WcStatus> {
        let layout = Layout::of(mode, bth.opcode).ok_or(WcStatus::LocQpOpErr)?;
        Ok(Self { template, layout, bth, fields })
    }

    /// Writes the packet to the start of `frame` and returns its length.
    ///
    /// # Errors
    /// The status with which a request fails, if its memory may not be read, or the frame is too
    /// short.
    #[inline(always)]
    pub fn build(&self, body: &impl Body, frame: &mut [u8]) -> Result<usize, WcStatus> {
        let Self { template, layout, fields, .. } = self;
        let pad = bth::pad_of(body.len());
        let header_len = fields.header_len(layout);
        let transport_len = header_len + body.len() + usize::from(pad) + ICRC_LEN;
        let base = template.len();
        let end = base + transport_len;
        let Some(frame) = frame.get_mut(..end) else { return Err(WcStatus::LocQpOpErr) };
        template.emit(frame, transport_len);
        let headers = &mut frame[base..base + header_len];
        bth::emit(headers, &Bth { pad, ..self.bth });
        fields.emit(layout, headers);
        let l3 = template.l3_offset();
        body.write_sealed(&mut frame[l3..], base + header_len - l3)?;
        Ok(end)
    }
}

impl QpIdentity {
    /// The BTH of a packet to the queue pair's peer.
    #[inline(always)]
    pub const fn bth(&self, mode: WireMode, opcode: Opcode) -> Bth {
        Bth { pkey: self.pkey, dest_qp: self.dest_qpn, ..Bth::new(mode, opcode) }
    }
}

/// Writes a packet whose headers behind the link's are in registers to the start of `frame` and
/// returns its length; `None` if it does not fit, and nothing is written.
#[inline(always)]
pub(super) fn build_behind(
    head: Head,
    template: &Template,
    payload: &Mapped<'_>,
    frame: &mut [u8],
) -> Option<usize> {
    let l3 = template.l3_offset();
    let end = l3 + head.len + payload.len().next_multiple_of(4) + ICRC_LEN;
    let frame = frame.get_mut(..end)?;
    payload.emit(Kernel::detected(), head, &mut frame[l3..]);
    template.emit_link(frame);
    Some(end)
}
