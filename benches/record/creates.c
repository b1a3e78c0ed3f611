/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * creates DIR N: creates N files of one byte in DIR, named by ten digits and ".txt".
 * creates -d DIR N: deletes them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int deletes = argc == 4 && strcmp(argv[1], "-d") == 0;

	if (argc != 3 && !deletes) {
		fprintf(stderr, "usage: creates [-d] DIR N\n");
		return 2;
	}
	if (chdir(argv[argc - 2])) {
		perror(argv[argc - 2]);
		return 1;
	}
	for (int n = 1; n <= atoi(argv[argc - 1]); n++) {
		char name[32];
		int fd;

		snprintf(name, sizeof(name), "%010d.txt", n);
		if (deletes) {
			if (unlink(name)) {
				perror(name);
				return 1;
			}
			continue;
		}
		fd = open(name, O_CREAT | O_WRONLY, 0644);
		if (fd < 0 || write(fd, "1", 1) != 1 || close(fd)) {
			perror(name);
			return 1;
		}
	}
	return 0;
}
