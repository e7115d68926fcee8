# Runs a command in a chroot: a layer over the base of a distribution, with this machine's sources,
# toolchain and Cargo registry. `unshare` started this, so the mounts are nobody else's and go with
# it, however it ends.
set -eu
cd "$PLACE"
mkdir -p layer work root target program scratch
layer=layer work=work
if [ "$KEEP" = no ]; then
    mount -t tmpfs tmpfs scratch
    layer=scratch/layer work=scratch/work
    mkdir "$layer" "$work"
fi
mount -t overlay overlay -o "lowerdir=base,upperdir=$layer,workdir=$work" root

# What is downloaded and what the runs write is not kept.
for directory in tmp var/cache/apt var/lib/apt/lists; do
    mount -t tmpfs tmpfs "root/$directory"
done
for directory in dev sys; do
    mount --rbind "/$directory" "root/$directory"
done
mount -t proc proc root/proc
cp /etc/resolv.conf root/etc/resolv.conf

for directory in srnic toolchain target program cargo/registry; do
    mkdir -p "root/$directory"
done
mount --bind "$SOURCES" root/srnic
mount --bind "$TOOLCHAIN" root/toolchain
mount -o remount,bind,ro root/srnic
mount -o remount,bind,ro root/toolchain
mount --bind "$REGISTRY" root/cargo/registry
mount --bind target root/target
mount --bind program root/program

if [ "$NETWORK" = own ]; then
    ip link set lo up
    ip link add left mtu 4200 type veth peer name right mtu 4200
    ip link set left up
    ip link set right up
fi
exec chroot root "$@"
