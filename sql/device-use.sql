-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- How busy are the devices of each host, and how deep are their queues?
-- Columns: host, device, runs, requests, busy_percent, mean_in_flight.
select r.host as host, d.device as device, count(*) as runs, sum(d.reads + d.writes) as requests,
       round(100.0 * sum(d.busy_ns) / sum(r.length_ns), 3) as busy_percent,
       round(sum(d.mean_in_flight * r.length_ns) / sum(r.length_ns), 4) as mean_in_flight
  from devices as d
  join runs as r on r.run = d.run
 group by r.host, d.device
having sum(r.length_ns) > 0
 order by busy_percent desc, r.host, d.device
