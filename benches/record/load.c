/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The loads of the recorder's benchmark. Each times itself, so that nothing
 * that a recorder does at its start or end is inside, and in batches of some
 * milliseconds, so that the median batch leaves out what disturbed a few.
 * The batches are dealt to several fresh processes: which physical pages a
 * process gets moves its times by more than the events cost.
 *
 *   load getppid  OUT CPU PRIO BATCHES N         N system calls
 *   load pingpong OUT CPU PRIO BATCHES N         N round trips of two processes on one CPU
 *   load read     OUT CPU PRIO BATCHES N DEVICE  N random 4 KiB O_DIRECT reads
 *   load rate     OUT CPU PRIO SECONDS RATE      about RATE events a second, paced every ms
 *
 * PRIO is a SCHED_FIFO priority, 0 for none. OUT gets one line per batch:
 * "wall-ns-per-N cpu-ns-per-N"; for rate one line: seconds, CPU seconds,
 * round trips, system calls. The times go to a file because the output
 * streams belong to the recorder that starts this program.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void settle(int cpu, int prio)
{
	struct sched_param param = { .sched_priority = prio };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
	if (prio && sched_setscheduler(0, SCHED_FIFO, &param))
		die("sched_setscheduler");
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		die("mlockall");
}

/* The other player; its end of the table survives no parent. */
struct mate {
	int to, from;
	pid_t pid;
	clockid_t clock;
};

static struct mate mate_start(void)
{
	struct mate m = { 0 };
	int there[2], back[2];

	if (pipe(there) || pipe(back))
		die("pipe");
	m.pid = fork();
	if (m.pid < 0)
		die("fork");
	if (!m.pid) {
		char c;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(there[1]);
		close(back[0]);
		while (read(there[0], &c, 1) == 1)
			if (write(back[1], &c, 1) != 1)
				break;
		_exit(0);
	}
	close(there[0]);
	close(back[1]);
	m.to = there[1];
	m.from = back[0];
	if (clock_getcpuclockid(m.pid, &m.clock))
		die("clock_getcpuclockid");
	return m;
}

static void mate_trip(struct mate *m)
{
	char c = 0;

	if (write(m->to, &c, 1) != 1 || read(m->from, &c, 1) != 1)
		die("pipe");
}

static void mate_stop(struct mate *m)
{
	close(m->to);
	waitpid(m->pid, NULL, 0);
}

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

enum kind { GETPPID, PINGPONG, READ };

#define PARTS 10

static void part(enum kind kind, uint64_t (*times)[2], int count, long n, const char *device)
{
	struct mate mate = { 0 };
	uint64_t blocks = 0;
	char *page = NULL;
	int fd = -1;

	if (kind == PINGPONG)
		mate = mate_start();
	if (kind == READ) {
		fd = open(device, O_RDONLY | O_DIRECT | O_CLOEXEC);
		if (fd < 0 || ioctl(fd, BLKGETSIZE64, &blocks))
			die(device);
		blocks /= 4096;
		if (posix_memalign((void **)&page, 4096, 4096))
			die("memory");
	}
	for (int b = -1; b < count; b++) { /* batch -1 warms up */
		uint64_t cpu = now(CLOCK_PROCESS_CPUTIME_ID);
		uint64_t other = kind == PINGPONG ? now(mate.clock) : 0;
		uint64_t wall = now(CLOCK_MONOTONIC);

		for (long i = 0; i < n; i++) {
			if (kind == GETPPID)
				syscall(SYS_getppid);
			else if (kind == PINGPONG)
				mate_trip(&mate);
			else if (pread(fd, page, 4096, next_random() % blocks * 4096) != 4096)
				die("read");
		}
		wall = now(CLOCK_MONOTONIC) - wall;
		cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		if (kind == PINGPONG)
			cpu += now(mate.clock) - other;
		if (b >= 0) {
			times[b][0] = wall;
			times[b][1] = cpu;
		}
	}
	if (kind == PINGPONG)
		mate_stop(&mate);
}

static int batches(enum kind kind, FILE *out, int count, long n, const char *device)
{
	uint64_t (*times)[2] = mmap(NULL, count * sizeof(*times), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (times == MAP_FAILED)
		die("memory");
	for (int p = 0; p < PARTS; p++) {
		int from = count * p / PARTS;
		int to = count * (p + 1) / PARTS;
		int status;
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			seed += p; /* not the same blocks again */
			part(kind, times + from, to - from, n, device);
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			return 1;
	}
	for (int b = 0; b < count; b++)
		fprintf(out, "%.2f %.2f\n", (double)times[b][0] / n, (double)times[b][1] / n);
	return 0;
}

/* A round trip of the ping-pong is 2 switches and 4 system calls; 6 more
 * calls make a dozen events. */
#define CALLS_A_TRIP 6
#define EVENTS_A_TRIP 12

static int rate(FILE *out, double seconds, double per_second)
{
	struct mate mate = mate_start();
	uint64_t start = now(CLOCK_MONOTONIC);
	uint64_t end = start + (uint64_t)(seconds * 1e9);
	uint64_t trips = 0;
	uint64_t next = start;
	struct rusage self, child;
	double owed = 0;

	while (next < end) {
		struct timespec at;

		for (owed += per_second / 1000 / EVENTS_A_TRIP; owed >= 1; owed--) {
			mate_trip(&mate);
			for (int i = 0; i < CALLS_A_TRIP; i++)
				syscall(SYS_getppid);
			trips++;
		}
		next += 1000000;
		at.tv_sec = next / 1000000000;
		at.tv_nsec = next % 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	end = now(CLOCK_MONOTONIC);
	mate_stop(&mate);
	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &child);
#define SECONDS(t) ((t).tv_sec + (t).tv_usec / 1e6)
	fprintf(out, "%.3f %.3f %llu %llu\n", (end - start) / 1e9,
		SECONDS(self.ru_utime) + SECONDS(self.ru_stime) + SECONDS(child.ru_utime) + SECONDS(child.ru_stime),
		(unsigned long long)trips, (unsigned long long)(trips * (CALLS_A_TRIP + 4)));
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int prio;
	FILE *out;

	if (argc < 7) {
		fprintf(stderr, "usage: load getppid|pingpong|read OUT CPU PRIO BATCHES N [DEVICE]\n"
				"       load rate OUT CPU PRIO SECONDS RATE\n");
		return 2;
	}
	out = fopen(argv[2], "we");
	if (!out)
		die(argv[2]);
	prio = atoi(argv[4]);
	settle(atoi(argv[3]), prio);
	if (!strcmp(what, "getppid"))
		return batches(GETPPID, out, atoi(argv[5]), atol(argv[6]), NULL);
	if (!strcmp(what, "pingpong"))
		return batches(PINGPONG, out, atoi(argv[5]), atol(argv[6]), NULL);
	if (!strcmp(what, "read") && argc > 7)
		return batches(READ, out, atoi(argv[5]), atol(argv[6]), argv[7]);
	if (!strcmp(what, "rate"))
		return rate(out, atof(argv[5]), atof(argv[6]));
	fprintf(stderr, "load: no load '%s'\n", what);
	return 2;
}
