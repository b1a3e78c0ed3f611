// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Requests by sector in a treap (Seidel, Aragon, "Randomized search trees"); equal ones in the order of arrival. */
#include "../lp_deadline.h"

/* Weights need be random only as far as sectors do not follow them (Marsaglia, "Xorshift RNGs"). */
static u32 weight(void)
{
	static _Thread_local u32 state = 2463534242U;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static struct lp_request **link_to(struct lp_sorted *s, struct lp_request *rq)
{
	if (!rq->up)
		return &s->root;
	return rq->up->left == rq ? &rq->up->left : &rq->up->right;
}

/* `rq` takes its parent's place, the parent becomes its child. */
static void rotate_up(struct lp_sorted *s, struct lp_request *rq)
{
	struct lp_request *up = rq->up;
	struct lp_request *moved;

	*link_to(s, up) = rq;
	rq->up = up->up;
	if (up->left == rq) {
		moved = rq->right;
		rq->right = up;
		up->left = moved;
	} else {
		moved = rq->left;
		rq->left = up;
		up->right = moved;
	}
	up->up = rq;
	if (moved)
		moved->up = up;
}

void lp_sorted_add(struct lp_sorted *s, struct lp_request *rq)
{
	struct lp_request **at = &s->root;

	rq->up = rq->left = rq->right = 0;
	rq->weight = weight();
	while (*at) {
		rq->up = *at;
		at = rq->sector < rq->up->sector ? &rq->up->left : &rq->up->right;
	}
	*at = rq;
	while (rq->up && rq->up->weight > rq->weight)
		rotate_up(s, rq);
}

void lp_sorted_del(struct lp_sorted *s, struct lp_request *rq)
{
	struct lp_request *child;

	while (rq->left && rq->right)
		rotate_up(s, rq->left->weight < rq->right->weight ? rq->left : rq->right);
	child = rq->left ? rq->left : rq->right;
	*link_to(s, rq) = child;
	if (child)
		child->up = rq->up;
}

struct lp_request *lp_sorted_first(const struct lp_sorted *s)
{
	struct lp_request *rq = s->root;

	while (rq && rq->left)
		rq = rq->left;
	return rq;
}

struct lp_request *lp_sorted_from(const struct lp_sorted *s, u64 sector)
{
	struct lp_request *found = 0;
	struct lp_request *rq = s->root;

	while (rq) {
		if (rq->sector >= sector) {
			found = rq;
			rq = rq->left;
		} else {
			rq = rq->right;
		}
	}
	return found;
}

struct lp_request *lp_sorted_next(const struct lp_request *rq)
{
	if (rq->right) {
		rq = rq->right;
		while (rq->left)
			rq = rq->left;
		return (struct lp_request *)rq;
	}
	while (rq->up && rq->up->right == rq)
		rq = rq->up;
	return rq->up;
}
