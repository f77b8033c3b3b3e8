// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the counters of the processors count while each process runs: see ../counters.go.
 *
 * switched    when a processor goes from one thread to another: reads its counters and charges what they counted since they
 *             were read last to the process that leaves. Nobody is charged while the processor is idle.
 * flush       does the same for the thread that runs; user space runs it on processors whose thread stays.
 * harvest     walks the accounts and reports what was added to each since the reading before.
 */
#include <task/kernel.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <task/process.h>

#define PF_EXITING 0x4
#define EVENTS 8
#define BPF_F_CURRENT_CPU 0xffffffffULL

/* As linux/bpf.h has it; the times are ns. */
struct bpf_perf_event_value {
	__u64 counter, enabled, running;
};

/* What one event counted. */
struct count {
	__u64 whole;                    /* while it had a counter all the time */
	__u64 part, enabled, running;   /* while it shared one: counted, and how long it was to and did count */
};

struct account {
	struct process process;
	struct count now[EVENTS], reported[EVENTS];
};

#include <task/account.h>

struct record {
	__s32 pid; /* 0: the running total that belongs to no account */
	__u32 tgid;
	__u64 start;
	__u64 ended;
	struct count counts[EVENTS];
};

/* Only for the generator of the Go types. */
const struct record *unused_record __attribute__((unused));

/* How many events there are; the others are pruned when the program is loaded. */
const volatile __u32 opened = EVENTS;

struct count unowned[EVENTS] = {};

/* The event of each processor, one map for each counter. */
struct events {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); /* as many as there are processors */
	__type(key, __u32);
	__type(value, __u32);
};

struct events events0 SEC(".maps"), events1 SEC(".maps"), events2 SEC(".maps"), events3 SEC(".maps"),
	events4 SEC(".maps"), events5 SEC(".maps"), events6 SEC(".maps"), events7 SEC(".maps");

/* The thread that has a processor, and the counters when they were read last. */
struct stint {
	__u32 tid, valid; /* bit i of valid: event i was read */
	__u64 since;      /* ns of the monotonic clock */
	struct bpf_perf_event_value last[EVENTS];
};

/* Written on one processor each, and mapped by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* user space sets it to the number of processors */
	__type(key, __u32);
	__type(value, struct stint);
} stints SEC(".maps");

static __always_inline void charge(struct count *c, const struct bpf_perf_event_value *now, const struct bpf_perf_event_value *last)
{
	__u64 count = now->counter - last->counter, enabled = now->enabled - last->enabled, running = now->running - last->running;

	if ((__s64)count < 0 || (__s64)enabled < 0)
		return; /* the event was opened again */
	if (enabled == running) {
		if (count)
			__sync_fetch_and_add(&c->whole, count);
		return;
	}
	if (count)
		__sync_fetch_and_add(&c->part, count);
	__sync_fetch_and_add(&c->enabled, enabled);
	__sync_fetch_and_add(&c->running, running);
}

/* take_one reads one counter of this processor and charges what it counted, to nobody if to is NULL. */
static __always_inline void take_one(void *events, int i, struct stint *s, struct count *to, __u32 *valid)
{
	struct bpf_perf_event_value now;

	if (i >= opened || bpf_perf_event_read_value(events, BPF_F_CURRENT_CPU, &now, sizeof(now)))
		return;
	*valid |= 1 << i;
	if (to && s->valid & 1 << i)
		charge(&to[i], &now, &s->last[i]);
	s->last[i] = now;
}

/* take reads the counters of this processor and charges them to the process of a thread. */
static __always_inline void take(struct stint *s, struct task_struct *t)
{
	struct count *to = NULL;
	struct account *v;
	__u32 tgid = t->tgid, valid = 0;

	/* Where a switch was missed, nobody knows who of the two threads caused what. */
	if (s->tid != t->pid) {
		to = unowned;
	} else if (t->pid) {
		v = bpf_map_lookup_elem(&accounts, &tgid);
		if (!v && !(t->flags & PF_EXITING))
			v = open_account(tgid, (__u64)t);
		to = v ? v->now : unowned;
	}
	take_one(&events0, 0, s, to, &valid);
	take_one(&events1, 1, s, to, &valid);
	take_one(&events2, 2, s, to, &valid);
	take_one(&events3, 3, s, to, &valid);
	take_one(&events4, 4, s, to, &valid);
	take_one(&events5, 5, s, to, &valid);
	take_one(&events6, 6, s, to, &valid);
	take_one(&events7, 7, s, to, &valid);
	s->valid = valid;
	s->since = bpf_ktime_get_ns();
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, int preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct stint *s = bpf_map_lookup_elem(&stints, &cpu);

	if (!s)
		return 0;
	take(s, prev);
	s->tid = next->pid;
	/* The account exists before the process can end, so that its end is marked. */
	if (s->tid && !next->sched_info.pcount)
		account_of(next->tgid, (__u64)next);
	return 0;
}

SEC("raw_tp/sched_switch")
int flush(void *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct stint *s = bpf_map_lookup_elem(&stints, &cpu);

	if (s)
		take(s, bpf_get_current_task_btf());
	return 0;
}

/* Scratch memory of harvest: a record is larger than what the stack has room for. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record);
} scratch SEC(".maps");

#define FIGURES (EVENTS * 4)

SEC("iter/bpf_map_elem")
int harvest(struct bpf_iter__bpf_map_elem *ctx)
{
	struct account *v = ctx->value;
	__u32 *key = ctx->key, zero = 0;
	__u64 *now, *reported, *out, changed = 0;
	struct record *r;

	if (ctx->meta->seq_num == 0)
		begin();
	r = bpf_map_lookup_elem(&scratch, &zero);
	if (!r)
		return 0;
	if (!v || !key) { /* after the last account */
		__builtin_memset(r, 0, sizeof(*r));
		__builtin_memcpy(r->counts, unowned, sizeof(unowned));
		bpf_seq_write(ctx->meta->seq, r, sizeof(*r));
		return 0;
	}
	if (!v->process.pid)
		return 0;
	r->tgid = *key;
	r->pid = v->process.pid;
	r->start = v->process.start;
	r->ended = v->process.ended;
	now = (__u64 *)v->now;
	reported = (__u64 *)v->reported;
	out = (__u64 *)r->counts;
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
