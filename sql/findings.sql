-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which findings cost the fleet most?
-- Columns: finding, hosts, runs, seconds, largest_share.
select f.finding as finding, count(distinct r.host) as hosts, count(distinct f.run) as runs,
       round(sum(f.time_ns) / 1e9, 6) as seconds, round(max(f.share), 4) as largest_share
  from findings as f
  join runs as r on r.run = f.run
 group by f.finding
 order by seconds desc, f.finding
