# SPDX-License-Identifier: Apache-2.0 OR MIT
# Waits for a CPU by thread: number, sum in ns, and switches that contradict
# each other, from perf's text. `perf sched latency` of perf 6.1 leaves out waits
# that its own events show, now and then 1 % of their time.
function field(name,    s) {
    s = rest
    if (!match(s, "(^| )" name "=")) return ""
    s = substr(s, RSTART + RLENGTH)
    sub(/ .*/, "", s)
    return s
}
function ready(pid) {
    state[pid] = "ready"
    since[pid] = now
}
{
    if (!match($0, /[0-9]+\.[0-9]+: +sched:sched_[a-z_]+:/)) next
    head = substr($0, RSTART, RLENGTH)
    rest = substr($0, RSTART + RLENGTH)
    split(head, part, /[.:]/)
    now = part[1] * 1e9 + part[2]
}
head ~ /sched_wakeup_new/ { ready(field("pid")) }
head ~ /sched_waking/ {
    pid = field("pid")
    if (state[pid] == "asleep") ready(pid)
    else if (state[pid] == "runs") raced[pid] = 1
}
head ~ /sched_switch/ {
    pid = field("prev_pid")
    if (pid in state && state[pid] != "runs") wrong[pid]++
    if (field("prev_state") ~ /^R/ || raced[pid]) ready(pid)
    else state[pid] = "asleep"
    pid = field("next_pid")
    if (state[pid] == "ready") {
        n[pid]++
        sum[pid] += now - since[pid]
    } else if (pid in state) wrong[pid]++
    state[pid] = "runs"
    raced[pid] = 0
}
END { for (pid in n) printf "%d %d %.0f %d\n", pid, n[pid], sum[pid], wrong[pid] }
