-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- On which hosts did device service time rise with the newest kernel that they ran?
-- Columns: host, kernel, before_ms, since_ms, ratio; hosts with one kernel have none.
with latest as (
    select k.host as host, k.kernel as kernel
      from (select r.host as host, r.kernel as kernel,
                   row_number() over (partition by r.host order by min(r.began) desc, r.kernel) as place
              from runs as r
             group by r.host, r.kernel) as k
     where k.place = 1
), sides as (
    select r.host as host, l.kernel as kernel, case when r.kernel = l.kernel then 1 else 0 end as since,
           percentile_cont(0.99) within group (order by q.d2c_ns) as p99
      from requests as q
      join runs as r on r.run = q.run
      join latest as l on l.host = r.host
     group by r.host, l.kernel, case when r.kernel = l.kernel then 1 else 0 end
)
select b.host as host, b.kernel as kernel, round(b.p99 / 1e6, 6) as before_ms, round(s.p99 / 1e6, 6) as since_ms,
       round(s.p99 / b.p99, 3) as ratio
  from sides as b
  join sides as s on s.host = b.host and s.since = 1
 where b.since = 0 and b.p99 > 0
 order by ratio desc, b.host
