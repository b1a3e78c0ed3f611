-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which files cost most by being synced?
-- Columns: host, path, calls, mean_ms, seconds.
select r.host as host, f.path as path, sum(f.calls) as calls,
       round(sum(f.time_ns) / 1e6 / sum(f.calls), 6) as mean_ms, round(sum(f.time_ns) / 1e9, 6) as seconds
  from synced_files as f
  join runs as r on r.run = f.run
 group by r.host, f.path
having sum(f.calls) > 0
 order by seconds desc, r.host, f.path
