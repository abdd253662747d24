# Waits until the machine is up, runs the scenario, writes the result to the third disk, and
# switches the machine off.
rm -rf /lab/out
mkdir -p /lab/out
# A failed unit makes this fail, too. The scenario decides what that means.
systemctl is-system-running --wait > /lab/out/system
cd /lab
bash -c 'lan() { ip netns exec lan "$@"; }; source /lab/scenario' > /lab/out/output 2>&1
echo "$?" > /lab/out/code
journalctl --boot --no-pager --output=short-monotonic > /lab/out/journal
tar -C /lab/out -cf /dev/vdc .
sync
systemctl --force poweroff
