/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * As a container runtime does: a mount namespace of its own, whose root is a
 * file system in memory with PROGRAM copied into it as /inside. The host has no such path.
 * Usage: contained DIRECTORY PROGRAM ARGUMENTS...; DIRECTORY is where it is mounted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(const char *what)
{
	perror(what);
	return 3;
}

int main(int argc, char **argv)
{
	char bytes[65536];
	ssize_t n;
	int from, to;

	if (argc < 3)
		return 2;
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return fail("unshare");
	if (mount("plumb-test", argv[1], "tmpfs", 0, "size=64m") || chdir(argv[1]))
		return fail("tmpfs");
	from = open(argv[2], O_RDONLY | O_CLOEXEC);
	to = open("inside", O_WRONLY | O_CREAT, 0755);
	if (from < 0 || to < 0)
		return fail("copy");
	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)n) != n)
			return fail("copy");
	if (n < 0 || close(to))
		return fail("copy");
	if (mkdir("old", 0755) || syscall(SYS_pivot_root, ".", "old") || chdir("/") ||
	    umount2("/old", MNT_DETACH))
		return fail("pivot_root");
	argv[2] = "inside";
	execv("/inside", argv + 2);
	return fail("/inside");
}
