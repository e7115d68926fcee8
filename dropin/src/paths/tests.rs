use super::calls::{srnic_path_entry, srnic_path_open, srnic_path_real, srnic_path_stat};
use super::*;
use crate::config::parse;
use core::ffi::CStr;
use core::ptr::null_mut;
use std::io::Read as _;

fn devices() -> Vec<Device> {
    let configs = ["sim:here,ip=10.77.0.9; speed=40", "sim:there"].into_iter().enumerate();
    let parsed =
        configs.map(|(index, text)| parse(&format!("srnic{index}"), text).map(|config| (config, index)));
    parsed.map(|config| config.map(|(config, index)| Device::new(config, index)).expect("a device")).collect()
}

fn text(path: &str) -> String {
    match find_among(&devices(), &plain(path)) {
        Ok(Node::Text(text)) => text,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn each_device_has_its_files() {
    assert_eq!(text("/sys/class/infiniband/srnic0/ports/1/rate"), "40 Gb/sec\n");
    assert_eq!(
        text("/sys/class/infiniband/srnic0/ports/1/gids/0"),
        "0000:0000:0000:0000:0000:ffff:0a4d:0009\n"
    );
    assert_eq!(text("/sys/class/infiniband_verbs/uverbs1/ibdev"), "srnic1\n");
    assert_eq!(text("/sys//class/./infiniband_verbs/uverbs1/../uverbs0/dev"), "231:192\n");
    let found = find_among(&devices(), "/dev/infiniband/uverbs1");
    assert_eq!(found, Ok(Node::Character(193)));
    // A device that gets its address when it opens has no GID before.
    for path in
        ["/sys/class/infiniband/srnic1/ports/1/gids/0", "/dev/infiniband/uverbs2", "/dev/infiniban", "/"]
    {
        let found = find_among(&devices(), path);
        assert!(path == "/" || found == Err(Errno::NO_ENTRY), "{path}: {found:?}");
    }
}

#[test]
fn directories_list_what_is_in_them_once() {
    let names = |path| match find_among(&devices(), path) {
        Ok(Node::Directory(names)) => names,
        other => panic!("{path}: {other:?}"),
    };
    assert_eq!(names("/sys/class/infiniband"), ["srnic0", "srnic1"]);
    assert_eq!(names("/dev/infiniband"), ["uverbs0", "uverbs1", "rdma_cm"]);
    assert_eq!(names("/sys/class/infiniband/srnic1/ports/1/gid_attrs"), ["types", "ndevs"]);
}

#[test]
fn what_the_preload_asks_is_answered_in_the_words_of_c() {
    let version = c"/sys/class/infiniband_verbs/abi_version";
    // SAFETY: all pointers are valid, or NULL.
    unsafe {
        let mut status: libc::stat = core::mem::zeroed();
        assert_eq!(srnic_path_stat(version.as_ptr(), &raw mut status), 0);
        assert_eq!((status.st_mode, status.st_size), (libc::S_IFREG | 0o444, 2));
        let file = status.st_ino;
        assert_eq!(srnic_path_stat(c"/sys/class/infiniband_verbs".as_ptr(), &raw mut status), 0);
        let directory = status.st_ino;
        assert_eq!(srnic_path_stat(c"/sys/class/infiniband_verbs/.".as_ptr(), &raw mut status), 0);
        assert!(status.st_ino == directory && directory != file);
        let fd = srnic_path_open(version.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        assert!(fd >= 0);
        let mut said = String::new();
        File::from_raw_fd(fd).read_to_string(&mut said).expect("a file");
        assert_eq!(said, "6\n");
        assert_eq!(srnic_path_open(version.as_ptr(), libc::O_RDWR), -libc::EACCES);
        let directory = c"/sys/class/./infiniband_verbs/";
        assert_eq!(srnic_path_open(directory.as_ptr(), libc::O_RDONLY), -libc::EOPNOTSUPP);
        let mut entry: libc::dirent = core::mem::zeroed();
        assert_eq!(srnic_path_entry(directory.as_ptr(), 2, &raw mut entry), 1);
        assert_eq!(CStr::from_ptr(entry.d_name.as_ptr()), c"abi_version");
        assert_eq!(srnic_path_entry(directory.as_ptr(), 3, &raw mut entry), 0);
        assert_eq!(srnic_path_entry(version.as_ptr(), 0, &raw mut entry), -libc::ENOTDIR);
        let mut real = [0; libc::PATH_MAX as usize];
        assert_eq!(srnic_path_real(directory.as_ptr(), &raw mut real), 0);
        assert_eq!(CStr::from_ptr(real.as_ptr()), c"/sys/class/infiniband_verbs");
        assert_eq!(srnic_path_open(c"/dev/infiniband/uverbs7".as_ptr(), libc::O_RDWR), -libc::ENOENT);
        assert_eq!(srnic_path_open(core::ptr::null(), 0), -libc::EINVAL);
        assert_eq!(srnic_path_stat(version.as_ptr(), null_mut()), -libc::EINVAL);
    }
}
