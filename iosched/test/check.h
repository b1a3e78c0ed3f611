/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What property.c and scenes.c share. */
#ifndef CHECK_H
#define CHECK_H

#include "../lp_deadline.h"

#define MS ((u64)1000000)

/* What check() names: the step, or the case. */
extern u64 step;

/* A random number below `below`. */
u64 any(u64 below);

/* Ends the program with the words if it does not hold. */
void check(bool holds, const char *words);

/* Everything in scenes.c; how many there are. */
u32 scenes(void);

#endif
