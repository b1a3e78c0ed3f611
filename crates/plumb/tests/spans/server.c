/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A server whose requests' times are known: five kinds, each with one cause, in turn.
 * usage: server FILE REQUESTS; tells each kind's count and its own measure of the time (ns).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CPU, LOCK, SYNC, PEER, QUEUE, KINDS };
static const char *const names[KINDS] = { "cpu", "lock", "sync", "peer", "queue" };

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void compute(uint64_t ns)
{
	uint64_t end = now() + ns;

	while (now() < end)
		;
}

static void rest(uint64_t ns)
{
	struct timespec t = { .tv_nsec = ns };

	nanosleep(&t, NULL);
}

static pthread_mutex_t row = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int asked_for_row, has_row, queued, done, ends;

/* Takes the lock when it is asked to, and keeps it for a while. */
static void *hold(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&queue);
		while (!asked_for_row && !ends)
			pthread_cond_wait(&changed, &queue);
		if (ends)
			break;
		asked_for_row = 0;
		pthread_mutex_lock(&row);
		has_row = 1;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&queue);
		rest(500000);
		pthread_mutex_unlock(&row);
	}
	pthread_mutex_unlock(&queue);
	return unused;
}

/* Takes work from the queue. */
static void *work(void *unused)
{
	pthread_mutex_lock(&queue);
	while (!ends) {
		if (!queued) {
			pthread_cond_wait(&changed, &queue);
			continue;
		}
		queued = 0;
		pthread_mutex_unlock(&queue);
		compute(400000);
		pthread_mutex_lock(&queue);
		done = 1;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&queue);
	return unused;
}

static int peer[2], file;

__attribute__((noinline)) void handle(int kind, const char *text)
{
	char byte = 1;

	switch (kind) {
	case CPU:
		compute(400000);
		break;
	case LOCK:
		pthread_mutex_lock(&row);
		has_row = 0;
		pthread_mutex_unlock(&row);
		break;
	case SYNC:
		if (pwrite(file, text, strlen(text), 0) < 0 || fdatasync(file))
			exit(1);
		break;
	case PEER:
		if (write(peer[0], &byte, 1) != 1 || read(peer[0], &byte, 1) != 1)
			exit(1);
		break;
	case QUEUE:
		pthread_mutex_lock(&queue);
		queued = 1;
		pthread_cond_broadcast(&changed);
		while (!done)
			pthread_cond_wait(&changed, &queue);
		done = 0;
		pthread_mutex_unlock(&queue);
		break;
	}
}

int main(int argc, char **argv)
{
	uint64_t time[KINDS] = {};
	long requests = argc > 2 ? atol(argv[2]) : 0, count[KINDS] = {};
	pthread_t holder, worker;
	char byte, text[64];

	file = open(argv[1], O_CREAT | O_RDWR, 0600);
	if (file < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, peer))
		return 1;
	pid_t child = fork();
	if (!child) {
		close(peer[0]);
		while (read(peer[1], &byte, 1) == 1) {
			rest(400000);
			if (write(peer[1], &byte, 1) != 1)
				break;
		}
		return 0;
	}
	close(peer[1]);
	pthread_create(&holder, NULL, hold, NULL);
	pthread_create(&worker, NULL, work, NULL);
	for (long i = 0; i < requests; i++) {
		int kind = i % KINDS;

		if (kind == LOCK) {
			pthread_mutex_lock(&queue);
			asked_for_row = 1;
			pthread_cond_broadcast(&changed);
			while (!has_row)
				pthread_cond_wait(&changed, &queue);
			pthread_mutex_unlock(&queue);
		}
		/* as a statement has it: a literal that differs each time */
		snprintf(text, sizeof(text), "do %s where id = %ld", names[kind], i);
		uint64_t begin = now();
		handle(kind, text);
		time[kind] += now() - begin;
		count[kind]++;
	}
	pthread_mutex_lock(&queue);
	ends = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&queue);
	pthread_join(holder, NULL);
	pthread_join(worker, NULL);
	close(peer[0]);
	waitpid(child, NULL, 0);
	for (int kind = 0; kind < KINDS; kind++)
		printf("%s %ld %lu\n", names[kind], count[kind], (unsigned long)time[kind]);
	return 0;
}
