//! Rate of RDMA atomics between two processes.

fn main() -> std::process::ExitCode {
    srnic_tools::perf::bandwidth::atomic_main()
}
