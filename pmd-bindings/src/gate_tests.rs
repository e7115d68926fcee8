use super::*;

#[cfg(not(loom))]
mod threads {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::Gate;

    /// Something that only one may change, and that tears when two do.
    struct Guarded(std::cell::UnsafeCell<[u64; 2]>);
    // SAFETY: the gate under test is what makes it so.
    unsafe impl Sync for Guarded {}

    #[test]
    fn a_closed_gate_lets_nobody_in() {
        let gate = Gate::<2>::closed();
        assert!(gate.try_pass(0).is_none());
        gate.open();
        let first = gate.try_pass(0).expect("open");
        let second = gate.try_pass(1).expect("each has a place");
        drop((first, second));
        gate.close();
        assert!(gate.try_pass(1).is_none());
    }

    fn nobody_sees_a_torn_value(gate: &Gate<2>) {
        let value = Guarded(std::cell::UnsafeCell::new([0, 0]));
        let done = AtomicBool::new(false);
        gate.open();
        thread::scope(|scope| {
            for index in 0..2 {
                let (value, done) = (&value, &done);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let Some(_pass) = gate.try_pass(index) else { continue };
                        // SAFETY: the excluder writes only while the gate is closed and empty.
                        let [a, b] = unsafe { value.0.get().read_volatile() };
                        assert_eq!(a, b);
                    }
                });
            }
            for _ in 0..20_000 {
                gate.close();
                // SAFETY: closed, and nobody is inside.
                unsafe {
                    let both = value.0.get().cast::<u64>();
                    both.write_volatile(both.read_volatile() + 1);
                    both.add(1).write_volatile(both.add(1).read_volatile() + 1);
                }
                gate.open();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(value.0.into_inner(), [20_000; 2]);
    }

    #[test]
    fn excludes_with_the_kernels_barrier() {
        let gate = Gate::closed();
        assert!(gate.asymmetric, "this kernel has membarrier");
        nobody_sees_a_torn_value(&gate);
    }

    #[test]
    fn excludes_with_fences() {
        nobody_sees_a_torn_value(&Gate { asymmetric: false, ..Gate::closed() });
    }
}

/// Every interleaving of two rounds of the excluder with a poller; `RUSTFLAGS="--cfg loom" cargo
/// test -p pmd-bindings --lib --release gate`. Loom checks the form with fences; that
/// `membarrier(2)` is as good as a fence on every core is the kernel's promise.
#[cfg(loom)]
mod model {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::Gate;

    struct Shared {
        gate: Gate<1>,
        rings: UnsafeCell<u32>,
    }

    // SAFETY: the gate under test is what makes it so, and loom's cell tells if not.
    unsafe impl Sync for Shared {}
    // SAFETY: plain data.
    unsafe impl Send for Shared {}

    #[test]
    fn gate_excludes_and_publishes() {
        loom::model(|| {
            let shared = Arc::new(Shared { gate: Gate::closed(), rings: UnsafeCell::new(0) });
            shared.gate.open();
            let poller = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    for _ in 0..2 {
                        if let Some(_pass) = shared.gate.try_pass(0) {
                            shared.rings.with(|rings| {
                                // SAFETY: inside the gate.
                                unsafe { rings.read_volatile() }
                            });
                        }
                    }
                })
            };
            shared.gate.close();
            shared.rings.with_mut(|rings| {
                // SAFETY: the gate is closed and empty.
                unsafe { *rings += 1 }
            });
            shared.gate.open();
            poller.join().expect("the poller ends");
        });
    }
}
