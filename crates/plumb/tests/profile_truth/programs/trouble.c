/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Programs that make a profiler's life hard. All compute in the_work.
 * Usage: trouble spin SECONDS        computes
 *        trouble delete SECONDS      removes its own file first
 *        trouble exec SECONDS PROGRAM ARGUMENTS...   computes, then becomes another program
 *        trouble kill SECONDS        computes, then kills itself
 *        trouble short PER_SECOND SECONDS    so many children a second; each computes for 0.3 ms
 *        trouble shell PER_SECOND SECONDS PROGRAM   the same, each executes PROGRAM spin
 *        trouble code SECONDS        computes in code that it made itself and tells nobody about
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile uint64_t sink = 1;

static double at(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double now(void)
{
	return at(CLOCK_MONOTONIC);
}

/* Of CPU time, so that the answer is known on a busy machine too. */
__attribute__((noinline)) void the_work(double seconds)
{
	const double end = at(CLOCK_THREAD_CPUTIME_ID) + seconds;

	do {
		uint64_t x = sink;

		for (int i = 0; i < 10000; i++)
			x = x * 6364136223846793005ULL + 1;
		sink = x;
	} while (at(CLOCK_THREAD_CPUTIME_ID) < end);
}

static int children(double rate, double seconds, char *program)
{
	const double begin = now();
	int started = 0, ended = 0;

	while (now() < begin + seconds) {
		if (started < (now() - begin) * rate) {
			const pid_t child = fork();

			if (child < 0)
				return 3;
			if (child == 0) {
				if (program)
					execl(program, "shortlived", "spin", "0.0003", (char *)NULL);
				else
					the_work(0.0003);
				_exit(0);
			}
			started++;
		} else {
			usleep(200);
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			ended++;
	}
	while (wait(NULL) > 0)
		ended++;
	printf("children %d\n", ended);
	return 0;
}

static int own_code(double seconds)
{
#if defined(__x86_64__)
	/* push %rbp; mov %rsp,%rbp; 1: imul %rdi,%rax; inc %rax; dec %rsi; jne 1b; pop %rbp; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x0f, 0xaf, 0xc7, 0x48,
					      0xff, 0xc0, 0x48, 0xff, 0xce, 0x75, 0xf4, 0x5d, 0xc3 };
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t (*made)(uint64_t, uint64_t);

	if (page == MAP_FAILED)
		return 3;
	memcpy(page, code, sizeof(code));
	if (mprotect(page, 4096, PROT_READ | PROT_EXEC))
		return 3;
	memcpy(&made, &page, sizeof(made));
	for (const double end = at(CLOCK_THREAD_CPUTIME_ID) + seconds; at(CLOCK_THREAD_CPUTIME_ID) < end;)
		sink += made(6364136223846793005ULL, 100000);
	return 0;
#else
	(void)seconds;
	return 4;
#endif
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	const double number = argc > 2 ? atof(argv[2]) : 0;

	if (!strcmp(what, "spin")) {
		the_work(number);
	} else if (!strcmp(what, "delete")) {
		char own[4096];
		const ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

		if (n < 0)
			return 3;
		own[n] = 0;
		if (unlink(own))
			return 3;
		the_work(number);
	} else if (!strcmp(what, "exec") && argc > 3) {
		the_work(number);
		execv(argv[3], argv + 3);
		return 3;
	} else if (!strcmp(what, "kill")) {
		the_work(number);
		kill(getpid(), SIGKILL);
	} else if (!strcmp(what, "short") && argc > 3) {
		return children(number, atof(argv[3]), NULL);
	} else if (!strcmp(what, "shell") && argc > 4) {
		return children(number, atof(argv[3]), argv[4]);
	} else if (!strcmp(what, "code")) {
		return own_code(number);
	} else {
		return 2;
	}
	return 0;
}
