# Runs as process 1 of a cell, still in the host's root. Makes the cell's root and moves into it.
# Environment: HOSTNAME_, TREE, DISK, SHARE, LOG, BINDS (lines of `from<TAB>to`), INIT.
set -euo pipefail
fail() { echo "making the cell's root: line $1 failed: $2"; }
trap 'fail "$LINENO" "$BASH_COMMAND"' ERR

# /proc is still the host's, and so is the number in it.
read -r pid _ < /proc/self/stat

echo "$HOSTNAME_" > /proc/sys/kernel/hostname
mkdir -p "$DISK/upper" "$DISK/work" "$DISK/root"
root=$DISK/root
mount -t overlay overlay -o "lowerdir=$TREE,upperdir=$DISK/upper,workdir=$DISK/work" "$root"
mount -t proc proc "$root/proc"
# Read-only, or NetworkManager would wait for a udev that does not run here.
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/net" "$root/dev/shm" "$root/dev/pts"
for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 net/tun:10:200; do
  IFS=: read -r name major minor <<< "$node"
  mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
bind() {
  if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$(dirname "$root$2")"; : > "$root$2"; fi
  mount --bind "$1" "$root$2"
}
bind "$SHARE" /host
bind "$LOG" /log
while IFS=$'\t' read -r from to; do
  [ -z "$from" ] || { bind "$from" "$to"; mount -o remount,bind,ro "$root$to"; }
done <<< "$BINDS"

cd "$root"
mkdir -p .host-root
pivot_root . .host-root
umount -l /.host-root
trap - ERR
echo "pid $pid"
exec chroot . /bin/bash -c "$INIT"
