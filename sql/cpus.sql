-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- How busy were the CPUs of each run?
-- Columns: host, began, cpus, busy_percent, interrupts_percent.
select s.host as host, s.began as began, s.cpus as cpus,
       round(100.0 * s.busy_ns / s.all_ns, 3) as busy_percent,
       round(100.0 * s.interrupts_ns / s.all_ns, 3) as interrupts_percent
  from (select r.run as run, r.host as host, r.began as began, r.cpus as cpus, sum(c.busy_ns) as busy_ns,
               sum(c.interrupts_ns) as interrupts_ns, sum(c.busy_ns + c.idle_ns + c.interrupts_ns) as all_ns
          from cpus as c
          join runs as r on r.run = c.run
         group by r.run, r.host, r.began, r.cpus) as s
 where s.all_ns > 0
 order by busy_percent desc, s.host, s.began, s.run
