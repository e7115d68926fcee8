//! A deterministic network in virtual time, and the pair rig.
