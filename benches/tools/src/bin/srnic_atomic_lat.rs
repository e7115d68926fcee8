//! Latency of RDMA atomics between two processes.

fn main() -> std::process::ExitCode {
    srnic_tools::perf::fetch::atomic_main()
}
