//! How long each is measured: all of a crate's together take about a minute.

use criterion::Criterion;
use std::time::Duration;

/// Half a second each, unless the command line says otherwise.
pub fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .configure_from_args()
}
