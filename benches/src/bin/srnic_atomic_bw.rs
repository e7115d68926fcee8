//! Rate of RDMA atomics between two processes.

fn main() -> std::process::ExitCode {
    srnic_benches::perf::bandwidth::atomic_main()
}
