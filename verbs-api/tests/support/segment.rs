//! Two hosts of a segment inside the process.

use crate::host::Host;
use verbs_api::{Device, Driver};

/// They have the segment to themselves: each test names its own.
pub fn hosts(driver: Driver, name: &str) -> [Host; 2] {
    let builder = Device::builder().driver(driver);
    [(); 2].map(|()| Host::new(builder.open(&format!("sim:{name}-{driver:?}")).expect("a device")))
}
