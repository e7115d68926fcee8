//! Tenants of a device, as a program makes them.

#[path = "support/host.rs"]
mod host;
#[path = "support/join.rs"]
mod join;
mod support;

use host::{Host, REMOTE, complete};
use join::join;
use std::time::{Duration, Instant};
use support::devices;
use verbs_api::{
    CreateError, Device, Driver, Error, RegisterError, SchedulerConfig, SendData, SendRequest, StatAddress,
    TenantAttr, TenantCaps, TenantClass, TenantId, TenantQuota, WcStatus,
};

fn of(quota: TenantQuota) -> TenantAttr {
    TenantAttr { quota, ..TenantAttr::default() }
}

#[test]
fn each_quota_is_an_error_of_its_own_and_what_goes_makes_room() {
    let device = Device::open("sim:quotas").expect("a device");
    let quota = TenantQuota {
        queue_pairs: Some(1),
        completion_queues: Some(2),
        memory_regions: Some(2),
        memory_bytes: Some(10_000),
    };
    let tenant = device.create_tenant(of(quota)).expect("a tenant");
    let (pd, cq) = (tenant.alloc_pd().expect("a domain"), tenant.create_cq(16).expect("a queue"));
    let second = tenant.create_cq(16).expect("a queue");
    let third = tenant.create_cq(16);
    assert!(
        matches!(third, Err(Error::Create(CreateError::Quota { what: "completion queues", quota: 2 }))),
        "two"
    );
    drop(second);
    tenant.create_cq(16).expect("there is room again");

    let first = pd.queue_pair(&cq, &cq).build().expect("a queue pair");
    let refused = pd.queue_pair(&cq, &cq).build();
    assert!(matches!(refused, Err(Error::Create(CreateError::Quota { what: "queue pairs", quota: 1 }))));
    drop(first);
    let first = pd.queue_pair(&cq, &cq).build().expect("there is room again");

    let large = pd.register(8_000, REMOTE).expect("memory");
    let bytes = pd.register(4_000, REMOTE);
    assert!(matches!(
        bytes,
        Err(Error::Register(RegisterError::Quota { what: "bytes of memory", quota: 10_000 }))
    ));
    let small = pd.register(1_000, REMOTE).expect("memory");
    let regions = pd.register(10, REMOTE);
    assert!(matches!(
        regions,
        Err(Error::Register(RegisterError::Quota { what: "memory regions", quota: 2 }))
    ));
    let report = tenant.report().expect("it exists");
    assert_eq!((report.queue_pairs, report.completion_queues), (1, 1));
    assert_eq!((report.memory_regions, report.memory_bytes), (2, 9_000));
    drop((large, small));
    pd.register(10_000, REMOTE).expect("there is room again");

    // Who is not of that tenant has what the device has.
    let (own, own_cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
    own.register(20_000, REMOTE).expect("memory");
    let pairs: Vec<_> =
        (0..3).map(|_| own.queue_pair(&own_cq, &own_cq).build().expect("a queue pair")).collect();
    let reports = device.tenants();
    assert_eq!(reports.iter().map(|report| report.queue_pairs).collect::<Vec<_>>(), [3, 1]);
    drop((pairs, first));
}

/// Calls above the cap wait, and nothing is refused.
#[test]
fn who_calls_too_often_waits() {
    let device = Device::open("sim:calls").expect("a device");
    let attr = TenantAttr { control_per_s: 1_000, ..TenantAttr::default() };
    let tenant = device.create_tenant(attr).expect("a tenant");
    let (pd, start) = (tenant.alloc_pd().expect("a domain"), Instant::now());
    let cq = tenant.create_cq(16).expect("a queue");
    for _ in 0..20 {
        pd.register(64, REMOTE).expect("memory");
        // One to make it, and one to begin its connection.
        pd.queue_pair(&cq, &cq).build().expect("a queue pair");
    }
    // 32 were saved, and the others come a millisecond apart.
    assert!(start.elapsed() >= Duration::from_millis(61 - 34), "{:?}", start.elapsed());
    let counters = tenant.report().expect("it exists").counters;
    assert_eq!(counters.control_calls, 61);
    assert!(counters.control_waits > 0);
    let others = device.tenants()[0].counters;
    assert_eq!((others.control_calls, others.control_waits), (0, 0));
}

#[test]
fn a_tenant_ends_with_the_last_that_needs_it() {
    let device = Device::open("sim:ends").expect("a device");
    let count = || device.tenants().len();
    assert_eq!(count(), 0, "none was ever created");
    let tenant = device.create_tenant(TenantAttr::default()).expect("a tenant");
    let id = tenant.id();
    let (pd, cq) = (tenant.alloc_pd().expect("a domain"), device.create_cq(16).expect("a queue"));
    drop(tenant);
    assert_eq!(count(), 2, "its protection domain is there");
    let pair = pd.queue_pair(&cq, &cq).build().expect("a queue pair");
    drop(pd);
    assert_eq!(device.tenants()[1].queue_pairs, 1, "its queue pair is there");
    drop(pair);
    assert_eq!(count(), 1);
    let next = device.create_tenant(TenantAttr::default()).expect("a tenant");
    assert_eq!((next.id(), next.report().expect("it exists").queue_pairs), (id, 0));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let device = Device::open("sim:sense").expect("a device");
    let refused = |attr| match device.create_tenant(attr) {
        Err(Error::Create(error)) => error.to_string(),
        other => panic!("{:?}", other.map(|tenant| tenant.id())),
    };
    let weight = refused(TenantAttr { weight: 0, ..TenantAttr::default() });
    assert_eq!(weight, "weight is 0; it must be between 1 and 256");
    let tx = TenantCaps { bytes_per_s: 5, operations_per_s: 0 };
    let cap = refused(TenantAttr { tx, ..TenantAttr::default() });
    assert_eq!(cap, "tx.bytes_per_s is 5; it must be 0, for no cap, or at least 1000000");
    let of_default = |attr| match device.set_default_tenant(attr) {
        Err(Error::Create(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(device.tenants().is_empty());
    assert_eq!(of_default(TenantAttr::default()), CreateError::NoTenants);
    let tenant = device.create_tenant(TenantAttr::default()).expect("a tenant");
    let quota = TenantQuota { queue_pairs: Some(1), ..TenantQuota::default() };
    assert_eq!(of_default(TenantAttr { quota, ..TenantAttr::default() }), CreateError::DefaultQuota);
    let attr = TenantAttr { weight: 7, ..TenantAttr::default() };
    device.set_default_tenant(attr).expect("without a quota");
    assert_eq!(device.tenants()[0].attr, attr);
    drop(tenant);
    let weighted =
        Device::builder().scheduler(SchedulerConfig::Weighted).open("sim:weighted").expect("a device");
    let other = weighted.create_tenant(TenantAttr::default());
    assert!(matches!(other, Err(Error::Create(CreateError::OtherScheduler))));
}

#[test]
fn counters_and_metrics_tell_tenants_apart() {
    let path = std::env::temp_dir().join(format!("srnic-tenants-{}", std::process::id()));
    let (device, other) = devices(Driver::Inline, "");
    let (mut one, two) = (Host::new(device.clone()), Host::new(other));
    let attr = TenantAttr { weight: 3, class: TenantClass::Latency, ..TenantAttr::default() };
    let tenant = device.create_tenant(attr).expect("a tenant");
    one.pd = tenant.alloc_pd().expect("a domain");
    let pair =
        |host: &Host| host.pd.queue_pair(&host.cq, &host.cq).timeout(18).build().expect("a queue pair");
    let [mut here, _there] = join([pair(&one), pair(&two)]);
    let target = two.region(4096);
    for _ in 0..5 {
        let write = SendRequest::write(SendData::Inline(b"hello"), target.remote().at(0)).signaled();
        here.post_send(&write).expect("room");
        assert_eq!(complete(&mut one, &two).status, WcStatus::Success);
    }
    let reports = device.tenants();
    let (default, ours) = (&reports[0], &reports[1]);
    assert_eq!((default.id, default.counters.tx_packets), (TenantId::DEFAULT, 0));
    assert_eq!((ours.counters.tx_operations, ours.attr.weight), (5, 3));
    assert!(ours.counters.tx_packets >= 5 && ours.counters.tx_bytes >= 25, "{ours:?}");

    let told = Device::open(&format!("sim:told,stat={}", path.display())).expect("a device");
    let told_tenant = told.create_tenant(attr).expect("a tenant");
    let text = StatAddress::Unix(path).read().expect("an answer");
    let number = told_tenant.id().0;
    for line in [
        format!("srnic_tenant_info{{tenant=\"{number}\",class=\"latency\"}} 1"),
        format!("srnic_tenant_weight{{tenant=\"{number}\"}} 3.0"),
        format!("srnic_tenant_tx_bytes_total{{tenant=\"{number}\"}} 0"),
        "srnic_tenant_info{tenant=\"0\",class=\"normal\"} 1".to_owned(),
    ] {
        assert!(text.lines().any(|told| told == line), "{line} in {text}");
    }
}
