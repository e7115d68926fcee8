//! UC and UD: plain RoCEv2 without acknowledgements (protocol.md 1). Nothing is sent again, so a
//! request completes as soon as its last packet went out, and what arrives is a whole message or
//! nothing.

mod connected;
mod datagram;
mod packet;
mod transmit;

pub(crate) use connected::{Incoming, on_unreliable};
pub(crate) use datagram::on_datagram;
pub(crate) use transmit::transmit_unreliable;

/// Q_Key of QPN 1, whatever its attributes say (protocol.md 1.12).
pub(crate) const QKEY_GSI: u32 = 0x8001_0000;
