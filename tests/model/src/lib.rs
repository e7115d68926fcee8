//! An executable model of the stream rules (protocol section 2.4), fuzzed.
