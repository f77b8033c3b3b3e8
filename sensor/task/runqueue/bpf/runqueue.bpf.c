// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long the threads of each process wait for a processor: see ../runqueue.go.
 *
 * switched    when a processor goes from one thread to another: counts the delay that the leaving thread had
 *             before it got the processor, which is what the kernel's own sum (sched_info.run_delay)
 *             has grown by since. Only that sum is stored, for each processor.
 * harvest     walks the accounts and reports what was added to each since the reading before.
 */
#include <task/kernel.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <task/process.h>
#include <task/octaves.h>

#define PF_EXITING 0x4

struct account {
	struct process process;
	struct delays now, reported;
};

#include <task/account.h>

struct record {
	__s32 pid; /* 0: the running total that belongs to no account */
	__u32 tgid;
	__u64 start; /* of the running total: switches that were missed */
	__u64 ended;
	struct delays delays;
};

/* Only for the generator of the Go types. */
const struct record *unused_record __attribute__((unused));

struct delays unowned = {};

__u64 missed = 0; /* threads that left a processor which another one was seen to get: a switch was not reported */

/* The thread that has a processor, and its sum of delays when it got it. */
struct stint {
	__u32 tid;
	__u64 run_delay;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stint);
} stints SEC(".maps");

/* count adds a delay to the process of a thread that leaves its processor. It may have ended already. */
static __always_inline void count(struct task_struct *t, __u64 took)
{
	__u32 tgid = t->tgid;
	struct account *v = bpf_map_lookup_elem(&accounts, &tgid);

	if (!v && !(t->flags & PF_EXITING))
		v = open_account(tgid, (__u64)t);
	observe(v ? &v->now : &unowned, took);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, int preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 zero = 0;
	struct stint *s = bpf_map_lookup_elem(&stints, &zero);

	if (!s)
		return 0;
	if (s->tid && s->tid == prev->pid)
		count(prev, prev->sched_info.run_delay - s->run_delay);
	else if (s->tid)
		add(&missed, 1);
	s->tid = next->pid;
	s->run_delay = next->sched_info.run_delay;
	/* The account exists before the process can end, so that its end is marked. */
	if (s->tid && !next->sched_info.pcount)
		account_of(next->tgid, (__u64)next);
	return 0;
}

/* Scratch memory of harvest: a record is larger than what the stack has room for. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record);
} scratch SEC(".maps");

#define FIGURES (sizeof(struct delays) / sizeof(__u64))

SEC("iter/bpf_map_elem")
int harvest(struct bpf_iter__bpf_map_elem *ctx)
{
	struct account *v = ctx->value;
	__u32 *key = ctx->key, zero = 0;
	struct record *r;
	__u64 *now, *reported, *out, changed = 0;

	if (ctx->meta->seq_num == 0)
		begin();
	r = bpf_map_lookup_elem(&scratch, &zero);
	if (!r)
		return 0;
	if (!v || !key) { /* after the last account */
		__builtin_memset(r, 0, sizeof(*r));
		__builtin_memcpy(&r->delays, &unowned, sizeof(unowned));
		r->start = missed;
		bpf_seq_write(ctx->meta->seq, r, sizeof(*r));
		return 0;
	}
	if (!v->process.pid)
		return 0;
	r->tgid = *key;
	r->pid = v->process.pid;
	r->start = v->process.start;
	r->ended = v->process.ended;
	now = (__u64 *)&v->now;
	reported = (__u64 *)&v->reported;
	out = (__u64 *)&r->delays;
#pragma unroll
	for (int i = 0; i < FIGURES; i++) {
		out[i] = *(volatile __u64 *)&now[i] - reported[i];
		changed |= out[i];
	}
	if (!changed && !r->ended)
		return 0;
	if (bpf_seq_write(ctx->meta->seq, r, sizeof(*r)))
		return 0; /* the buffer is full: the kernel calls again for the same account */
#pragma unroll
	for (int i = 0; i < FIGURES; i++)
		reported[i] += out[i];
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
