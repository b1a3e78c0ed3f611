/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A server on TCP of which one request in a hundred is slow, for one cause.
 * usage: tail CAUSE REQUESTS FILE [PORT]
 * CAUSE: lock    another thread of it has the mutex for 20 ms
 *        pause   a thread of it stops all others for 20 ms, as a garbage collector does
 *        fsync   the request writes 4 MiB to FILE and waits for them
 *        quota   a thread of it uses up what its cgroup may compute
 *        read    the request reads FILE, which somebody else may be reading too
 *        relay   the request asks another server, which is at PORT
 * Its clients are threads of a process of their own, which prints how long the requests took.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 4, EVERY = 100 };

static const char *cause;
static int file, upstream_port;
static __thread int upstream;
static long served;
static long requests;
static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
static pthread_t servers[CLIENTS];
static int stopped;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t rounds_per_ms;

static void turn(uint64_t rounds)
{
	for (volatile uint64_t i = 0; i < rounds; i++)
		;
}

/* Work, not time: what a quota stops is made up for. */
static void compute(uint64_t ns)
{
	turn(ns * rounds_per_ms / 1000000);
}

static void calibrate(void)
{
	for (int i = 0; i < 10; i++) {
		uint64_t begin = now(), rounds = 1000000;
		turn(rounds);
		rounds = rounds * 1000000 / (now() - begin);
		if (rounds > rounds_per_ms)
			rounds_per_ms = rounds;
	}
}

static void rest(uint64_t ns)
{
	struct timespec t = { .tv_nsec = ns };

	nanosleep(&t, NULL);
}

static int is(const char *word)
{
	return !strcmp(cause, word);
}

static int dial(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (s < 0 || connect(s, (void *)&to, sizeof(to)))
		exit(1);
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return s;
}

static void stop(int unused)
{
	(void)unused;
	while (__atomic_load_n(&stopped, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &stopped, FUTEX_WAIT_PRIVATE, 1, NULL);
}

/* Takes the mutex or the CPU, or stops the world, now and then. */
static void *disturb(void *unused)
{
	for (;;) {
		rest(is("quota") ? 400000000 : 100000000);
		if (is("quota")) {
			compute(60000000);
			continue;
		}
		if (is("lock")) {
			pthread_mutex_lock(&shared);
			rest(20000000);
			pthread_mutex_unlock(&shared);
			continue;
		}
		__atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
		for (int i = 0; i < CLIENTS; i++)
			pthread_kill(servers[i], SIGUSR1);
		compute(20000000);
		__atomic_store_n(&stopped, 0, __ATOMIC_RELEASE);
		syscall(SYS_futex, &stopped, FUTEX_WAKE_PRIVATE, CLIENTS);
	}
	return unused;
}

static void serve_one(int s, long n)
{
	char text[512] = "answer";

	compute(100000);
	if (is("lock")) {
		pthread_mutex_lock(&shared);
		compute(10000);
		pthread_mutex_unlock(&shared);
	}
	if (n % EVERY == 0 && is("fsync")) {
		static char block[1 << 20];
		for (int i = 0; i < 4; i++)
			if (pwrite(file, block, sizeof(block), (off_t)i << 20) < 0)
				exit(1);
		fsync(file);
	}
	if (is("read")) {
		static __thread char *block;
		if (!block && posix_memalign((void **)&block, 4096, 4096))
			exit(1);
		struct stat st;
		fstat(file, &st);
		if (pread(file, block, 4096, (random() % (st.st_size >> 12)) << 12) < 0)
			exit(1);
	}
	if (is("relay") && !upstream)
		upstream = dial(upstream_port);
	if (is("relay") && (send(upstream, text, 64, 0) < 0 || recv(upstream, text, 64, MSG_WAITALL) != 64))
		exit(1);
	if (send(s, text, sizeof(text), 0) < 0)
		exit(1);
}

static void *serve(void *arg)
{
	char text[64];
	int s = (int)(intptr_t)arg;

	while (recv(s, text, sizeof(text), MSG_WAITALL) == sizeof(text))
		serve_one(s, __atomic_add_fetch(&served, 1, __ATOMIC_RELAXED));
	close(s);
	return NULL;
}

static int port;
static uint64_t *took;

static void *ask(void *arg)
{
	char text[512] = "ask";
	int s = dial(port);

	for (long i = (intptr_t)arg; i < requests; i += CLIENTS) {
		uint64_t begin = now();
		if (send(s, text, 64, 0) != 64 || recv(s, text, sizeof(text), MSG_WAITALL) != sizeof(text))
			exit(1);
		took[i] = now() - begin;
		rest(1000000);
	}
	close(s);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : *(const uint64_t *)a > *(const uint64_t *)b;
}

/* The clients: a process of its own. */
static int client(void)
{
	pthread_t threads[CLIENTS];

	took = calloc(requests, sizeof(*took));
	for (intptr_t i = 0; i < CLIENTS; i++)
		pthread_create(&threads[i], NULL, ask, (void *)i);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	qsort(took, requests, sizeof(*took), compare);
	printf("p50 %lu p99 %lu max %lu\n", (unsigned long)took[requests / 2],
	       (unsigned long)took[requests * 99 / 100], (unsigned long)took[requests - 1]);
	return 0;
}

static void *echo(void *arg)
{
	char text[64];
	int s = (int)(intptr_t)arg;

	while (recv(s, text, sizeof(text), MSG_WAITALL) == sizeof(text)) {
		compute(100000);
		if (send(s, text, sizeof(text), 0) < 0)
			break;
	}
	close(s);
	return NULL;
}

/* Serves every connection in a thread of its own. */
static void accept_all(int listener, void *(*with)(void *))
{
	int one = 1;

	for (int i = 0; i < CLIENTS; i++) {
		int s = accept(listener, NULL, NULL);
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		pthread_create(&servers[i], NULL, with, (void *)(intptr_t)s);
	}
}

/* They end with their connections. */
static void join_all(void)
{
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(servers[i], NULL);
}

/* In a process that is no child of this one: what is recorded with this one does not include it. */
static int apart(void)
{
	int ended;
	pid_t child = fork();

	if (!child) {
		if (fork())
			_exit(0);
		return 1;
	}
	waitpid(child, &ended, 0);
	return 0;
}

static int listen_at(int at, int *got)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(at) };
	socklen_t size = sizeof(here);
	int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);

	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (void *)&here, size) || listen(s, CLIENTS) || getsockname(s, (void *)&here, &size))
		exit(1);
	*got = ntohs(here.sin_port);
	return s;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop, .sa_flags = SA_RESTART };
	pthread_t other;
	int listener;

	if (argc < 4)
		return 2;
	calibrate();
	cause = argv[1];
	requests = atol(argv[2]);
	file = open(argv[3], O_CREAT | O_RDWR | (is("read") ? O_DIRECT : 0), 0600);
	if (file < 0)
		return 1;
	if (is("relay")) {
		listener = listen_at(argc > 4 ? atoi(argv[4]) : 0, &upstream_port);
		if (apart()) {
			accept_all(listener, echo);
			join_all();
			return 0;
		}
		close(listener);
	}
	listener = listen_at(0, &port);
	if (apart())
		return client();
	sigaction(SIGUSR1, &action, NULL);
	accept_all(listener, serve);
	if (is("lock") || is("pause") || is("quota"))
		pthread_create(&other, NULL, disturb, NULL);
	join_all();
	return 0;
}
