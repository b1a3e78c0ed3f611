/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * 150 calls deep, and below the 75th a frame of so many bytes; computes at the end of it.
 * Usage: deep BYTES SECONDS
 */
#include <alloca.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

volatile uint64_t sink = 1;

__attribute__((noinline)) uint64_t at_the_bottom(double seconds)
{
	struct timespec t;
	double begin, now;

	clock_gettime(CLOCK_MONOTONIC, &t);
	begin = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
	do {
		uint64_t x = sink;

		for (int i = 0; i < 40000; i++)
			x = x * 6364136223846793005ULL + 1;
		sink = x;
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
	} while (now < begin + seconds);
	return sink;
}

/* Two functions that call each other, or the compiler would make a loop of one. */
__attribute__((noinline)) uint64_t go_down_too(int depth, size_t bytes, double seconds);

__attribute__((noinline)) uint64_t go_down(int depth, size_t bytes, double seconds)
{
	volatile char frame[100];

	frame[depth % 100] = (char)depth;
	if (!depth)
		return at_the_bottom(seconds) + (uint64_t)frame[1];
	return go_down_too(depth - 1, bytes, seconds) + (uint64_t)frame[depth % 100];
}

uint64_t go_down_too(int depth, size_t bytes, double seconds)
{
	/* alloca makes this frame known by %rbp alone: other rules of unwinding */
	char *wide = alloca(depth == 75 ? bytes + 100 : 100);
	uint64_t below;

	memset(wide, depth, 100);
	__asm__ volatile("" : : "r"(wide) : "memory");
	below = depth ? go_down(depth - 1, bytes, seconds) : at_the_bottom(seconds);
	return below + (uint64_t)wide[depth % 100];
}

int main(int argc, char **argv)
{
	return argc < 3 ? 2 : (int)(go_down(150, (size_t)atol(argv[1]), atof(argv[2])) & 1) & 0;
}
