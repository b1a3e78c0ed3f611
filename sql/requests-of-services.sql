-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which requests, statements or calls are slowest, and on which host?
-- Columns: span, key, host, count, mean_ms, worst_p99_ms, longest_ms.
select s.span as span, s.key as key, r.host as host, sum(s.count) as count,
       round(sum(s.total_ns) / 1e6 / sum(s.count), 6) as mean_ms, round(max(s.p99_ns) / 1e6, 6) as worst_p99_ms,
       round(max(s.max_ns) / 1e6, 6) as longest_ms
  from spans as s
  join runs as r on r.run = s.run
 group by s.span, s.key, r.host
having sum(s.count) > 0
 order by worst_p99_ms desc, s.span, s.key, r.host
