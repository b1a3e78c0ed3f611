// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions and their statements, for help and manual; tests run each of them.

/// A question, its statement, and the runs that it is put to.
pub const EXAMPLES: &[(&str, &str, &str)] = &[
    (
        "The five slowest requests of each device, layer by layer",
        "select r.device, r.operation, size(r.bytes) size, duration(queued_ns) at, ms(q2c_ns) ms, ms(q2g_ns) q2g, ms(g2f_ns) g2i,
       ms(f2i_ns) flush, ms(i2d_ns) i2d, ms(d2c_ns) d2c, t.thread
  from (select *, row_number() over (partition by run, device order by q2c_ns desc) place from requests) r
  left join threads t on t.run = r.run and t.tid = r.owner
 where place <= 5 order by r.run, r.device, place",
        "RUN",
    ),
    (
        "Who waited for whom, and for what",
        "select thread, category, who, count(*) times, ms(sum(time_ns)) ms, ms(max(time_ns)) longest
  from intervals where who is not null group by 1, 2, 3 order by ms desc limit 20",
        "RUN",
    ),
    (
        "The 99th percentile of each device's latency, minute by minute",
        "select queued_ns / 60000000000 minute, device, count(*) requests, ms(median(q2c_ns)) median,
       ms(percentile(q2c_ns, 99)) p99
  from requests group by 1, 2 order by 1, 2",
        "RUN",
    ),
    (
        "What changed from one run to another",
        "select category, ms(sum(time_ns) filter (where run = 'before')) before,
       ms(sum(time_ns) filter (where run = 'after')) after,
       ms(sum(case run when 'after' then time_ns else -time_ns end)) change
  from account group by category order by abs(change) desc",
        "before after",
    ),
    (
        "The locks that cost most, and who held them",
        "select l.kind, l.site, l.waits, ms(l.time_ns) waited, h.who holder, ms(h.time_ns) held
  from locks l left join lock_holders h on h.lock = l.lock and h.pid is l.pid and h.run = l.run and h.part = 'holder'
 order by l.time_ns desc, h.time_ns desc limit 20",
        "RUN",
    ),
    (
        "Every machine's 99th percentile before and since a kernel, in SQL that DuckDB runs too",
        "select r.host, r.kernel, count(*) as requests,
       round(percentile_cont(0.99) within group (order by q.d2c_ns) / 1e6, 6) as p99_ms
  from runs as r join requests as q on q.run = r.run
 group by r.host, r.kernel order by r.host, min(r.began)",
        "before after",
    ),
    (
        "When a service of a watched machine was slow, and what limited it then",
        "select at, round(requests) per_second, ms(mean_ns) mean, ms(longest_ns) longest, round(disk, 2) disk, limited_by
  from window_services where service like '%postgresql%' and longest_ns > 100000000 order by at",
        "/var/lib/plumb",
    ),
];
