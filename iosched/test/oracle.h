/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What property.c holds the policy against: plain arrays, and the rules by their definitions. */
#ifndef ORACLE_H
#define ORACLE_H

#include "../lp_deadline.h"

#define MOST 48

enum place { FREE, QUEUED, HEAD, DEVICE };

/* Why a request goes. */
enum reason { FIRST_OF_ALL, BY_AGE, NORMALLY, FOLLOWING, THROUGH_GATE };

/* A request as the arrays know it. */
struct known {
	struct lp_request rq;
	enum place place;
	enum lp_class cls;
	enum lp_direction dir;
	u64 inserted, due, order;
};

/* What deadline, class and gate are by their definitions; no code is shared with the policy. */
struct oracle {
	struct known all[MOST];
	struct lp_knobs knobs;
	u64 now, order, left, went[LP_CLASSES], parts[LP_CLASSES], position[2], line_position[LP_CLASSES];
	bool ever[LP_CLASSES], open;
	u32 visit;
	enum lp_class visits;
	/* Until when foreground requests wait for it; when a background request left last. */
	u64 until, low_left;
	/* Of the last batch of awaited requests. */
	u64 awaited_began, awaited_left;
	/* How long nobody normal must have been there for them to go before their turn. */
	u64 quiet, first_took, took, looked;
	bool before_turn, believed;
	u32 too_soon;
	/* How often only the gate kept background requests back. */
	u64 held;
	enum lp_direction direction;
	u32 batching, starved;
	enum reason reason;
};

extern struct lp lp;
extern struct oracle o;

/* How often going before the turn was right, and wrong, and how often the quiet had become longer. */
extern u64 guessed_right, guessed_wrong, longer_quiet;

/* How many are in a place; cls -1: of any class. */
u32 count(enum place place, int cls);

/* How many of a class are queued, with those that go before all others. */
u32 waiting(enum lp_class cls);

/* The first in the order of arrival; of a class and, unless -1, a direction. */
struct known *first(enum place place, int cls, int dir);

/* Knobs, or what the steering made of them: it has a test of its own. */
u64 interval(void);
u32 depth(void);
u32 together(void);

/* Whether foreground requests wait for a batch. */
bool holds(void);

/* Whether a foreground request is there that background requests wait for. */
bool normal_is_there(void);
u32 low_with_device(void);

/* Which request of a class goes on with the batch. */
struct known *follows(enum lp_class cls);

bool batch_mode(u64 now);
bool is_aged(enum lp_class cls, u64 now);

/* Whether awaited requests need no idle period to go. */
bool its_turn(u64 now);

/* Whether anything may go. */
bool gate_is_open(u64 now);

/* What goes, and in o.reason why; NULL: nothing. */
struct known *expected(u64 now);

/* How the idle period before awaited requests is learnt: as a foreground request comes, and as a batch of awaited
 * requests begins. */
void normal_comes(void);
void learn_quiet(void);

#endif
