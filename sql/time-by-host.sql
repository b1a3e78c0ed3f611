-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Where does the time of each host's threads go?
-- Columns: host, category, seconds, percent.
select s.host as host, s.category as category, round(s.ns / 1e9, 6) as seconds,
       round(100.0 * s.ns / sum(s.ns) over (partition by s.host), 3) as percent
  from (select r.host as host, a.category as category, sum(a.time_ns) as ns
          from account as a
          join runs as r on r.run = a.run
         group by r.host, a.category) as s
 where s.ns > 0
 order by s.host, seconds desc, s.category
