# Removes every trace of one private engine. Variables: ROOT (its directory) and NAME (its netns, cgroup and veth).
# With WAIT=1 it first waits until its standard input closes, which happens when the owner stops the engine or dies in any way.
# It touches nothing outside ROOT and NAME, and kills a process only if its command line, netns or cgroup proves that it is ours.
[ -n "${ROOT:-}" ] && [ -n "${NAME:-}" ] || exit 2
cd / || exit 2
if [ "${WAIT:-}" = 1 ]; then cat >/dev/null; fi

ours() {
    printf '%s/' "$ROOT" | grep -lsF -f - /proc/[0-9]*/cmdline | sed 's,^/proc/\([0-9]*\)/.*,\1,'
    ip netns pids "$NAME" 2>/dev/null
    find /sys/fs/cgroup -path "*/$NAME/*" -name cgroup.procs -exec cat {} + 2>/dev/null
}

# A frozen process takes no signal, not even SIGKILL.
find /sys/fs/cgroup -path "*/$NAME/*" -name freezer.state -exec sh -c 'echo THAWED >"$1"' _ {} \; 2>/dev/null

# The data is removed, so no process needs a clean end; a frozen daemon or a dead shim would not end cleanly anyway.
round=0
while [ "$round" -lt 100 ]; do
    pids=$(ours | sort -u | grep -vx -e "$$" -e 0)
    [ -n "$pids" ] || break
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null
    round=$((round + 1))
    sleep 0.02
done

sed -n "s,^[^ ]* \($ROOT/[^ ]*\) .*,\1,p" /proc/mounts | sort -r | while read -r mount; do
    umount "$(printf '%b' "$mount")" 2>/dev/null || umount -l "$(printf '%b' "$mount")" 2>/dev/null
done
ip netns delete "$NAME" 2>/dev/null
ip link delete "$NAME-h" 2>/dev/null
find /sys/fs/cgroup -depth -type d \( -path "*/$NAME" -o -path "*/$NAME/*" \) -exec rmdir {} + 2>/dev/null
rm -rf --one-file-system "$ROOT"
exit 0
