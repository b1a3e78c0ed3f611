-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- In which functions does the fleet's CPU time go, and where do its threads wait?
-- Columns: category, function, module, hosts, seconds.
select h.category as category, h.function as function, h.module as module, count(distinct r.host) as hosts,
       round(sum(h.time_ns) / 1e9, 6) as seconds
  from hot as h
  join runs as r on r.run = h.run
 group by h.category, h.function, h.module
 order by seconds desc, h.category, h.function, h.module
