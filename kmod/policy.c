// SPDX-License-Identifier: GPL-2.0-only
/* The build system wants its sources in one directory. */
#include "../iosched/lp_deadline.c"
#include "../iosched/lp_gate.c"
#include "../iosched/lp_knobs.c"
#include "../iosched/lp_normal.c"
#include "../iosched/lp_quiet.c"
#include "../iosched/lp_loss.c"
