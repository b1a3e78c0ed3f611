/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * hold OBJECT empty|count TRACEPOINT...: attaches those programs of
 * empty.bpf.c, says "ready", and holds them until its standard input ends, so
 * that nothing stays attached whatever becomes of the benchmark. Then prints
 * "TRACEPOINT HITS" for each.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
#define TP(name) #name,
#include "tracepoints.h"
#undef TP
};
#define NAMES (sizeof(names) / sizeof(names[0]))

static int wanted(const char *program, const char *kind, char **list, int n)
{
	size_t len = strlen(kind);

	if (strncmp(program, kind, len) || program[len] != '_')
		return 0;
	for (int i = 0; i < n; i++)
		if (!strcmp(program + len + 1, list[i]))
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long long hits[NAMES] = { 0 };
	struct bpf_object *object;
	struct bpf_program *prog;
	struct bpf_map *map;
	int zero = 0;
	char c;

	if (argc < 4) {
		fprintf(stderr, "usage: hold OBJECT empty|count TRACEPOINT...\n");
		return 2;
	}
	object = bpf_object__open(argv[1]);
	if (!object) {
		perror(argv[1]);
		return 1;
	}
	bpf_object__for_each_program(prog, object)
		bpf_program__set_autoload(prog, wanted(bpf_program__name(prog), argv[2], argv + 3, argc - 3));
	if (bpf_object__load(object)) {
		perror("hold: load");
		return 1;
	}
	bpf_object__for_each_program(prog, object)
		if (bpf_program__autoload(prog) && !bpf_program__attach(prog)) {
			perror(bpf_program__name(prog));
			return 1;
		}
	printf("ready\n");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	bpf_object__for_each_map(map, object)
		if (strstr(bpf_map__name(map), ".bss"))
			bpf_map_lookup_elem(bpf_map__fd(map), &zero, hits);
	for (size_t i = 0; i < NAMES; i++)
		if (hits[i])
			printf("%s %llu\n", names[i], hits[i]);
	return 0;
}
