#!/bin/busybox sh
# The guest's init: gives the NICs to DPDK, all but eth0, the tools' side channel, then a shell on
# the serial line that the tests talk to.
/bin/busybox mkdir -p /proc /sys /dev /tmp /var/run /usr/bin /sbin /usr/sbin
/bin/busybox --install -s /sbin
export PATH=/bin:/sbin
# The shell says nothing of its own.
export PS1=
# DPDK loads no drivers from below a directory that anybody may write.
chmod 755 /
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
ip link set lo up
ip link set eth0 up
ip addr add "$address/24" dev eth0
for nic in $(echo "$nics" | tr , ' '); do
    device=/sys/bus/pci/devices/$nic
    [ ! -e "$device/driver" ] || echo "$nic" > "$device/driver/unbind"
    echo "$driver" > "$device/driver_override"
    echo "$nic" > /sys/bus/pci/drivers_probe
    bound="$bound $(readlink "$device/driver" | sed 's|.*/||')"
done
stty -F /dev/ttyS0 -echo -onlcr
echo "@@ready$bound" > /dev/ttyS0
# Not the shell itself is process 1, the parent of every orphan: its read of a line ends when a
# child ends that it does not know, and it takes that for the end of all lines.
while :; do
    sh < /dev/ttyS0 > /dev/ttyS0 2>&1
done
