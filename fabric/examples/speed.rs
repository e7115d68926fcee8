//! How many packets a second a core simulates:
//! `speed HOSTS MICROSECONDS SECONDS_MAX SCHEME THREADS`.

use srnic_fabric::plan::Plan;
use srnic_fabric::scheme::Scheme;
use srnic_fabric::topology::FatTree;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let hosts: u32 = args.next().unwrap_or("64".into()).parse()?;
    let micros: u64 = args.next().unwrap_or("200".into()).parse()?;
    let seconds_max = args.next().unwrap_or("20".into()).parse::<u64>()?;
    let scheme = Scheme::of_name(&args.next().unwrap_or("srnic".into())).ok_or("no such scheme")?;
    let threads: usize = args.next().unwrap_or("1".into()).parse()?;
    let tree = FatTree::of_hosts(hosts).ok_or("16, 64, 256, 1024 or 4096 hosts")?;
    let time = srnic_fabric::clock::Ps::from_ns(micros * 1000);
    let plan = Plan { time, ..Plan::new(scheme, tree) };
    let begun = Instant::now();
    let mut fabric = plan.fabric(plan.config(), threads)?;
    println!("made in {:.1} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let cpu_before = cpu();
    let rates = plan.play(&mut fabric, |_| begun.elapsed().as_secs() < seconds_max)?;
    let (seconds, wall) = (cpu() - cpu_before, begun.elapsed().as_secs_f64());
    let frames: u64 = fabric.hosts().map(|host| host.frames().0).sum();
    let bytes: u64 = fabric.links()[..hosts as usize].iter().map(|link| link.bytes).sum();
    println!(
        "{} us in {wall:.1} s, {seconds:.1} s of a core: {frames} frames, {:.3} M/s full-sized, {:.2} M events/s, {:.1} frames a turn",
        fabric.now().0 / 1_000_000,
        bytes as f64 / 1100.0 / seconds / 1e6,
        fabric.events() as f64 / seconds / 1e6,
        frames as f64 / fabric.turns() as f64,
    );
    println!("{:?}", plan.sum_up(&fabric, &rates));
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
