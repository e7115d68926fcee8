//! Latency of SENDs between two processes.

fn main() -> std::process::ExitCode {
    srnic_benches::perf::latency::send_main()
}
