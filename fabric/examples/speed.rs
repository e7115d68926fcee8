//! How many packets a second one core simulates.

use srnic_fabric::clock::Ps;
use srnic_fabric::fabric::{Config, Fabric};
use srnic_fabric::host::HostConfig;
use srnic_fabric::switch::SwitchConfig;
use srnic_fabric::topology::FatTree;
use srnic_fabric::workload::{Poisson, Sizes};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let hosts: u32 = args.next().unwrap_or("64".into()).parse()?;
    let micros: u64 = args.next().unwrap_or("200".into()).parse()?;
    let tree = FatTree::of_hosts(hosts).ok_or("16, 64, 256, 1024 or 4096 hosts")?;
    let sizes = Sizes::CACHE_FOLLOWER;
    let config = Config {
        tree,
        host: HostConfig::default(),
        switch: SwitchConfig::DEFAULT,
        flow_max: sizes.largest(),
        seed: 1,
    };
    let until = Ps::from_ns(micros * 1000);
    let begun = Instant::now();
    let mut fabric = Fabric::new(config, |host| {
        let flows = Poisson::new(1, (host, hosts), sizes, 0.7, tree.host_ps_per_byte);
        Box::new(flows.take_while(move |flow| flow.at < until))
    })?;
    println!("made in {:.1} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let cpu_before = cpu();
    let seconds_max = args.next().unwrap_or("20".into()).parse::<u64>()?;
    let step = Ps::from_ns(20_000);
    let mut end = step;
    while fabric.run(end)? && begun.elapsed().as_secs() < seconds_max {
        end = end + step;
    }
    let seconds = cpu() - cpu_before;
    let sum = |of: fn(&datapath::port::PortStats) -> u64| -> u64 {
        fabric.hosts().iter().map(|host| of(&datapath::port::Port::stats(host.engine.port()))).sum()
    };
    let (bytes, frames) = (sum(|stats| stats.tx_bytes), sum(|stats| stats.tx_frames));
    println!(
        "{} us in {seconds:.1} s of a core: {} flows, {} unfinished, {frames} frames, {:.3} M/s full-sized, {:.2} M events/s, {:.1} frames a turn, {:?}",
        fabric.now().0 / 1_000_000,
        fabric.flows.len(),
        fabric.unfinished(),
        bytes as f64 / 1100.0 / seconds / 1e6,
        fabric.events as f64 / seconds / 1e6,
        frames as f64 / fabric.turns as f64,
        fabric.switch_stats(),
    );
    let failed = fabric.flows.iter().filter(|flow| flow.failed.is_some()).count();
    println!("{failed} failed, {} unfinished, hash {:016x}", fabric.unfinished(), fabric.hash());
    for line in std::fs::read_to_string("/proc/self/status")?.lines().filter(|line| line.starts_with("VmHWM"))
    {
        println!("{line}");
    }
    Ok(())
}

/// Seconds of a processor that this process has had.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
