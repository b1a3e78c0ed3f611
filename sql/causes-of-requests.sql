-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- What does the time of requests, statements and calls go to?
-- Columns: span, key, category, hosts, seconds.
select c.span as span, c.key as key, c.category as category, count(distinct r.host) as hosts,
       round(sum(c.time_ns) / 1e9, 6) as seconds
  from span_causes as c
  join runs as r on r.run = c.run
 group by c.span, c.key, c.category
 order by seconds desc, c.span, c.key, c.category
