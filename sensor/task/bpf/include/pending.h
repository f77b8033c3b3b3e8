/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a processor counted at one place and did not add to an account yet, in one word that one atomic instruction adds to. It is
 * moved by another processor at each reading, and when something else comes. The includer defines, before it includes this file,
 *
 *   struct pending                      with "__u64 runs, who[2], sum", which are used here alone
 *   settle(who, messages, bytes)        adds to the account; who is the process << 32 | what the includer likes
 *
 * and the map "pending". See doc/decisions/0700.
 */
#pragma once

#define RUN_SHIFT 54
#define MESSAGES_SHIFT 36
#define RUNS (1ULL << (64 - RUN_SHIFT))
#define FULL (1ULL << (RUN_SHIFT - 1) | 1ULL << (MESSAGES_SHIFT - 1)) /* half of what there is room for */

/* empty moves what is pending to its account, which is there: the process may have ended, but since the reading before. */
static __noinline int empty(struct pending *p)
{
	__u64 sum, who;

	if (!p)
		return 0;
	sum = *(volatile __u64 *)&p->sum;
	if (!(sum >> RUN_SHIFT))
		return 0;
	who = *(volatile __u64 *)&p->who[sum >> RUN_SHIFT & 1];
	if (__sync_val_compare_and_swap(&p->sum, sum, 0) != sum)
		return 0; /* its processor added to it: the next reading has it */
	settle(who, sum >> MESSAGES_SHIFT & ((1ULL << (RUN_SHIFT - MESSAGES_SHIFT)) - 1), sum & ((1ULL << MESSAGES_SHIFT) - 1));
	return 0;
}

static long empty_each(void *map, __u32 *key, struct pending *p, void *unused)
{
	return empty(p);
}

/* join adds a call to what is pending of the same process and kind, and reports whether it could. */
static __always_inline bool join(struct pending *p, __u64 who, __u64 bytes)
{
	__u64 sum = *(volatile __u64 *)&p->sum, run = sum >> RUN_SHIFT, more = (1ULL << MESSAGES_SHIFT) + bytes;

	if (!run || p->who[run & 1] != who)
		return false;
	sum = __sync_fetch_and_add(&p->sum, more);
	if (sum >> RUN_SHIFT == run && !(sum & FULL))
		return true;
	__sync_fetch_and_add(&p->sum, -more); /* it was emptied in between, or has to be */
	return false;
}

/* start begins to keep the calls of a process and kind pending, and reports whether it could. */
static __always_inline bool start(struct pending *p, __u64 who, __u64 bytes)
{
	__u64 run;

	empty(p);
	run = (p->runs + 1) % RUNS;
	if (!run)
		run = 2; /* the run before was odd */
	p->runs = run;
	*(volatile __u64 *)&p->who[run & 1] = who;
	return !__sync_val_compare_and_swap(&p->sum, 0, run << RUN_SHIFT | (1ULL << MESSAGES_SHIFT) + bytes);
}
