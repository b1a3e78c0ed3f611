# SPDX-License-Identifier: Apache-2.0 OR MIT
# Packets of one thread from queue to driver: count and sum in ns.
/ net_dev_queue: / && field("tid") == pid { queued[field("skb")] = now }
/ net_dev_start_xmit: / && (field("skb") in queued) {
    n++
    sum += now - queued[field("skb")]
    delete queued[field("skb")]
}
END { printf "%.0f %.0f\n", n, sum }
