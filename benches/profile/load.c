/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One thread on each CPU counts how often it gets through a small piece of
 * work, at the end of a chain of calls. Compiled without frame pointers.
 * Usage: load SECONDS DEPTH THREADS FILE
 * FILE gets JSON: iterations, ns (from the moment on which all had started), end
 * (CLOCK_MONOTONIC ns), cpu_ns of the process.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST 512

static pthread_barrier_t all;
static atomic_int over;
static int depth;
static uint64_t counts[MOST][16]; /* a pair of cache lines each */

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

__attribute__((noinline)) static uint64_t work(uint64_t *count)
{
	uint64_t x = 1, n = 0;

	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		for (int i = 0; i < 1000; i++)
			x = x * 6364136223846793005ULL + 1;
		__asm__ volatile("" : "+r"(x));
		n++;
	}
	*count = n;
	return x;
}

/* The empty statement keeps the call from becoming a jump. */
__attribute__((noinline)) static uint64_t outer(int left, uint64_t *count);

__attribute__((noinline)) static uint64_t inner(int left, uint64_t *count)
{
	uint64_t x = left > 0 ? outer(left - 1, count) : work(count);

	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

static uint64_t outer(int left, uint64_t *count)
{
	uint64_t x = left > 0 ? inner(left - 1, count) : work(count);

	__asm__ volatile("" : "+r"(x));
	return x + 2;
}

static void *run(void *argument)
{
	const uintptr_t number = (uintptr_t)argument;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(number % (unsigned)CPU_SETSIZE, &cpu);
	pthread_setaffinity_np(pthread_self(), sizeof(cpu), &cpu);
	pthread_barrier_wait(&all);
	return (void *)(uintptr_t)inner(depth, counts[number]);
}

int main(int argc, char **argv)
{
	pthread_t threads[MOST];
	uint64_t begin, end, sum = 0;
	unsigned n;
	FILE *file;

	if (argc < 5 || (n = (unsigned)atoi(argv[3])) < 1 || n > MOST || !(file = fopen(argv[4], "w")))
		return 2;
	depth = atoi(argv[2]);
	pthread_barrier_init(&all, NULL, n + 1);
	for (uintptr_t i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			return 2;
	pthread_barrier_wait(&all);
	begin = now(CLOCK_MONOTONIC);
	end = begin + (uint64_t)(atof(argv[1]) * 1e9);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME,
			&(struct timespec){ (time_t)(end / 1000000000), (long)(end % 1000000000) }, NULL);
	over = 1;
	for (unsigned i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		sum += counts[i][0];
	}
	/* what it really was: the sleeper may be woken late when every CPU is busy */
	end = now(CLOCK_MONOTONIC);
	fprintf(file, "{\"iterations\": %llu, \"ns\": %llu, \"end\": %llu, \"cpu_ns\": %llu}\n",
		(unsigned long long)sum, (unsigned long long)(end - begin), (unsigned long long)end,
		(unsigned long long)now(CLOCK_PROCESS_CPUTIME_ID));
	return fclose(file) != 0;
}
