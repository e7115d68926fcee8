//! One door to everything a person runs.

fn main() {}
