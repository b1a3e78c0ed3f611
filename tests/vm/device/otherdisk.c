// SPDX-License-Identifier: GPL-2.0-only
/* A second disk of the same kind, with parameters of its own. */
#define DISK_NAME "otherdisk"
#include "modeldisk.c"
