//! Bandwidth of a TCP connection of the kernel's between two processes.

fn main() -> std::process::ExitCode {
    srnic_tools::perf::tcp::bandwidth_main()
}
