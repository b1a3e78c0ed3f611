-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which locks cost most?
-- Columns: kind, site, hosts, waits, seconds, longest_ms.
select l.kind as kind, l.site as site, count(distinct r.host) as hosts, sum(l.waits) as waits,
       round(sum(l.time_ns) / 1e9, 6) as seconds, round(max(l.longest_ns) / 1e6, 6) as longest_ms
  from locks as l
  join runs as r on r.run = l.run
 group by l.kind, l.site
 order by seconds desc, l.kind, l.site
