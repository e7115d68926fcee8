//! What cannot be awaited is refused at once.

use verbs_api::{Access, AsyncQueuePair, BufferPool, Completions, Device, Driver, Error};

#[test]
fn a_queue_pair_that_completes_elsewhere_is_refused() {
    let device = Device::builder().driver(Driver::THREAD).open("sim:async-elsewhere").expect("a device");
    let pd = device.alloc_pd();
    let [completions, others] = [0, 1].map(|_| Completions::new(&device, 16).expect("a queue"));
    let prepared = others.queue_pair(&pd).build().expect("a queue pair");
    let itself = prepared.endpoint();
    let pair = prepared.connect(&itself).expect("connected to itself");
    let error = AsyncQueuePair::new(&completions, pair).err().expect("refused");
    assert!(matches!(error, Error::ForeignQueuePair), "{error}");
}

#[test]
fn a_device_that_nobody_drives_is_refused() {
    let device = Device::open("sim:async-inline").expect("a device");
    let error = Completions::new(&device, 16).err().expect("it would wait for ever").to_string();
    assert!(error.contains("Driver::THREAD"), "{error}");
    let memory = device.alloc_pd().register(10, Access::empty()).expect("memory");
    assert!(BufferPool::new(memory.clone(), 11).is_err() && BufferPool::new(memory.clone(), 0).is_err());
    let mut buffer = BufferPool::new(memory, 10).expect("one fits").take().expect("free");
    assert!(buffer.set(&[0; 11]).is_err() && buffer.resize(11).is_err() && buffer.is_empty());
}
