-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which findings did a host have for the first time, and when?
-- Columns: host, finding, first_run, runs_with_it.
select r.host as host, f.finding as finding, min(r.began) as first_run, count(distinct f.run) as runs_with_it
  from findings as f
  join runs as r on r.run = f.run
 group by r.host, f.finding
 order by first_run desc, r.host, f.finding
