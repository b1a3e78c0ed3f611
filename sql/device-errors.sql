-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which devices reported errors, or gave requests back?
-- Columns: host, device, runs, errors, requeues.
select r.host as host, d.device as device, count(*) as runs, sum(d.errors) as errors, sum(d.requeues) as requeues
  from devices as d
  join runs as r on r.run = d.run
 group by r.host, d.device
having sum(d.errors) + sum(d.requeues) > 0
 order by errors desc, requeues desc, r.host, d.device
