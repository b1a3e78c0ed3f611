-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Which runs lost events, so that their sums are too small?
-- Columns: host, run_id, began, events, lost, lost_percent.
select r.host as host, r.run_id as run_id, r.began as began, r.events as events, r.lost as lost,
       round(100.0 * r.lost / (r.events + r.lost), 3) as lost_percent
  from runs as r
 where r.lost > 0
 order by lost_percent desc, r.host, r.began, r.run
