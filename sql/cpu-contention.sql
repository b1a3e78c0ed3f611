-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which programs lost most to others that wanted the CPU, and on which host?
-- Columns: process, host, waited_seconds, percent_of_thread_time.
select s.process as process, s.host as host, round(s.waited_ns / 1e9, 6) as waited_seconds,
       round(100.0 * s.waited_ns / s.all_ns, 3) as percent_of_thread_time
  from (select a.process as process, r.host as host, sum(a.time_ns) as all_ns,
               sum(case when a.category in ('runnable', 'preempted') then a.time_ns else 0 end) as waited_ns
          from account as a
          join runs as r on r.run = a.run
         group by a.process, r.host) as s
 where s.waited_ns > 0
 order by waited_seconds desc, s.process, s.host
