//! Scenarios, loss injection and two-process tests.
