-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- How long does each host's device take, and how long do requests wait before it?
-- Columns: host, device, operation, requests, p50_ms, p99_ms, waited_p99_ms.
select r.host as host, q.device as device, q.operation as operation, count(*) as requests,
       round(percentile_cont(0.5) within group (order by q.d2c_ns) / 1e6, 6) as p50_ms,
       round(percentile_cont(0.99) within group (order by q.d2c_ns) / 1e6, 6) as p99_ms,
       round(percentile_cont(0.99) within group (order by q.q2c_ns - q.d2c_ns) / 1e6, 6) as waited_p99_ms
  from requests as q
  join runs as r on r.run = q.run
 group by r.host, q.device, q.operation
 order by r.host, q.device, q.operation
