# SPDX-License-Identifier: Apache-2.0 OR MIT
# Requests with data by operation: count, sums of D2C and of Q2C in ns; and
# the layers of all bios, count and sum; requests that did not end before the recording did, and how often a device
# gave one back, to be issued again. All from the trace's text.
function operation(opf) {
    sub(/.*x/, "", opf)
    return substr("00" opf, length(opf) + 1, 2)
}
function add(kind, value) {
    steps[kind]++
    sums[kind] += value
}
/ block_bio_queue: / && field("dev") == dev {
    if (last) add("Q2Q", now - last)
    queued[field("bio")] = last = now
}
/ block_getrq: / && field("dev") == dev { add("Q2G", now - queued[field("bio")]) }
/ block_bio_(back|front)merge: / && field("dev") == dev { add("Q2M", now - queued[field("bio")]) }
/ block_split: / && field("dev") == dev { queued[field("bio")] = queued[field("parent")] }
/ block_rq_issue: / && field("dev") == dev && field("len") > 0 {
    issued[field("rq")] = now
    arrived[field("rq")] = queued[field("bio")]
    add("blocks of a D", field("len") / 512)
}
/ block_rq_requeue: / && field("dev") == dev && field("rq") in issued {
    requeued++
    delete issued[field("rq")]
}
/ block_rq_complete: / && field("dev") == dev && field("left") == 0 {
    rq = field("rq")
    if (!(rq in issued)) next
    op = operation(field("opf"))
    n[op]++
    d2c[op] += now - issued[rq]
    q2c[op] += now - arrived[rq]
    delete issued[rq]
}
END {
    for (op in n) printf "%s %.0f %.0f %.0f\n", op, n[op], d2c[op], q2c[op]
    for (rq in issued) open++
    printf "open %.0f %.0f\n", open, requeued
    for (kind in steps) printf "step %.0f %.0f %s\n", steps[kind], sums[kind], kind
}
