# Brings up eth0 with soft-RoCE on it.
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
ready=$(cat /sys/class/infiniband/rxe0/ports/1/state)
