//! RoCEv2 and SRNIC packet formats, serial numbers, ICRC.
//!
//! No I/O, no `unsafe`, and never a panic on any bytes. `protocol.md` sections 1 and 2 are the
//! specification.
//!
//! # Receiving
//! [`encap::Datagram::parse`] finds the transport packet (BTH to ICRC) in an Ethernet frame,
//! [`icrc::verify`] checks it, and [`Packet::parse`] makes the one length check after which every
//! getter is a load at a fixed offset.
//!
//! # Sending
//! [`encap::Template::emit`] writes Ethernet to UDP, [`bth::emit`] and the `emit` of each header
//! write at the offsets of [`Layout::of`], and [`icrc::seal`] closes the packet. [`Repr`] does the
//! same from an owned value, for tests and tools.
//!
//! ```
//! use wire::{Bth, Datagram, Ecn, Flow, Layout, Meta, Msn, Opcode, Packet, Reth, Template, WireMode, icrc};
//!
//! let flow = Flow {
//!     src_mac: [2, 0, 0, 0, 0, 1],
//!     dst_mac: [2, 0, 0, 0, 0, 2],
//!     vlan: None,
//!     src: "10.0.0.1".parse()?,
//!     dst: "10.0.0.2".parse()?,
//!     src_port: 0xC001,
//!     dst_port: 4791,
//!     dscp: 0,
//!     ecn: Ecn::Ect0,
//!     ttl: 64,
//! };
//! let template = Template::new(&flow)?;
//! let (mode, opcode, payload) = (WireMode::Srnic, Opcode::RcWriteOnly, b"sixteen bytes...");
//!
//! let layout = Layout::of(mode, opcode).ok_or("no such packet")?;
//! let transport_len = usize::from(layout.len) + payload.len() + 4;
//! let mut frame = vec![0; template.len() + transport_len];
//! template.emit(&mut frame, transport_len);
//! let transport = &mut frame[template.len()..];
//! wire::bth::emit(transport, &Bth { dest_qp: 17, ..Bth::new(mode, opcode) });
//! Reth { va: 0x1000, rkey: 7, dma_len: 16 }.emit(&mut transport[usize::from(layout.reth)..]);
//! Meta { msn: Msn::new(3), offset: 0 }.emit(&mut transport[usize::from(layout.meta)..]);
//! transport[usize::from(layout.len)..][..payload.len()].copy_from_slice(payload);
//! icrc::seal(&mut frame[template.l3_offset()..]);
//! assert_eq!(frame.len(), 78 + payload.len());
//!
//! let datagram = Datagram::parse(&frame, 4791)?;
//! assert!(icrc::verify(&frame[datagram.l3_offset..datagram.transport.end]));
//! let packet = Packet::parse(&frame[datagram.transport])?;
//! assert_eq!((packet.mode(), packet.opcode(), packet.dest_qp()), (mode, opcode, 17));
//! assert_eq!(packet.reth().map(|reth| reth.va), Some(0x1000));
//! assert_eq!(packet.payload(), payload);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bytes;

pub mod bth;
pub mod cm;
pub mod emit;
pub mod encap;
pub mod entropy;
pub mod ext;
pub mod fields;
pub mod head;
pub mod headers;
pub mod icrc;
pub mod layout;
pub mod mode;
pub mod opcode;
pub mod packet;
pub mod pmtu;
pub mod repr;
pub mod rx_frame;
pub mod serial;
pub mod srnic;
pub mod syndrome;

pub use bth::Bth;
pub use encap::{Body, CommonFrame, Continuation, Datagram, Ecn, EncapError, Flow, Template};
pub use ext::{Aeth, AtomicEth, Deth, Reth};
pub use fields::Fields;
pub use head::Head;
pub use headers::Headers;
pub use layout::Layout;
pub use mode::WireMode;
pub use opcode::{Kind, Opcode, Position, Transport};
pub use packet::{Packet, ParseError};
pub use pmtu::Pmtu;
pub use repr::Repr;
pub use rx_frame::{HEAD_LEN, RxFrame};
pub use serial::{Msn, Psn, Serial, Ssn};
pub use srnic::{AckFlags, Ackx, Meta, Rdw, Ssnw};
pub use syndrome::{NakCode, Syndrome, rnr_timer_code, rnr_timer_ns};
