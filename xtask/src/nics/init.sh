# Gives the NICs to DPDK, all but eth0, the tools' side channel.
ip link set lo up
ip link set eth0 up
ip addr add "$address/24" dev eth0
for nic in $(echo "$nics" | tr , ' '); do
    device=/sys/bus/pci/devices/$nic
    [ ! -e "$device/driver" ] || echo "$nic" > "$device/driver/unbind"
    echo "$driver" > "$device/driver_override"
    echo "$nic" > /sys/bus/pci/drivers_probe
    ready="${ready:+$ready }$(readlink "$device/driver" | sed 's|.*/||')"
done
