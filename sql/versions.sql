-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which hosts recorded with which version of plumb?
-- Columns: host, version, runs, last_run.
select r.host as host, r.plumb as version, count(*) as runs, max(r.began) as last_run
  from runs as r
 group by r.host, r.plumb
 order by r.host, r.plumb
