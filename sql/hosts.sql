-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which hosts are there, since when, and which kernels did they run?
-- Columns: host, runs, first_run, last_run, kernels.
select r.host as host, count(*) as runs, min(r.began) as first_run, max(r.began) as last_run,
       count(distinct r.kernel) as kernels
  from runs as r
 group by r.host
 order by r.host
