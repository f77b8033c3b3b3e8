// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long the threads of each process waited for storage: see ../waits.go.
 *
 * asleep   when a thread leaves a processor to wait for I/O: notes when.
 * woken    when it is woken: adds the time between to its process. What it then waits for a
 *          processor is no wait for storage.
 * ended    marks the account of a process whose last thread ended.
 * harvest  walks the accounts and tells what was added to each.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

struct account {
	__u64 start; /* of the process, ns since boot */
	__s32 pid;   /* in the reader's pid namespace; -1 if it has none there, 0 while it is made */
	__u32 ended;
	__u64 nanos, waits; /* by threads that were woken */
	__u64 told_nanos, told_waits;
};

struct record {
	__s32 pid; /* 0: what could not be charged to anybody, so far */
	__u32 tgid;
	__u64 start;
	__u64 ended;
	__u64 nanos, waits;
};

/* Only for the generator of the Go types. */
const struct record *unused_record __attribute__((unused));

__u64 unowned_nanos = 0, unowned_waits = 0;
__u32 level = 0;     /* depth of the pid namespace of the reader */
__u64 namespace = 0; /* and its address, if it is not the first */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192); /* user space sets more where there are many processors */
	__type(key, __u32);
	__type(value, struct account);
} accounts SEC(".maps");

/* Threads that wait, and since when (ns of the monotonic clock). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u64);
} waiting SEC(".maps");

/* Stays zero: a new account is a copy of it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct account);
} blank SEC(".maps");

static __always_inline __u64 read_u64(__u64 address)
{
	__u64 v = 0;

	bpf_probe_read_kernel(&v, sizeof(v), (void *)address);
	return v;
}

/* nested_pid returns the number of a pid in the reader's namespace, -1 if it has none there. */
static __noinline __s32 nested_pid(__u64 at)
{
	if (!at || BPF_CORE_READ((struct pid *)at, level) < level)
		return -1;
	at += bpf_core_field_offset(struct pid, numbers) + (__u64)level * bpf_core_type_size(struct upid);
	if (read_u64(at + bpf_core_field_offset(struct upid, ns)) != namespace)
		return -1;
	return (__s32)read_u64(at + bpf_core_field_offset(struct upid, nr));
}

/* open_account makes the account of a process, by the address of one of its threads. */
static __noinline struct account *open_account(__u32 tgid, __u64 task)
{
	struct task_struct *leader, *t = (void *)task;
	struct account *v;
	__u32 zero = 0;
	__s32 pid = tgid;

	v = bpf_map_lookup_elem(&blank, &zero);
	if (!v)
		return NULL;
	bpf_map_update_elem(&accounts, &tgid, v, BPF_NOEXIST);
	v = bpf_map_lookup_elem(&accounts, &tgid);
	if (!v)
		return NULL;
	leader = BPF_CORE_READ(t, group_leader);
	if (level)
		pid = nested_pid((__u64)BPF_CORE_READ(leader, thread_pid));
	v->start = BPF_CORE_READ(leader, start_boottime);
	*(volatile __s32 *)&v->pid = pid;
	return v;
}

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
		__sync_fetch_and_add(&unowned_waits, 1); /* no room: it is not known for how long */
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(woken, struct task_struct *t)
{
	__u32 tid = 0, tgid;
	struct account *v;
	__u64 *since, took;

	if (!BPF_CORE_READ_BITFIELD(t, in_iowait))
		return 0;
	tid = t->pid;
	since = bpf_map_lookup_elem(&waiting, &tid);
	if (!since)
		return 0; /* it was woken before it had left its processor, or slept before we began */
	took = bpf_ktime_get_ns() - *since;
	bpf_map_delete_elem(&waiting, &tid);
	tgid = t->tgid;
	v = bpf_map_lookup_elem(&accounts, &tgid);
	if (!v)
		v = open_account(tgid, (__u64)t);
	if (v && !v->ended) {
		__sync_fetch_and_add(&v->nanos, took);
		__sync_fetch_and_add(&v->waits, 1);
	} else {
		__sync_fetch_and_add(&unowned_nanos, took);
		__sync_fetch_and_add(&unowned_waits, 1);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(ended, struct task_struct *t)
{
	__u32 tgid = t->tgid;
	struct account *v;

	if (t->signal->live.counter > 0)
		return 0;
	v = bpf_map_lookup_elem(&accounts, &tgid);
	if (v)
		v->ended = 1;
	return 0;
}

/* begin tells the programs which pid namespace is the reader's. */
static __always_inline void begin(void)
{
	struct task_struct *me = (void *)bpf_get_current_task();
	struct pid *pid = BPF_CORE_READ(me, thread_pid);
	__u32 depth = BPF_CORE_READ(pid, level);

	if (depth)
		namespace = read_u64((__u64)pid + bpf_core_field_offset(struct pid, numbers) +
			depth * bpf_core_type_size(struct upid) + bpf_core_field_offset(struct upid, ns));
	level = depth;
}

SEC("iter/bpf_map_elem")
int harvest(struct bpf_iter__bpf_map_elem *ctx)
{
	struct account *v = ctx->value;
	__u32 *key = ctx->key;
	struct record r = {};

	if (ctx->meta->seq_num == 0)
		begin();
	if (!v || !key) { /* all were told */
		r.nanos = unowned_nanos;
		r.waits = unowned_waits;
		bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
		return 0;
	}
	if (!v->pid)
		return 0;
	r.tgid = *key;
	r.pid = v->pid;
	r.start = v->start;
	r.ended = v->ended;
	r.nanos = *(volatile __u64 *)&v->nanos - v->told_nanos;
	r.waits = *(volatile __u64 *)&v->waits - v->told_waits;
	if (!r.nanos && !r.waits && !r.ended)
		return 0;
	if (bpf_seq_write(ctx->meta->seq, &r, sizeof(r)))
		return 0; /* no room: it is called again for the same account */
	v->told_nanos += r.nanos;
	v->told_waits += r.waits;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
