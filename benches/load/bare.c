/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The least that a load can cost: a loop around the call and nothing else, or,
 * timed, with the clock read before and after each one.
 *
 * bare WHAT TIMED PATH BLOCK SIZE SECONDS COUNT
 *   WHAT     null, pread, direct (pread past the page cache), fdatasync (pwrite
 *            and fdatasync), create (PATH is a directory)
 *   TIMED    0 or 1
 *   SECONDS, COUNT: ends with the first; 0 SECONDS: only COUNT
 * prints: operations, ns, longest operation in ns (timed)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what, const char *path)
{
	fprintf(stderr, "bare: %s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

enum what { NOTHING, READ, WRITE, CREATE };

struct load {
	enum what what;
	int fd, directory;
	char *buffer;
	size_t block;
	uint64_t blocks, state, made;
};

static inline off_t place(struct load *l)
{
	/* xorshift64 (Marsaglia 2003), scaled to the blocks without a division */
	l->state ^= l->state << 13;
	l->state ^= l->state >> 7;
	l->state ^= l->state << 17;
	return (off_t)(((l->state >> 32) * l->blocks >> 32) * l->block);
}

static inline void operation(struct load *l)
{
	char name[24];
	off_t at = place(l);
	int fd;

	switch (l->what) {
	case NOTHING:
		__asm__ volatile("" ::"r"(at) : "memory");
		break;
	case READ:
		if (pread(l->fd, l->buffer, l->block, at) != (ssize_t)l->block)
			fail("pread", "of the file");
		break;
	case WRITE:
		if (pwrite(l->fd, l->buffer, l->block, at) != (ssize_t)l->block || fdatasync(l->fd))
			fail("pwrite, fdatasync", "of the file");
		break;
	case CREATE:
		snprintf(name, sizeof(name), "%010llu.txt", (unsigned long long)l->made++);
		fd = openat(l->directory, name, O_CREAT | O_EXCL | O_WRONLY, 0600);
		if (fd < 0 || close(fd))
			fail("open", name);
		break;
	}
}

int main(int argc, char **argv)
{
	struct load l = { .state = 88172645463325252u };
	uint64_t begin, end, deadline, done = 0, count, longest = 0, batch;
	int timed, flags = O_RDONLY;

	if (argc != 8) {
		fprintf(stderr, "usage: bare WHAT TIMED PATH BLOCK SIZE SECONDS COUNT\n");
		return 2;
	}
	timed = atoi(argv[2]);
	l.block = strtoul(argv[4], NULL, 10);
	l.blocks = strtoull(argv[5], NULL, 10) / l.block;
	deadline = (uint64_t)(atof(argv[6]) * 1e9);
	count = strtoull(argv[7], NULL, 10);
	if (!strcmp(argv[1], "null")) {
		l.what = NOTHING;
	} else if (!strcmp(argv[1], "pread") || !strcmp(argv[1], "direct")) {
		l.what = READ;
		if (argv[1][0] == 'd')
			flags |= O_DIRECT;
	} else if (!strcmp(argv[1], "fdatasync")) {
		l.what = WRITE;
		flags = O_WRONLY;
	} else if (!strcmp(argv[1], "create")) {
		l.what = CREATE;
		flags = O_RDONLY | O_DIRECTORY;
	} else {
		fprintf(stderr, "bare: what is %s?\n", argv[1]);
		return 2;
	}
	if (l.what != NOTHING && (l.fd = open(argv[3], flags)) < 0)
		fail("open", argv[3]);
	l.directory = l.fd;
	if (posix_memalign((void **)&l.buffer, 4096, l.block))
		return 1;
	memset(l.buffer, 'x', l.block);
	/* without a clock of its own a loop looks at it now and then */
	batch = l.what == NOTHING ? 4096 : l.what == READ && !(flags & O_DIRECT) ? 256 : 16;

	begin = end = now();
	while (done < count && (!deadline || end - begin < deadline)) {
		uint64_t last = count - done < batch ? count : done + batch;
		if (timed) {
			for (; done < last; done++) {
				uint64_t before = now(), took;
				operation(&l);
				end = now();
				took = end - before;
				longest = took > longest ? took : longest;
			}
		} else {
			for (; done < last; done++)
				operation(&l);
			end = now();
		}
	}
	printf("%llu %llu %llu\n", (unsigned long long)done, (unsigned long long)(end - begin),
	       (unsigned long long)longest);
	return 0;
}
