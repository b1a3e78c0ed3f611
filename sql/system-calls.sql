-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which system calls take the time of which program?
-- Columns: process, syscall, hosts, calls, seconds, longest_ms.
select s.process as process, s.syscall as syscall, count(distinct r.host) as hosts, sum(s.calls) as calls,
       round(sum(s.total_ns) / 1e9, 6) as seconds, round(max(s.max_ns) / 1e6, 6) as longest_ms
  from syscalls as s
  join runs as r on r.run = s.run
 group by s.process, s.syscall
 order by seconds desc, s.process, s.syscall
