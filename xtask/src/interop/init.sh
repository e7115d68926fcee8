#!/bin/busybox sh
# The guest's init: brings up eth0 with soft-RoCE on it, then a shell on the serial line that the
# tests talk to.
/bin/busybox mkdir -p /proc /sys /dev /tmp /usr/bin /sbin /usr/sbin
/bin/busybox --install -s /sbin
export PATH=/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
for module in /modules/*; do insmod "$module"; done
for word in $(cat /proc/cmdline); do
    case "$word" in srnic.*=*) export "${word#srnic.}" ;; esac
done
/bin/ip link set lo up
# Nobody else is on this link: its addresses are there at once, and not tentative for a second, in
# which rxe cannot resolve any.
echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
/bin/ip link set eth0 mtu "$mtu" up
/bin/ip addr add "$address/24" dev eth0
/bin/ip -6 addr add "$address6/64" dev eth0
/bin/ip neigh replace "$host" lladdr "$host_mac" dev eth0 nud permanent
/bin/rdma link add rxe0 type rxe netdev eth0
for device in /sys/class/infiniband_verbs/uverbs*; do
    name=/dev/infiniband/${device##*/}
    mkdir -p /dev/infiniband
    [ -e "$name" ] || mknod "$name" c $(tr : ' ' < "$device/dev")
done
stty -F /dev/ttyS0 -echo -onlcr
echo "@@ready $(cat /sys/class/infiniband/rxe0/ports/1/state)" > /dev/ttyS0
# Not the shell itself is process 1, the parent of every orphan: its read of a line ends when a
# child ends that it does not know, and it takes that for the end of all lines.
while :; do
    sh < /dev/ttyS0 > /dev/ttyS0 2>&1
done
