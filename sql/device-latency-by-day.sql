-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- How did each host's device service time change from day to day?
-- Columns: host, began_on, requests, p99_ms.
select r.host as host, substr(r.began, 1, 10) as began_on, count(*) as requests,
       round(percentile_cont(0.99) within group (order by q.d2c_ns) / 1e6, 6) as p99_ms
  from requests as q
  join runs as r on r.run = q.run
 group by r.host, substr(r.began, 1, 10)
 order by r.host, began_on
