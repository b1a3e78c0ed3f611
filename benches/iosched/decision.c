// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * decision [REQUESTS [ROUNDS]]: what a request costs lp-deadline's policy in a process: inserted, chosen, finished,
 * while so many others wait. Prints a line of CSV for each queue length, mix and round: ns a request, what
 * the same loop takes without the policy taken off. Built and run by benches/iosched/run.sh.
 */
#include "lp_deadline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST 1024
#define US ((u64)1000)

static struct lp lp;
static struct lp_request all[MOST + 1];
static u64 state;

static u64 any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static u64 clock_ns(void)
{
	struct timespec t;

	/* Of this process alone: what others do on a shared machine takes time, not its CPU time. */
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (u64)t.tv_sec * 1000000000 + (u64)t.tv_nsec;
}

static void fill(struct lp_request *rq)
{
	rq->sector = any() % (1ULL << 31);
	rq->end = rq->sector + 8;
	rq->write = any() % 4 == 0;
}

/* In every fourth request is a low one where `low`; simulated time goes on, and the gate opens for all. */
static enum lp_class class_of(u64 n, bool low)
{
	return low && n % 4 == 0 ? LP_LOW : LP_NORMAL;
}

/* The loop; without the policy the requests go round in the order of their places. */
static double loop(u64 requests, u32 waiting, bool low, bool policy)
{
	struct lp_knobs knobs;
	struct lp_request *rq = &all[waiting];
	u64 now = 0, began, chosen = 0;

	lp_defaults(&knobs, false);
	/* With an interval low ones would wait while the queue is to be of one length. */
	knobs.idle_dispatch_interval = 0;
	knobs.in_flight_aware = 0;
	knobs.low_expire = 1;
	lp_init(&lp, &knobs, 0);
	state = 88172645463325252ULL;
	for (u32 i = 0; i < waiting; i++) {
		fill(&all[i]);
		if (policy)
			lp_insert(&lp, &all[i], class_of(i, low), false, now);
	}
	began = clock_ns();
	for (u64 n = 0; n < requests; n++) {
		now += 10 * US;
		fill(rq);
		if (policy) {
			lp_insert(&lp, rq, class_of(n, low), false, now);
			rq = lp_dispatch(&lp, now);
			if (!rq) {
				fprintf(stderr, "decision: nothing goes at request %" PRIu64 "\n", n);
				exit(2);
			}
			lp_finished(&lp, rq, now);
		} else {
			rq = &all[n % (waiting + 1)];
		}
		chosen += rq->sector;
	}
	began = clock_ns() - began;
	/* So that the choice is used. */
	__asm__ volatile("" : : "r"(chosen));
	return (double)began / (double)requests;
}

int main(int argc, char **argv)
{
	u64 requests = argc > 1 ? strtoull(argv[1], 0, 10) : 2000000;
	int rounds = argc > 2 ? atoi(argv[2]) : 7;
	static const u32 lengths[] = { 1, 32, MOST };

	if (!requests || rounds < 1) {
		fprintf(stderr, "usage: decision [REQUESTS [ROUNDS]], both above 0\n");
		return 2;
	}
	printf("queue,mix,round,loop_ns,empty_ns,policy_ns\n");
	for (int round = 1; round <= rounds; round++)
		for (u32 i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			for (int low = 0; low < 2; low++) {
				double full = loop(requests, lengths[i] - 1, low, true);
				double empty = loop(requests, lengths[i] - 1, low, false);

				printf("%" PRIu32 ",%s,%d,%.2f,%.2f,%.2f\n", lengths[i],
				       low ? "quarter low" : "normal", round, full, empty, full - empty);
			}
	return 0;
}
