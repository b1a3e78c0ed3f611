/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Many functions with many different shares, some of it in the kernel: for
 * profilers to agree about. Usage: busy SECONDS
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

volatile uint64_t sink = 1;

#define WORK(number) \
	__attribute__((noinline)) void work_##number(void) \
	{ \
		uint64_t x = sink; \
\
		for (int i = 0; i < 3000 * (number); i++) \
			x = x * 6364136223846793005ULL + (number); \
		sink = x; \
	}

WORK(1)
WORK(2) WORK(3) WORK(4) WORK(5) WORK(6) WORK(7) WORK(8) WORK(9) WORK(10) WORK(11) WORK(12) WORK(13) WORK(14)
	WORK(15) WORK(16)

		static int descending(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

__attribute__((noinline)) void sorts(uint32_t *some, size_t n)
{
	uint32_t x = (uint32_t)sink;

	for (size_t i = 0; i < n; i++)
		some[i] = x = x * 1664525 + 1013904223;
	qsort(some, n, sizeof(*some), descending);
}

__attribute__((noinline)) void copies(char *to, const char *from, size_t n)
{
	for (int i = 0; i < 10; i++)
		memcpy(to + i, from, n);
}

__attribute__((noinline)) void reads(int file, char *to, size_t n)
{
	for (int i = 0; i < 20; i++)
		if (read(file, to, n) < 0)
			_exit(3);
}

int main(int argc, char **argv)
{
	static char from[1 << 18], to[(1 << 18) + 16];
	static uint32_t some[2000];
	const int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC),
		  random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	struct timespec begin, now;

	if (argc < 2 || zero < 0 || random < 0)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		void (*const work[])(void) = { work_1,  work_2,  work_3,  work_4,  work_5,  work_6,
					       work_7,  work_8,  work_9,  work_10, work_11, work_12,
					       work_13, work_14, work_15, work_16 };

		for (size_t i = 0; i < sizeof(work) / sizeof(*work); i++)
			work[i]();
		sorts(some, 2000);
		copies(to, from, sizeof(from));
		reads(zero, to, sizeof(from) / 2);
		reads(random, to, 1000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9 <
		 atof(argv[1]));
	return 0;
}
