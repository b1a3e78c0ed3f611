/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Looks to plumb as PostgreSQL 15 does: reports a statement, says that it waits in pg_sleep, sleeps, reports that it is
 * idle; until it is killed.
 */
#include <stdint.h>
#include <time.h>

const char *const version = "postgres (PostgreSQL) 15.0";
static uint32_t word;
uint32_t *volatile my_wait_event_info = &word;

__attribute__((noinline)) void pgstat_report_activity(int state, const char *text)
{
	__asm__ volatile("" : : "r"(state), "r"(text), "r"(version));
}

int main(void)
{
	struct timespec pause = { .tv_nsec = 20000000 };

	for (;;) {
		pgstat_report_activity(2, "select pg_sleep(0.02)");
		*my_wait_event_info = 0x09000002;
		nanosleep(&pause, 0);
		*my_wait_event_info = 0;
		pgstat_report_activity(1, 0);
	}
}
