/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A loop with one slow instruction among fast ones.
 * Usage: slow divide|chase SECONDS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Each quotient is the next dividend's part: nothing runs beside the division. */
__attribute__((noinline)) uint64_t slow_divide(uint64_t n, uint64_t x, uint64_t by)
{
	uint64_t a = 1, b = 2, c = 3;

	while (n--) {
		/* the upper half makes it a division of 128 bits, slow on every processor */
		__asm__ volatile("add $1, %1\n\t"
				 "add $3, %2\n\t"
				 "mov %0, %%rax\n\t"
				 "mov %5, %%rdx\n\t"
				 "shr $1, %%rdx\n\t"
				 "div %4\n\t"
				 "or $1, %%rax\n\t"
				 "mov %%rax, %0\n\t"
				 "add $5, %3"
				 : "+r"(x), "+r"(a), "+r"(b), "+r"(c)
				 : "r"(by), "r"(by)
				 : "rax", "rdx", "cc");
	}
	return x + a + b + c;
}

/* Each load's address is the value that the one before it loaded. */
__attribute__((noinline)) void **slow_chase(void **p, uint64_t n, uint64_t *sum)
{
	uint64_t a = *sum;

	while (n--) {
		__asm__ volatile("mov (%0), %0\n\t"
				 "add $1, %1\n\t"
				 "add $3, %1\n\t"
				 "xor $5, %1"
				 : "+r"(p), "+r"(a)
				 :
				 : "memory", "cc");
	}
	*sum = a;
	return p;
}

/* A ring through all lines of some memory, in random order. */
static void **ring(size_t bytes)
{
	const size_t lines = bytes / 64, step = 64 / sizeof(void *);
	void **memory = aligned_alloc(4096, bytes);
	uint32_t *order = malloc(lines * sizeof(*order));
	uint64_t random = 88172645463325252ULL;

	if (!memory || !order)
		exit(2);
	for (size_t i = 0; i < lines; i++)
		order[i] = (uint32_t)i;
	for (size_t i = lines - 1; i > 0; i--) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		const size_t j = random % (i + 1);
		const uint32_t swapped = order[i];

		order[i] = order[j];
		order[j] = swapped;
	}
	for (size_t i = 0; i < lines; i++)
		memory[order[i] * step] = &memory[order[(i + 1) % lines] * step];
	free(order);
	return memory;
}

int main(int argc, char **argv)
{
	uint64_t x = 12345, sum = 0;
	double end;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "divide")) {
		for (end = now() + atof(argv[2]); now() < end;)
			x = slow_divide(100000, x, 0x123456789abcdefULL);
	} else {
		void **p = ring(256 << 20);

		for (end = now() + atof(argv[2]); now() < end;)
			p = slow_chase(p, 100000, &sum);
		x = (uint64_t)p;
	}
	printf("%llu %llu\n", (unsigned long long)x, (unsigned long long)sum);
	return 0;
}
