//! The slow path: selective-repeat bitmaps and recovery decisions.
