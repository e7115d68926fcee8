//! Bandwidth of SENDs between two processes.

fn main() -> std::process::ExitCode {
    srnic_tools::perf::bandwidth::send_main()
}
