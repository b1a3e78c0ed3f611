-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which programs were not allowed to run, because their cgroup's CPU quota was used up?
-- Columns: host, process, runs, held_seconds.
select r.host as host, a.process as process, count(distinct a.run) as runs,
       round(sum(a.time_ns) / 1e9, 6) as held_seconds
  from account as a
  join runs as r on r.run = a.run
 where a.category = 'runnable.held' and a.time_ns > 0
 group by r.host, a.process
 order by held_seconds desc, r.host, a.process
