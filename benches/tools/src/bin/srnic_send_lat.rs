//! Latency of SENDs between two processes.

fn main() -> std::process::ExitCode {
    srnic_tools::perf::latency::send_main()
}
