//! The verbs-like API: devices, memory regions, queue pairs.
