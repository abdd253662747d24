#!/bin/busybox sh
# Process 1 of a machine before its root is there: finds the disks, lays what this boot brings
# along over the root, and hands over to systemd.
set -e
bb=/bin/busybox
fail() { echo "lab: $1" > /dev/console; $bb sync; $bb poweroff -f; }
$bb mount -t devtmpfs devtmpfs /dev
$bb mount -t proc proc /proc
for module in /modules/*.ko; do $bb insmod "$module"; done
tries=0
until [ -b /dev/vda ] && [ -b /dev/vdb ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 600 ] || fail "no disks"
  $bb usleep 100000
done
$bb mount -t ext4 /dev/vda /root || fail "no root"
$bb tar -x -f /dev/vdb -C /root || fail "nothing to lay over the root"
if [ -e /root/lab/enable ]; then
  while read -r unit; do
    $bb chroot /root /usr/bin/systemctl --quiet enable "$unit" || fail "cannot enable $unit"
  done < /root/lab/enable
  while read -r unit; do
    $bb chroot /root /usr/bin/systemctl --quiet mask "$unit" || fail "cannot mask $unit"
  done < /root/lab/mask
  $bb rm /root/lab/enable /root/lab/mask
fi
$bb umount /proc
$bb mount --move /dev /root/dev
exec $bb switch_root /root /sbin/init
