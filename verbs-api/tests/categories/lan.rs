//! Links between two devices of this process.

use crate::host::Host;
use crate::host::wait::until;
use std::sync::atomic::{AtomicU32, Ordering};
use verbs_api::{Device, DeviceBuilder, Driver};

/// What is between two hosts, and who drives them.
#[derive(Clone, Copy, Debug)]
pub struct Lan {
    pub wire: Wire,
    pub driver: Driver,
}

/// What frames go over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// A segment inside the process.
    Sim,
    /// A memif whose buffers are lent.
    Lending,
    /// A memif of DPDK's.
    #[cfg(feature = "dpdk")]
    Memif,
}

/// Each test once for every kind of link.
macro_rules! on_every_lan {
    ($($(#[$attribute:meta])* fn $name:ident($lan:ident: Lan) $body:block)+) => {
        $($(#[$attribute])* fn $name($lan: $crate::lan::Lan) $body)+

        on_every_lan!(@ sim_inline { wire: Sim, driver: Inline } $($name)+);
        on_every_lan!(@ sim_thread { wire: Sim, driver: THREAD } $($name)+);
        on_every_lan!(@ lending_inline { wire: Lending, driver: Inline } $($name)+);
        on_every_lan!(@ lending_thread { wire: Lending, driver: THREAD } $($name)+);
        on_every_lan!(@ lending_hybrid { wire: Lending, driver: Hybrid } $($name)+);
        #[cfg(feature = "dpdk")]
        on_every_lan!(@ memif_inline { wire: Memif, driver: Inline } $($name)+);
        #[cfg(feature = "dpdk")]
        on_every_lan!(@ memif_thread { wire: Memif, driver: THREAD } $($name)+);
    };
    (@ $module:ident { wire: $wire:ident, driver: $driver:ident } $($name:ident)+) => {
        mod $module {
            $(#[test]
            fn $name() {
                let driver = verbs_api::Driver::$driver;
                super::$name($crate::lan::Lan { wire: $crate::lan::Wire::$wire, driver });
            })+
        }
    };
}

impl Lan {
    /// Two hosts with a link.
    pub fn hosts(self) -> [Host; 2] {
        self.hosts_of(|builder| builder)
    }

    /// Two hosts of other sizes than the usual.
    pub fn hosts_of(self, tune: impl Fn(DeviceBuilder) -> DeviceBuilder) -> [Host; 2] {
        let builder = tune(Device::builder().driver(self.driver));
        let hosts = self.devices().map(|text| Host::new(builder.open(&text).expect("a device")));
        until("the link", || {
            hosts.iter().for_each(|host| {
                host.device.progress();
            });
            std::thread::yield_now();
            hosts.iter().all(|host| host.device.link_up()).then_some(())
        });
        // That the links came up is known.
        hosts.iter().for_each(|host| while host.device.poll_event().is_some() {});
        hosts
    }

    fn devices(self) -> [String; 2] {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let key = match self.wire {
            Wire::Sim => return [1, 2].map(|_| format!("sim:lan-{number}")),
            Wire::Lending => "driver=native",
            #[cfg(feature = "dpdk")]
            Wire::Memif => "driver=dpdk,hugepages=off",
        };
        let name = format!("srnic-lan-{}-{number}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name).display().to_string();
        ["server", "client"].map(|role| format!("memif:{socket},role={role},{key}"))
    }
}
