//! DPDK: generated bindings and a small safe layer.
