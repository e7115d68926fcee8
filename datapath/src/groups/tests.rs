use super::{Full, Groups};
use crate::tuning::{GROUP_MEMBERS, GROUPS};
use core::net::{IpAddr, Ipv4Addr};

fn group(number: usize) -> IpAddr {
    let [.., a, b] = number.to_be_bytes();
    Ipv4Addr::new(239, 1, a, b).into()
}

fn members(groups: &Groups, ip: IpAddr) -> Vec<u32> {
    (0..).map_while(|index| groups.member(ip, index)).collect()
}

#[test]
fn who_joins_twice_is_a_member_once_and_leaves_once() {
    let mut groups = Groups::new(false);
    let new = [7, 3, 7].map(|slot| groups.join(group(1), slot).expect("there is room"));
    assert_eq!(new, [true, true, false]);
    assert_eq!(members(&groups, group(1)), [7, 3]);
    assert!(groups.leave(group(1), 7) && !groups.leave(group(1), 7) && !groups.leave(group(2), 3));
    assert_eq!((members(&groups, group(1)), groups.has(7), groups.has(3)), (vec![3], false, true));
}

#[test]
fn a_queue_pair_that_ends_is_a_member_of_nothing() {
    let mut groups = Groups::new(false);
    for (number, slot) in [(5, 1), (2, 1), (9, 1), (2, 4)] {
        groups.join(group(number), slot).expect("there is room");
    }
    assert_eq!(groups.addresses().collect::<Vec<_>>(), [group(2), group(5), group(9)]);
    groups.leave_all(1);
    assert_eq!(groups.addresses().collect::<Vec<_>>(), [group(2)]);
    assert_eq!(members(&groups, group(2)), [4]);
}

#[test]
fn there_are_so_many_groups_and_so_many_members() {
    let mut groups = Groups::new(false);
    for slot in 0..GROUP_MEMBERS {
        groups.join(group(0), u32::try_from(slot).expect("few")).expect("there is room");
    }
    assert_eq!(groups.join(group(0), u32::MAX), Err(Full::Members));
    assert_eq!(groups.join(group(0), 0), Ok(false), "it is one");
    for number in 1..GROUPS {
        groups.join(group(number), 0).expect("there is room");
    }
    assert_eq!(groups.join(group(GROUPS), 0), Err(Full::Groups));
    assert!(groups.leave(group(1), 0));
    assert_eq!(groups.join(group(GROUPS), 0), Ok(true));
}

#[test]
fn only_who_has_members_hears_itself_unless_other_engines_may() {
    let mut groups = Groups::new(false);
    groups.join(group(1), 0).expect("there is room");
    assert!(groups.may_have_members(group(1)) && !groups.may_have_members(group(2)));
    assert!(Groups::new(true).may_have_members(group(2)));
}
