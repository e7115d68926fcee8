use super::*;
use crate::work_request::RemoteAddr;
use std::path::{Path, PathBuf};

fn domain() -> ProtectionDomain {
    Device::open("sim:memory-tests").expect("a device").alloc_pd()
}

fn region(len: usize) -> MemoryRegion {
    domain().register(len, Access::LOCAL_WRITE).expect("memory")
}

/// A file that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("verbs-{name}-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn copies_stay_inside() {
    let region = region(100);
    region.write(90, &[7; 10]).expect("the last bytes");
    let mut found = [0; 12];
    region.read(88, &mut found).expect("the last bytes");
    assert_eq!(found, [0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
    for (offset, len) in [(91, 10), (101, 0), (usize::MAX, 1), (0, 101)] {
        let mut bytes = vec![1; len];
        assert!(matches!(region.read(offset, &mut bytes), Err(Error::OutOfBounds { len: 100, .. })));
        assert!(matches!(region.write(offset, &bytes), Err(Error::OutOfBounds { len: 100, .. })));
        assert!(bytes.iter().all(|byte| *byte == 1), "nothing was copied");
    }
    region.read(100, &mut []).expect("no bytes at the end are inside");
}

#[test]
fn slices_are_ranges_of_the_region() {
    let region = region(100);
    let sge = region.slice(10..30).expect("inside");
    assert_eq!((sge.addr, sge.length, sge.lkey), (region.addr() + 10, 20, region.lkey()));
    assert_eq!(region.slice(..).expect("all").length, 100);
    assert_eq!(region.slice(5..=9).expect("inside").length, 5);
    assert_eq!(region.slice(100..).expect("empty").length, 0);
    for range in [90..101, 101..101, 7..usize::MAX] {
        assert!(matches!(region.slice(range), Err(Error::OutOfBounds { .. })));
    }
    #[expect(clippy::reversed_empty_ranges, reason = "that is the point")]
    let reversed = region.slice(30..10);
    assert!(matches!(reversed, Err(Error::OutOfBounds { start: 30, end: 10, len: 100 })));
    assert!(region.slice(..=usize::MAX).is_err());
}

#[test]
fn words_are_loaded_aligned_only() {
    let region = region(20);
    region.write(8, &0x1122_3344_5566_7788_u64.to_ne_bytes()).expect("inside");
    assert_eq!(region.load_acquire_u64(8).expect("aligned"), 0x1122_3344_5566_7788);
    assert!(matches!(region.load_acquire_u64(4), Err(Error::Misaligned { offset: 4, align: 8 })));
    assert!(matches!(region.load_acquire_u64(16), Err(Error::OutOfBounds { .. })));
    assert!(matches!(region.load_acquire_u64(usize::MAX), Err(Error::OutOfBounds { .. })));
}

#[test]
fn a_file_is_read_where_it_is_and_never_written() {
    let file = Scratch::new("read");
    std::fs::write(&file.0, b"content").expect("written");
    let backing = FileBacking::open(&file.0).expect("mapped");
    let region = domain().register_file(backing, Access::LOCAL_WRITE).expect("registered");
    let mut found = [0; 7];
    region.read(0, &mut found).expect("inside");
    assert_eq!(&found, b"content");
    region.write(0, b"CONTENT").expect("inside");
    drop(region);
    assert_eq!(std::fs::read(&file.0).expect("read"), b"content");
}

#[test]
fn a_new_file_is_what_was_written_to_the_region() {
    let file = Scratch::new("create");
    std::fs::write(&file.0, b"something longer was here").expect("written");
    let backing = FileBacking::create(&file.0, 10).expect("mapped");
    let region = domain().register_file(backing, Access::LOCAL_WRITE).expect("registered");
    region.write(3, b"abc").expect("inside");
    drop(region);
    assert_eq!(std::fs::read(&file.0).expect("read"), b"\0\0\0abc\0\0\0\0");
}

#[test]
fn a_shared_file_has_what_was_written_to_the_region() {
    let file = Scratch::new("shared");
    std::fs::write(&file.0, b"what was there").expect("written");
    let backing = FileBacking::open_shared(&file.0).expect("mapped");
    let region = domain().register_file(backing.clone(), Access::LOCAL_WRITE).expect("registered");
    region.write(5, b"IS").expect("inside");
    assert_eq!(std::fs::read(&file.0).expect("read"), b"what ISs there", "while it is mapped, too");
    backing.sync(..).expect("on the disk");
    backing.sync(13..14).expect("no page begins there");
    for range in [0..15, 15..15, usize::MAX..usize::MAX] {
        assert!(matches!(backing.sync(range), Err(Error::OutOfBounds { len: 14, .. })));
    }
    drop((region, backing));
    let again = FileBacking::open_shared(&file.0).expect("mapped");
    let region = domain().register_file(again, Access::LOCAL_WRITE).expect("registered");
    let mut found = [0; 14];
    region.read(0, &mut found).expect("inside");
    assert_eq!(&found, b"what ISs there");
    let error = FileBacking::open(&file.0).expect("mapped").sync(..).expect_err("nothing reaches the file");
    assert_eq!(
        error.to_string(),
        format!(
            "cannot sync {}: it was opened only to be read; take FileBacking::open_shared",
            file.0.display()
        )
    );
}

/// Bytes of a mapped file that are in this process's memory.
fn resident(path: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
    let (_, of_file) = maps.split_once(path.to_str().expect("a path of ours")).expect("it is mapped");
    let rss = of_file.lines().find_map(|line| line.strip_prefix("Rss:")).expect("a line of each");
    1024 * rss.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
}

#[test]
fn pages_are_there_before_they_are_touched() {
    const LEN: usize = 1 << 20;
    let file = Scratch::new("populate");
    let created = FileBacking::create(&file.0, LEN as u64).expect("mapped");
    assert_eq!(resident(&file.0), 0);
    created.populate(..LEN / 4).expect("there is memory");
    assert_eq!(resident(&file.0), LEN / 4);
    assert!(matches!(created.populate(..=LEN), Err(Error::OutOfBounds { .. })));
    drop(created);
    let read = FileBacking::open(&file.0).expect("mapped");
    read.populate(..).expect("there is memory");
    assert_eq!(resident(&file.0), LEN);
    // Here who shortens the file is noticed in time.
    std::fs::write(&file.0, b"short").expect("written");
    let error = read.populate(LEN / 2..).expect_err("it is gone").to_string();
    assert!(error.starts_with(&format!("cannot populate {}: ", file.0.display())), "{error}");
}

#[test]
fn a_file_that_cannot_be_mapped_is_named() {
    let file = Scratch::new("empty");
    let path = file.0.display();
    let opens = [|path: &Path| FileBacking::open(path), |path: &Path| FileBacking::open_shared(path)];
    let refused = |path: &Path| opens.map(|open| open(path).err().expect("refused").to_string());
    for error in refused(&file.0) {
        assert!(error.starts_with(&format!("cannot open {path}: No such file")), "{error}");
    }
    std::fs::write(&file.0, b"").expect("written");
    assert_eq!(refused(&file.0), [(); 2].map(|()| format!("cannot map {path}: it is empty")));
    let error = FileBacking::create(&file.0, u64::MAX).err().expect("too much").to_string();
    assert!(error.starts_with(&format!("cannot make room for {path}: ")), "{error}");
    let [read, shared] = refused(&std::env::temp_dir());
    assert!(
        read.ends_with(": it is no regular file") && shared.contains(": Is a directory"),
        "{read}, {shared}"
    );

    // Nobody writes to this pipe, and nobody waits for it.
    let pipe = Scratch::new("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe.0, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let no_file = format!("cannot map {}: it is no regular file", pipe.0.display());
    assert_eq!(refused(&pipe.0), [no_file.clone(), no_file]);
}

/// Even root may not write to a program that runs.
#[test]
fn a_file_that_may_only_be_read_is_not_shared() {
    let program = std::env::current_exe().expect("we run");
    let error = FileBacking::open_shared(&program).err().expect("refused").to_string();
    assert!(error.starts_with(&format!("cannot open {}: ", program.display())), "{error}");
    FileBacking::open(&program).expect("it may be read");
}

#[test]
fn a_remote_region_travels_as_text() {
    let remote = RemoteRegion { addr: 0x7F00_0000_1000, len: 4096, rkey: 0x0000_0301 };
    let text = "addr=0x7f0000001000,len=4096,rkey=0x00000301";
    assert_eq!(remote.to_string(), text);
    assert_eq!(text.parse(), Ok(remote));
    assert_eq!(remote.at(16), RemoteAddr { addr: 0x7F00_0000_1010, rkey: 0x301 });
    for wrong in
        ["", "addr=0x1,len=1", "addr=1,len=1,rkey=0x1", "addr=0x1,len=-1,rkey=0x1", "len=1,addr=0x1,rkey=0x1"]
    {
        assert!(wrong.parse::<RemoteRegion>().is_err(), "{wrong}");
    }
    assert!(format!("{text},more=1").parse::<RemoteRegion>().is_err());
    assert!(text.replace("00000301", "100000000").parse::<RemoteRegion>().is_err());
}

#[test]
fn a_remote_region_travels_as_bytes() {
    for (addr, len, rkey) in [(0, 0, 0), (u64::MAX, u64::MAX, u32::MAX), (0x7F00_0000_1000, 4096, 0x0100)] {
        let remote = RemoteRegion { addr, len, rkey };
        let bytes = remote.to_bytes();
        assert!(bytes.len() <= 24, "beside it private data have room for 32 bytes of the program's");
        assert_eq!(RemoteRegion::from_bytes(&bytes), Ok(remote));
        // Private data come without the zeros at their end.
        assert_ne!(bytes.last(), Some(&0));
    }
    let bytes = RemoteRegion { addr: 1, len: 2, rkey: 3 }.to_bytes();
    for wrong in [&bytes[..20], &[&bytes[..], &[1]].concat(), &[]] {
        assert_eq!(RemoteRegion::from_bytes(wrong), Err(RemoteRegionError::Length { given: wrong.len() }));
    }
    let newer = [&bytes[..20], &[2]].concat();
    let error = RemoteRegion::from_bytes(&newer).expect_err("another version");
    assert_eq!(
        error.to_string(),
        "this is no remote region of version 1, it ends in 2; is the peer of another version?"
    );
}

#[test]
fn every_width_is_loaded_stored_and_added_in_place() {
    let region = region(24);
    region.store_release_u64(8, 0x1122_3344_5566_7788).expect("aligned");
    assert_eq!(region.fetch_add_u64(8, 1).expect("aligned"), 0x1122_3344_5566_7788);
    assert_eq!(region.load_acquire_u64(8).expect("aligned"), 0x1122_3344_5566_7789);
    let before = region.compare_and_swap_u64(8, 0, 1).expect("aligned");
    assert_eq!(before, 0x1122_3344_5566_7789, "which is not what was compared with");
    assert_eq!(region.compare_and_swap_u64(8, before, 5).expect("aligned"), before);
    assert_eq!(region.compare_and_swap_u64(8, 5, before).expect("aligned"), 5);
    assert!(matches!(region.compare_and_swap_u64(4, 0, 0), Err(Error::Misaligned { offset: 4, align: 8 })));
    assert!(matches!(region.compare_and_swap_u64(24, 0, 0), Err(Error::OutOfBounds { .. })));
    region.store_release_u32(8, 7).expect("aligned");
    region.store_release_u8(23, 9).expect("inside");
    let mut bytes = [0; 24];
    region.read(0, &mut bytes).expect("inside");
    let mut expected = [0; 24];
    expected[8..16].copy_from_slice(&0x1122_3344_5566_7789_u64.to_ne_bytes());
    expected[8..12].copy_from_slice(&7_u32.to_ne_bytes());
    expected[23] = 9;
    assert_eq!(bytes, expected);
    assert_eq!(region.load_acquire_u32(8).expect("aligned"), 7);
    assert_eq!(region.load_acquire_u8(23).expect("inside"), 9);
    assert!(matches!(region.load_acquire_u32(6), Err(Error::Misaligned { offset: 6, align: 4 })));
    assert!(matches!(region.store_release_u64(17, 0), Err(Error::OutOfBounds { .. })));
    assert!(matches!(region.store_release_u8(24, 0), Err(Error::OutOfBounds { .. })));
    assert!(matches!(region.fetch_add_u64(usize::MAX, 0), Err(Error::OutOfBounds { .. })));
}

#[test]
fn huge_memory_is_had_or_refused_by_policy() {
    let preferred = HugeBacking::new(5 << 20, HugepagePolicy::Prefer).expect("ordinary pages at least");
    assert_eq!(preferred.len(), 5 << 20);
    match HugeBacking::new(5 << 20, HugepagePolicy::Require) {
        Ok(huge) => assert!(huge.is_huge() && huge.base().as_ptr().addr().is_multiple_of(2 << 20)),
        Err(error) => {
            assert!(!preferred.is_huge(), "there were three, and now there are none");
            assert!(error.to_string().starts_with("no hugepages for a region of 5242880 bytes: "), "{error}");
        }
    }
    let error = HugeBacking::new(usize::MAX, HugepagePolicy::Prefer).err().expect("too much");
    assert!(matches!(error, Error::Hugepages { len: usize::MAX, .. }), "{error}");
    let region = domain().register_huge(100, HugepagePolicy::Prefer, Access::LOCAL_WRITE).expect("memory");
    assert_eq!(region.len(), 100, "and no more is registered");
    region.write(90, &[1; 10]).expect("inside");
    assert!(matches!(region.write(90, &[1; 11]), Err(Error::OutOfBounds { .. })));
}
