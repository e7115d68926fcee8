//! Congestion controllers: DCTCP and a fixed window. Pure integer arithmetic, no dependency (protocol.md 2.6).
#![forbid(unsafe_code)]
