// SPDX-License-Identifier: GPL-2.0-only
/* See kernel.h. */
#include "kernel.h"

void rb_add(struct rb_node *node, struct rb_root *root,
	    bool (*less)(struct rb_node *, const struct rb_node *))
{
	struct rb_node **at = &root->rb_node, *up = NULL;

	while (*at) {
		up = *at;
		at = less(node, up) ? &up->rb_left : &up->rb_right;
	}
	*node = (struct rb_node){ .up = up };
	*at = node;
}

static void replace(struct rb_root *root, struct rb_node *node, struct rb_node *by)
{
	struct rb_node *up = node->up;

	*(!up ? &root->rb_node : up->rb_left == node ? &up->rb_left : &up->rb_right) = by;
	if (by)
		by->up = up;
}

void rb_erase(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *next;

	if (!node->rb_left || !node->rb_right) {
		replace(root, node, node->rb_left ? node->rb_left : node->rb_right);
		return;
	}
	next = node->rb_right;
	while (next->rb_left)
		next = next->rb_left;
	replace(root, next, next->rb_right);
	next->rb_left = node->rb_left;
	next->rb_right = node->rb_right;
	next->rb_left->up = next;
	if (next->rb_right)
		next->rb_right->up = next;
	replace(root, node, next);
}

struct rb_node *rb_first(const struct rb_root *root)
{
	struct rb_node *node = root->rb_node;

	while (node && node->rb_left)
		node = node->rb_left;
	return node;
}

struct rb_node *rb_next(const struct rb_node *node)
{
	if (RB_EMPTY_NODE(node))
		return NULL;
	if (node->rb_right) {
		node = node->rb_right;
		while (node->rb_left)
			node = node->rb_left;
		return (struct rb_node *)node;
	}
	while (node->up && node->up->rb_right == node)
		node = node->up;
	return node->up;
}

struct rb_node *rb_prev(const struct rb_node *node)
{
	if (RB_EMPTY_NODE(node))
		return NULL;
	if (node->rb_left) {
		node = node->rb_left;
		while (node->rb_right)
			node = node->rb_right;
		return (struct rb_node *)node;
	}
	while (node->up && node->up->rb_left == node)
		node = node->up;
	return node->up;
}
