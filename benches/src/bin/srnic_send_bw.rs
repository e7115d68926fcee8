//! Bandwidth of SENDs between two processes.

fn main() -> std::process::ExitCode {
    srnic_benches::perf::bandwidth::send_main()
}
