// SPDX-License-Identifier: GPL-2.0-only
/*
 * module [STEPS [SEED]]: the module's call-backs and attributes, called as block/ calls them, with random bios while
 * knobs and background cgroups change. What must hold is told by the words of each check(). Built with sanitizers by
 * ../../iosched/test/run.sh.
 */
#include "lp.h"

#define MS ((u64)1000000)
#define MOST 48
#define BIOS 1024
#define LINE 256

enum place { FREE, PLUGGED, QUEUED, DEVICE };

static struct request requests[MOST];
static enum place place[MOST];
static struct bio bios[BIOS];
static struct request_queue queue;
static struct blk_mq_hw_ctx hctx = { &queue };
static struct elevator_type *type;
static struct lp_queue *lq;
static struct cgroup root_cgroup, cgroups[2] = { { &root_cgroup, 1 }, { &root_cgroup, 2 } };
static struct cgroup_subsys_state csses[3] = { { &root_cgroup }, { &cgroups[0] }, { &cgroups[1] } };
static u64 now, step, seed, state, waiters_woken, merged_bios, merged_requests, changed, held_up;

static u64 any(u64 below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

void kernel_fails(const char *format, ...)
{
	va_list words;

	fprintf(stderr, "module: step %llu of seed %llu: ", step, seed);
	va_start(words, format);
	vfprintf(stderr, format, words);
	va_end(words);
	fputc('\n', stderr);
	exit(1);
}

static void check(bool holds, const char *words)
{
	if (!holds)
		kernel_fails("not true that %s", words);
}

u64 ktime_get_ns(void)
{
	return now;
}

int kstrtou64(const char *text, int base, u64 *value)
{
	char *end;

	*value = strtoull(text, &end, base);
	return end == text || (*end && *end != '\n') ? -EINVAL : 0;
}

struct cgroup *cgroup_get_from_path(const char *path)
{
	return !strcmp(path, "/a") ? &cgroups[0] : !strcmp(path, "/b") ? &cgroups[1] : ERR_PTR(-ENOENT);
}

struct cgroup *cgroup_get_from_id(u64 id)
{
	return id == 1 || id == 2 ? &cgroups[id - 1] : ERR_PTR(-ENOENT);
}

bool cgroup_is_descendant(struct cgroup *cgroup, struct cgroup *ancestor)
{
	while (cgroup && cgroup != ancestor)
		cgroup = cgroup->parent;
	return cgroup;
}

int cgroup_path(struct cgroup *cgroup, char *text, size_t length)
{
	return snprintf(text, length, "/%c", cgroup == &cgroups[0] ? 'a' : 'b');
}

/* slots.c limits how many requests come to be, which this test does itself. */
int lp_slots_probe(void)
{
	return 0;
}

void lp_slots_init(struct lp_queue *l)
{
	(void)l;
}

void lp_tags_changed(struct blk_mq_hw_ctx *h)
{
	(void)h;
}

void lp_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	(void)opf, (void)data;
}

void lp_slot_taken(struct lp_queue *l, struct request *rq)
{
	(void)l, (void)rq;
}

void lp_low_slot_freed(struct lp_queue *l)
{
	(void)l;
}

void lp_slots_changed(struct lp_queue *l)
{
	(void)l;
}

void lp_classes_changed(struct lp_queue *l)
{
	(void)l;
	waiters_woken++;
}

static ssize_t store(const char *name, const char *text)
{
	for (struct elv_fs_entry *at = lp_attributes; at->attr.name; at++)
		if (!strcmp(at->attr.name, name))
			return at->store(queue.elevator, text, strlen(text));
	kernel_fails("no attribute %s", name);
}

static void knob(const char *name, u64 value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu\n", value);
	check(store(name, text) > 0, "a knob takes a value within its limits");
}

static struct request *request_at(int i)
{
	return &requests[i];
}

static void free_bios(struct request *rq)
{
	for (struct bio *bio = rq->bio; bio; bio = bio->bi_next)
		bio->done = true;
	rq->bio = rq->biotail = NULL;
}

void blk_mq_free_request(struct request *rq)
{
	check(place[rq - requests] != FREE, "a request is freed once");
	check(!rq->hashed && queue.last_merge != rq, "what is freed is no candidate for merging");
	merged_requests += place[rq - requests] != DEVICE;
	place[rq - requests] = FREE;
	if (rq->rq_flags & RQF_ELVPRIV)
		type->ops.finish_request(rq);
}

/* The more urgent, the greater. */
static int urgency(enum lp_class cls)
{
	return cls == LP_NORMAL ? 2 : cls == LP_AWAITED ? 1 : 0;
}

static enum lp_class class_of(const struct bio *bio)
{
	const char *low = lq->cgroups ? "?" : NULL;

	return lp_class_of(lq, bio->bi_opf, bio->bi_ioprio, low && lp_cgroups_low(lq, bio->css));
}

static bool in_fifo(const struct lp_fifo *fifo, const struct request *rq)
{
	for (const struct list_head *at = fifo->list.next; at != &fifo->list; at = at->next)
		if (at == &rq->queuelist)
			return true;
	return false;
}

static bool in_order(const struct lp_sorted *sorted, const struct request *rq)
{
	for (struct rb_node *at = rb_first(&sorted->root); at; at = rb_next(at))
		if (at == &rq->rb_node)
			return true;
	return false;
}

/* Who owns each request, and in which class. */
static void owners(void)
{
	u32 queued[LP_CLASSES] = { 0 }, device = 0, counted = 0;

	for (int i = 0; i < MOST; i++) {
		struct request *rq = request_at(i);
		enum lp_class cls = lp_queued_class(rq);
		enum lp_direction dir = lp_rq_direction(rq);

		/* What has passed the scheduler by is not its own. */
		device += place[i] == DEVICE && (rq->rq_flags & RQF_ELVPRIV);
		if (place[i] != QUEUED) {
			check(place[i] != DEVICE || !(rq->rq_flags & RQF_ELVPRIV) || cls == LP_CLASSES,
			      "what is in flight is in no queue");
			continue;
		}
		check(cls < LP_CLASSES, "what is queued has a class");
		queued[cls]++;
		/* Before all others, whatever its class. */
		if (in_fifo(&lq->lp.head, rq))
			continue;
		for (struct bio *bio = rq->bio; bio; bio = bio->bi_next)
			check(urgency(cls) >= urgency(class_of(bio)),
			      "no bio waits in a request of a less urgent class than its own");
		check(in_fifo(cls == LP_NORMAL ? &lq->lp.fifo[dir] : &lq->lp.line[cls].fifo, rq),
		      "a request waits in the fifo of its class");
		check(in_order(cls == LP_NORMAL ? &lq->lp.sorted[dir] : &lq->lp.line[cls].sorted, rq),
		      "a request stands in the order of its class");
	}
	for (int cls = 0; cls < LP_CLASSES; cls++) {
		check(lp_counter_read(&lq->lp.queued[cls]) == queued[cls],
		      "as many are counted as are queued");
		counted += lp_counter_read(&lq->lp.in_flight[cls]);
	}
	check(counted == device, "as many are counted as are in flight");
}

/* What blk-mq does when somebody asked for the queue to be run. */
static void run_queue(void)
{
	while (queue.run) {
		struct request *rq;

		queue.run = false;
		while (type->ops.has_work(&hctx) && (rq = type->ops.dispatch_request(&hctx))) {
			check(place[rq - requests] == QUEUED, "what is dispatched was queued");
			place[rq - requests] = DEVICE;
		}
	}
}

static void fire_timer(void)
{
	lq->timer.queued = false;
	lq->timer.function(&lq->timer);
	run_queue();
}

static void pass(u64 by)
{
	u64 until = now + by;

	while (lq->timer.queued && lq->timer.expires <= until) {
		if (lq->timer.expires > now)
			now = lq->timer.expires;
		fire_timer();
	}
	now = until;
}

static struct request *fresh(void)
{
	for (int i = 0; i < MOST; i++)
		if (place[i] == FREE) {
			memset(&requests[i], 0, sizeof(requests[i]));
			place[i] = PLUGGED;
			return &requests[i];
		}
	return NULL;
}

static struct bio *bio_of(blk_opf_t opf, u32 cgroup, bool idle, u64 sector, u64 sectors)
{
	static u32 last;

	for (u32 i = 0; i < BIOS; i++) {
		struct bio *bio = &bios[last = (last + 1) % BIOS];

		if (bio->bi_opf && !bio->done)
			continue;
		*bio = (struct bio){
			.bi_opf = opf | 1U << 31,
			.bi_ioprio = (unsigned short)((idle ? IOPRIO_CLASS_IDLE : IOPRIO_CLASS_NONE) << 13),
			.css = &csses[cgroup],
			.sector = sector,
			.end = sector + sectors,
		};
		return bio;
	}
	kernel_fails("no bio is free");
}

static struct request *request_of(struct bio *bio)
{
	struct request *rq = fresh();

	if (!rq) {
		bio->done = true;
		return NULL;
	}
	rq->q = &queue;
	rq->cmd_flags = bio->bi_opf;
	rq->ioprio = bio->bi_ioprio;
	rq->sector = bio->sector;
	rq->end = bio->end;
	rq->write = bio_data_dir(bio);
	rq->start_time_ns = now;
	rq->bio = rq->biotail = bio;
	INIT_LIST_HEAD(&rq->queuelist);
	INIT_LIST_HEAD(&rq->hash);
	RB_CLEAR_NODE(&rq->rb_node);
	/* What the tag's last request left. */
	rq->elv.priv[0] = rq->elv.priv[1] = (void *)(uintptr_t)any(UINT64_MAX);
	/* Those with FUA are not prepared, before Linux 6.5. */
	if (!(rq->cmd_flags & (REQ_PREFLUSH | REQ_FUA))) {
		type->ops.prepare_request(rq);
		rq->rq_flags |= RQF_ELVPRIV;
	}
	return rq;
}

static void insert(struct request *rq, bool at_head)
{
	LIST_HEAD(list);

	place[rq - requests] = QUEUED;
	list_add(&rq->queuelist, &list);
	type->ops.insert_requests(&hctx, &list, at_head);
	queue.run = true;
}

/* A bio that no request takes becomes one of its own. */
static struct request *submit(struct bio *bio)
{
	struct request *rq;

	if (!(bio->bi_opf & REQ_NOMERGE_FLAGS) && type->ops.bio_merge(&queue, bio, 1)) {
		merged_bios++;
		return NULL;
	}
	rq = request_of(bio);
	if (rq && (bio->bi_opf & REQ_FUA))
		/* It passes the scheduler by. */
		place[rq - requests] = DEVICE;
	else if (rq)
		insert(rq, false);
	return rq;
}

static void begin(u32 discard_segments)
{
	if (lq)
		type->ops.exit_sched(queue.elevator);
	memset(place, 0, sizeof(place));
	memset(bios, 0, sizeof(bios));
	queue = (struct request_queue){ .rotational = any(2), .max_discard_segments = discard_segments };
	INIT_LIST_HEAD(&queue.hash);
	check(!type->ops.init_sched(&queue, type), "a scheduler comes to be");
	lq = queue.elevator->elevator_data;
}

static void complete(struct request *rq)
{
	free_bios(rq);
	if (rq->rq_flags & RQF_ELVPRIV)
		type->ops.completed_request(rq, now);
	blk_mq_free_request(rq);
}

static void requeue(struct request *rq)
{
	if (rq->rq_flags & RQF_ELVPRIV)
		type->ops.requeue_request(rq);
	/* A flush's own data request aside, it comes back through the scheduler. */
	if (!(rq->rq_flags & RQF_DONTPREP))
		insert(rq, true);
}

static struct request *queued_one(void)
{
	u64 from = any(MOST);

	for (u64 i = from; i < from + MOST; i++)
		if (place[i % MOST] == QUEUED)
			return &requests[i % MOST];
	return NULL;
}

static void random_bio(void)
{
	static const blk_opf_t flags[] = { 0, 0, 0, REQ_SYNC, REQ_SYNC | REQ_IDLE, REQ_META, REQ_FUA };
	blk_opf_t opf = any(10) ? any(2) : REQ_OP_DISCARD;
	u32 cgroup = (u32)any(3);
	bool idle = !any(4);
	u64 sector = any(LINE / 8) * 8;
	struct request *plugged, *beside = queued_one();

	/* What can be merged with a request that waits. */
	if (beside && beside->sector >= 8 && any(4)) {
		opf = req_op(beside);
		cgroup = (u32)(beside->bio->css - csses);
		idle = IOPRIO_PRIO_CLASS(beside->ioprio) == IOPRIO_CLASS_IDLE;
		sector = any(2) ? beside->end : beside->sector - 8;
	}
	opf |= opf == REQ_OP_DISCARD ? 0 : flags[any(7)];
	if (any(3) || (opf & REQ_NOMERGE_FLAGS)) {
		submit(bio_of(opf, cgroup, idle, sector, 8));
		return;
	}
	/* In a plug, bios are merged without asking the scheduler, whatever their flags. */
	plugged = request_of(bio_of(opf, cgroup, idle, sector, 8));
	if (!plugged)
		return;
	if (req_op(plugged) != REQ_OP_DISCARD)
		for (u64 n = any(3); n; n--) {
			struct bio *bio =
				bio_of((opf & REQ_OP_MASK) | flags[any(6)], cgroup, idle, plugged->end, 8);

			plugged->biotail->bi_next = bio;
			plugged->biotail = bio;
			plugged->end += 8;
		}
	if (!any(4))
		pass(any(MS));
	insert(plugged, false);
}

static void random_change(void)
{
	static const char *const lists[] = { "\n", "\n", "/a\n", "2\n", "/a /b\n" };

	changed++;
	switch (any(8)) {
	case 0 ... 3:
		check(store("low_cgroups", lists[any(5)]) > 0, "a list of cgroups is taken");
		break;
	case 4:
		knob("safe_classes", any(2));
		break;
	case 5:
		knob("low_expire", any(2) * 50);
		break;
	case 6:
		knob("idle_dispatch_interval", any(2) * 20000);
		break;
	default:
		knob("low_batch_kb", any(2) * 64);
		knob("low_batch_time", any(2) * 5000);
	}
}

static u32 count(enum place where)
{
	u32 n = 0;

	for (int i = 0; i < MOST; i++)
		n += place[i] == where;
	return n;
}

static struct request *at_device(void)
{
	u64 which;

	if (!count(DEVICE))
		return NULL;
	which = any(count(DEVICE));
	for (int i = 0; i < MOST; i++)
		if (place[i] == DEVICE && !which--)
			return &requests[i];
	return NULL;
}

/* Nothing more comes: what is there goes, as the timer and completions have the queue run and nobody else does. */
static void drain(void)
{
	u64 since = now;

	run_queue();
	while (count(QUEUED) || count(DEVICE)) {
		struct request *rq = at_device();

		check(rq || lq->timer.queued, "a queue with requests, an idle device and no timer has work");
		check(now - since < 3600000 * MS, "a request goes within the hour");
		if (rq && any(2)) {
			now += any(MS);
			complete(rq);
		} else if (lq->timer.queued) {
			pass(lq->timer.expires > now ? lq->timer.expires - now : 0);
		}
		run_queue();
		owners();
	}
}

static void random_steps(u64 steps)
{
	begin(1);
	for (step = 0; step < steps; step++) {
		struct request *rq;

		switch (any(16)) {
		case 0 ... 4:
			random_bio();
			break;
		case 5 ... 10:
			rq = at_device();
			if (rq && any(20))
				complete(rq);
			else if (rq)
				requeue(rq);
			break;
		case 11:
			random_change();
			break;
		default:
			pass(any(4) ? any(MS) : any(30 * MS));
		}
		owners();
		if (any(3))
			run_queue();
		held_up += !queue.run && count(QUEUED);
		owners();
		if (!any(500)) {
			drain();
			if (any(2))
				begin(any(2) ? 1 : 16);
		}
	}
	drain();
}

/* low_cgroups is emptied while the cgroup has requests queued, and foreground requests never pause. */
static void class_changes_while_queued(void)
{
	struct request *low, *normal, *before;
	int i;

	begin(1);
	knob("low_expire", 0);
	store("low_cgroups", "/a\n");
	/* Held back: a foreground request is in flight. */
	normal = submit(bio_of(REQ_OP_READ, 0, false, 0, 8));
	run_queue();
	check(place[normal - requests] == DEVICE, "a foreground request goes");
	low = submit(bio_of(REQ_OP_READ, 1, false, 1008, 8));
	run_queue();
	check(place[low - requests] == QUEUED, "a background request is held back");
	store("low_cgroups", "\n");
	/* What follows it, then what is before it, then what joins all of them. */
	before = request_of(bio_of(REQ_OP_READ, 1, false, 1000, 8));
	insert(before, false);
	insert(request_of(bio_of(REQ_OP_READ, 1, false, 1016, 8)), false);
	for (i = 0; i < 1000 && (place[low - requests] == QUEUED || place[before - requests] == QUEUED);
	     i++) {
		run_queue();
		pass(MS);
		complete(normal);
		normal = submit(bio_of(REQ_OP_READ, 0, false, 2000 + any(100) * 16, 8));
		if (place[normal - requests] != DEVICE)
			run_queue();
	}
	check(i < 1000, "a request goes although its cgroup was background when it came");
	drain();
}

/* What was queued as background goes once its cgroup is foreground, with no other request coming or going. */
static void emptied_list_runs_the_queue(void)
{
	struct request *low, *normal;

	begin(1);
	knob("low_expire", 0);
	store("low_cgroups", "/a\n");
	normal = submit(bio_of(REQ_OP_READ, 0, false, 0, 8));
	run_queue();
	low = submit(bio_of(REQ_OP_READ, 1, false, 1008, 8));
	run_queue();
	check(place[normal - requests] == DEVICE && place[low - requests] == QUEUED,
	      "a background request is held back");
	waiters_woken = 0;
	store("low_cgroups", "\n");
	check(waiters_woken, "who waits for a slot asks for its class again");
	run_queue();
	check(place[low - requests] == DEVICE, "it goes as its cgroup is no longer background");
	drain();
}

/* A knob ends the batch for which a foreground request waits: it goes. */
static void knob_ends_a_batch(void)
{
	struct request *normal;

	queue.rotational = true;
	begin(1);
	queue.rotational = true;
	knob("low_batch_kb", 512);
	knob("low_batch_time", 60000);
	knob("batch_mode_delay", 3600000000);
	submit(bio_of(REQ_OP_READ, 0, true, 0, 8));
	run_queue();
	normal = submit(bio_of(REQ_OP_READ, 0, false, 5000, 8));
	run_queue();
	check(place[normal - requests] == QUEUED, "a foreground request waits for the rest of a batch");
	knob("fifo_batch", 8);
	run_queue();
	check(place[normal - requests] == DEVICE, "it goes as the batch has ended");
	drain();
}

/* A write with FUA comes to the scheduler only when its driver gives it back. */
static void unprepared_comes_back(void)
{
	struct request *rq;

	begin(1);
	rq = submit(bio_of(REQ_OP_WRITE | REQ_FUA, 0, false, 0, 8));
	requeue(rq);
	run_queue();
	check(place[rq - requests] == DEVICE, "it goes again");
	complete(rq);
	owners();
}

/* Discards of several ranges, of which the kernel does not tell the scheduler that one absorbs another. */
static void discards_of_several_ranges(void)
{
	begin(16);
	/* Which is tried first, and is no discard. */
	insert(request_of(bio_of(REQ_OP_READ, 0, false, 5000, 8)), false);
	insert(request_of(bio_of(REQ_OP_DISCARD, 0, false, 1008, 8)), false);
	insert(request_of(bio_of(REQ_OP_DISCARD, 0, false, 1000, 8)), false);
	insert(request_of(bio_of(REQ_OP_DISCARD, 0, false, 1016, 8)), false);
	owners();
	drain();
}

/* Background requests become no longer by a merge of two than by a merge of bios. */
static void joined_requests_stay_short(void)
{
	begin(1);
	queue.rotational = false;
	knob("low_batch_kb", 0);
	submit(bio_of(REQ_OP_READ, 0, false, 5000, 8));
	run_queue();
	submit(bio_of(REQ_OP_READ, 0, true, 0, 128));
	submit(bio_of(REQ_OP_READ, 0, true, 136, 248));
	submit(bio_of(REQ_OP_READ, 0, true, 128, 8));
	for (int i = 0; i < MOST; i++)
		check(place[i] != QUEUED || requests[i].end - requests[i].sector <= 256,
		      "no background request becomes longer than 128 KiB on flash");
	drain();
}

static const struct {
	const char *name;
	void (*of)(void);
} cases[] = {
	{ "class_changes_while_queued", class_changes_while_queued },
	{ "emptied_list_runs_the_queue", emptied_list_runs_the_queue },
	{ "knob_ends_a_batch", knob_ends_a_batch },
	{ "unprepared_comes_back", unprepared_comes_back },
	{ "discards_of_several_ranges", discards_of_several_ranges },
	{ "joined_requests_stay_short", joined_requests_stay_short },
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

int main(int argc, char **argv)
{
	u64 steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
	const char *only = getenv("ONLY");

	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	state = seed * 0x9e3779b97f4a7c15ULL | 1;
	now = 1000 * MS;
	check(!kernel_module_init(), "the module is loaded");
	type = registered_elevator();
	for (u32 i = 0; i < CASES; i++)
		if (!only || !strcmp(only, cases[i].name))
			cases[i].of();
	if (!only || !strcmp(only, "random_steps"))
		random_steps(steps);
	check(only || (merged_bios && merged_requests && changed && held_up), "every case came up");
	if (lq)
		type->ops.exit_sched(queue.elevator);
	kernel_module_exit();
	printf("module: %llu steps, %llu bios merged, %llu requests merged, %llu"
	       " changes of knobs and cgroups, %llu waits\n",
	       steps, merged_bios, merged_requests, changed, held_up);
	printf("test result: ok. %u passed; 0 failed\n", (unsigned int)CASES + 1);
	return 0;
}
