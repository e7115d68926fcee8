#!/bin/busybox sh
# The beginning of a guest's init: file systems, modules, and the words of the kernel's command
# line.
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
