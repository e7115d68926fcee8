//! Benchmarks and perftest-like tools.
