-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- What limits the runs, and on how many hosts?
-- Columns: kind, runs, hosts.
select v.kind as kind, count(*) as runs, count(distinct r.host) as hosts
  from verdict as v
  join runs as r on r.run = v.run
 where v.place = 1
 group by v.kind
 order by runs desc, v.kind
