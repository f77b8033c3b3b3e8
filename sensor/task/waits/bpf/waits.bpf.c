// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long the threads of each process wait for storage: see ../waits.go.
 *
 * asleep   when a thread leaves its processor to wait for I/O: records the time.
 * woken    when it is woken: charges the time in between to its process. The time until it
 *          gets a processor again is not part of the wait.
 * harvest  walks the accounts and reports what was added to each since the reading before.
 */
#include <task/kernel.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <task/process.h>

struct account {
	struct process process;
	__u64 nanos, waits; /* of threads that were woken */
	__u64 reported_nanos, reported_waits;
};

#include <task/account.h>

struct record {
	__s32 pid; /* 0: the running total that belongs to no account */
	__u32 tgid;
	__u64 start;
	__u64 ended;
	__u64 nanos, waits;
};

/* Only for the generator of the Go types. */
const struct record *unused_record __attribute__((unused));

__u64 unowned_nanos = 0, unowned_waits = 0;

/* Threads that wait, with the time at which they began to (ns of the monotonic clock). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u64);
} waiting SEC(".maps");

SEC("tp_btf/sched_switch")
int BPF_PROG(asleep, int preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now;
	__u32 tid;

	if (preempt || !BPF_CORE_READ_BITFIELD(prev, in_iowait))
		return 0;
	tid = prev->pid;
	if (!tid)
		return 0;
	now = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&waiting, &tid, &now, BPF_ANY))
		add(&unowned_waits, 1); /* the map is full: a wait of unknown length */
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(woken, struct task_struct *t)
{
	__u64 *since, took;
	struct account *v;
	__u32 tid;

	if (!BPF_CORE_READ_BITFIELD(t, in_iowait))
		return 0;
	tid = t->pid;
	since = bpf_map_lookup_elem(&waiting, &tid);
	if (!since)
		return 0; /* woken before it left its processor, or asleep since before we were loaded */
	took = bpf_ktime_get_ns() - *since;
	bpf_map_delete_elem(&waiting, &tid);
	v = account_of(t->tgid, (__u64)t);
	add(v ? &v->nanos : &unowned_nanos, took);
	add(v ? &v->waits : &unowned_waits, 1);
	return 0;
}

SEC("iter/bpf_map_elem")
int harvest(struct bpf_iter__bpf_map_elem *ctx)
{
	struct account *v = ctx->value;
	__u32 *key = ctx->key;
	struct record r = {};

	if (ctx->meta->seq_num == 0)
		begin();
	if (!v || !key) { /* after the last account */
		r.nanos = unowned_nanos;
		r.waits = unowned_waits;
		bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
		return 0;
	}
	if (!v->process.pid)
		return 0;
	r.tgid = *key;
	r.pid = v->process.pid;
	r.start = v->process.start;
	r.ended = v->process.ended;
	r.nanos = *(volatile __u64 *)&v->nanos - v->reported_nanos;
	r.waits = *(volatile __u64 *)&v->waits - v->reported_waits;
	if (!r.nanos && !r.waits && !r.ended)
		return 0;
	if (bpf_seq_write(ctx->meta->seq, &r, sizeof(r)))
		return 0; /* the buffer is full: the kernel calls again for the same account */
	v->reported_nanos += r.nanos;
	v->reported_waits += r.waits;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
