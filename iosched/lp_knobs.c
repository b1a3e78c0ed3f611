// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What may be tuned, within which limits, and what it is if nobody does. */
#include "lp_deadline.h"

#define MS ((u64)1000000)
#define US ((u64)1000)

#define KNOB(field, unit, least, most) \
	{ \
#field, __builtin_offsetof(struct lp_knobs, field), \
			sizeof(((struct lp_knobs *)0)->field) == 8, unit, least, most \
	}

const struct lp_knob lp_knob_table[] = {
	KNOB(read_expire, MS, 0, 3600000 * MS),
	KNOB(write_expire, MS, 0, 3600000 * MS),
	KNOB(writes_starved, 1, 0, 1000000),
	KNOB(fifo_batch, 1, 1, 1000000),
	KNOB(idle_dispatch_interval, US, 0, 60000 * MS),
	KNOB(batch_mode_delay, US, 0, 3600000 * MS),
	KNOB(awaited_expire, MS, 0, 3600000 * MS),
	KNOB(low_expire, MS, 0, 3600000 * MS),
	KNOB(low_depth, 1, 0, 65536),
	KNOB(low_batch_kb, 1, 0, 1048576),
	KNOB(low_batch_time, US, 0, 10000 * MS),
	KNOB(low_slots, 1, 1, 100),
	KNOB(in_flight_aware, 1, 0, 1),
	KNOB(safe_classes, 1, 0, 1),
	KNOB(normal_loss, 1, 0, 100),
};
const u32 lp_knob_count = sizeof(lp_knob_table) / sizeof(lp_knob_table[0]);

void lp_defaults(struct lp_knobs *knobs, bool rotational)
{
	*knobs = (struct lp_knobs){
		.read_expire = 500 * MS,
		.write_expire = 5000 * MS,
		.writes_starved = 2,
		.fifo_batch = 16,
		/* A background batch costs a rotational disk two seeks and a rotation, 20 to 30 ms: seldom, then for
		 * longer than that. The paper has 200 ms, one each. Flash answers at once. */
		.idle_dispatch_interval = rotational ? 1500 * MS : 400 * US,
		.batch_mode_delay = 5000 * MS,
		/* No file in sysfs: lp_quiet.c learns how much longer it must be. */
		.awaited_delay = rotational ? 3 * MS : 100 * US,
		/* What a commit of a journal may take that a background task's write belongs to. */
		.awaited_expire = rotational ? 300 * MS : 100 * MS,
		.low_expire = 10000 * MS,
		/* Flash has places for several at once; who writes and syncs would fill them all while a foreground
		 * request thinks. */
		.low_depth = rotational ? 1 : 6,
		.low_batch_kb = rotational ? 5120 : 0,
		/* The way there, a turn, and that much at the rate of today's slow disks. */
		.low_batch_time = rotational ? 60 * MS : 0,
		/* A batch is made of what waits in them; a reader's 32 foreground requests still have theirs. */
		.low_slots = rotational ? 50 : 25,
		.in_flight_aware = 1,
		.safe_classes = 1,
		/* A rotational disk has its intervals and batches instead. */
		.normal_loss = rotational ? 0 : 2,
	};
}
