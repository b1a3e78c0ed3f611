/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Waits 40 % of its time for a disk in sync_file and 60 % for a mutex in
 * wait_for_lock: each time for one and a half of what the disk just took. The
 * other thread holds the mutex until an absolute moment.
 * Usage: waits ROUNDS DEVICE TRUTH; TRUTH gets the first thread's id and both
 * sums by its own clock: `thread TID`, `sync_file NS`, `wait_for_lock NS`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int held, last;
static _Atomic uint64_t until;
static sem_t go, again;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void patiently(sem_t *semaphore)
{
	while (sem_wait(semaphore) && errno == EINTR)
		;
}

static void *hold(void *unused)
{
	while (!last) {
		struct timespec end;

		pthread_mutex_lock(&mutex);
		held = 1;
		patiently(&go);
		end = (struct timespec){ (time_t)(until / 1000000000), (long)(until % 1000000000) };
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
			;
		pthread_mutex_unlock(&mutex);
		patiently(&again);
	}
	return unused;
}

/* The statement behind the call keeps it from becoming a jump, which would leave no frame. */
__attribute__((noinline)) uint64_t sync_file(int file, const void *block, off_t at)
{
	uint64_t begin = now();

	if (pwrite(file, block, 4096, at) != 4096 || fdatasync(file))
		_exit(3);
	return now() - begin;
}

__attribute__((noinline)) uint64_t wait_for_lock(void)
{
	uint64_t begin = now();

	pthread_mutex_lock(&mutex);
	return now() - begin;
}

int main(int argc, char **argv)
{
	static char block[4096];
	uint64_t synced = 0, waited = 0;
	pthread_t holder;
	FILE *truth;
	int file;

	if (argc < 4 || (file = open(argv[2], O_WRONLY)) < 0 || !(truth = fopen(argv[3], "w")))
		return 2;
	sem_init(&go, 0, 0);
	sem_init(&again, 0, 0);
	if (pthread_create(&holder, NULL, hold, NULL))
		return 2;
	for (int rounds = atoi(argv[1]), n = 0; n < rounds; n++) {
		uint64_t took = 0;

		/* 4 KiB apart in a new place each time: no read before the write */
		for (int i = 0; i < 4; i++)
			took += sync_file(file, block, (off_t)(4 * n + i) * 4096);
		synced += took;
		while (!held)
			sched_yield(); /* it had 40 ms for it */
		until = now() + took * 3 / 2;
		last = n == rounds - 1;
		sem_post(&go);
		waited += wait_for_lock();
		pthread_mutex_unlock(&mutex);
		held = 0;
		sem_post(&again);
	}
	pthread_join(holder, NULL);
	fprintf(truth, "thread %d\nsync_file %llu\nwait_for_lock %llu\n", (int)getpid(),
		(unsigned long long)synced, (unsigned long long)waited);
	return fclose(truth) != 0;
}
