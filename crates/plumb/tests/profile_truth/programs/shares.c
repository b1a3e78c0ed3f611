/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Spends 70, 20 and 10 % of its CPU time in heavy, medium and light, by its
 * own thread's CPU clock: so the answer does not depend on the machine.
 * Usage: shares SECONDS TRUTH; TRUTH gets `heavy NS`, `medium NS`, `light NS`, `all NS`.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUND 100000000ULL /* ns: long beside the clock's period, so that few samples fall on a change */

static uint64_t cpu(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The three differ in their constant, or the compiler would fold them into one. */
#define WORK(name, factor) \
	__attribute__((noinline)) uint64_t name(uint64_t until, volatile uint64_t *sink) \
	{ \
		uint64_t now, x = *sink; \
\
		do { \
			for (int i = 0; i < 40000; i++) \
				x = x * factor + 1; \
			now = cpu(CLOCK_THREAD_CPUTIME_ID); \
		} while (now < until); \
		*sink = x; \
		return now; \
	}

WORK(heavy, 6364136223846793005ULL)
WORK(medium, 2862933555777941757ULL)
WORK(light, 3202034522624059733ULL)

int main(int argc, char **argv)
{
	uint64_t spent[3] = { 0, 0, 0 }, due[3] = { 0, 0, 0 }, now;
	volatile uint64_t sink = 1;
	FILE *truth;

	if (argc < 3 || !(truth = fopen(argv[2], "w")))
		return 2;
	now = cpu(CLOCK_THREAD_CPUTIME_ID);
	for (int round = 0; round < atof(argv[1]) * 1e9 / ROUND; round++) {
		static const uint64_t share[3] = { 70, 20, 10 };
		uint64_t (*const work[3])(uint64_t, volatile uint64_t *) = { heavy, medium, light };

		for (int i = 0; i < 3; i++) {
			uint64_t begin = now;

			/* what a round took too long is taken from the next one */
			due[i] += ROUND * share[i] / 100;
			now = work[i](begin + due[i] - spent[i], &sink);
			spent[i] += now - begin;
		}
	}
	fprintf(truth, "heavy %llu\nmedium %llu\nlight %llu\nall %llu\n", (unsigned long long)spent[0],
		(unsigned long long)spent[1], (unsigned long long)spent[2],
		(unsigned long long)cpu(CLOCK_PROCESS_CPUTIME_ID));
	return fclose(truth) != 0;
}
