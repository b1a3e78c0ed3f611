/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Jobs between two USDT probes, as sys/sdt.h writes them; the first has a semaphore and is passed only when that is set.
 * Prints how many of the jobs passed it, and how long they took in all, ns. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define JOBS 300
#define PROBE(provider, name, semaphore, arguments, ...) \
	__asm__ volatile("990: nop\n" \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n" \
			 ".balign 4\n" \
			 ".4byte 992f-991f, 994f-993f, 3\n" \
			 "991: .asciz \"stapsdt\"\n" \
			 "992: .balign 4\n" \
			 "993: .8byte 990b, _.stapsdt.base, " semaphore "\n" \
			 ".asciz \"" provider "\"\n" \
			 ".asciz \"" name "\"\n" \
			 ".asciz \"" arguments "\"\n" \
			 "994: .balign 4\n" \
			 ".popsection\n" \
			 ".ifndef _.stapsdt.base\n" \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
			 ".weak _.stapsdt.base\n" \
			 ".hidden _.stapsdt.base\n" \
			 "_.stapsdt.base: .space 1\n" \
			 ".size _.stapsdt.base, 1\n" \
			 ".popsection\n" \
			 ".endif\n" \
			 : \
			 : __VA_ARGS__)

#ifdef GO
/* what every program has that Go's linker made */
const char buildinfo[] __attribute__((section(".go.buildinfo"), used)) = "";
#endif

volatile unsigned short begin_semaphore __attribute__((section(".probes"), used));

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(void)
{
	static const char *const text[] = { "select 1", "update t set a = 2" };
	long passed = 0, took = 0;

	for (int i = 0; i < JOBS; i++) {
		volatile short kind = -(i % 3);
		/* a probe reads no memory that the program has not touched */
		volatile char first = text[i % 2][0];
		long start = now() + 0 * first;

		if (begin_semaphore) {
			PROBE("mine", "begin", "begin_semaphore", "8@%0 -2@%1 -4@$-7 1@%b2", "r"(text[i % 2]), "m"(kind), "r"(i));
			passed++;
		}
		usleep(i % 2 ? 2000 : 1000);
		if (i % 2)
			PROBE("mine", "end", "0", "", "r"(i));
		else
			PROBE("mine", "end", "0", "", "r"(start));
		took += now() - start;
	}
	printf("%ld %ld\n", passed, took);
	return 0;
}
