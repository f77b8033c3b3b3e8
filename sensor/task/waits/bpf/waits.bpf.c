// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long the threads of each process wait for storage, and for which disk: see ../waits.go.
 *
 * asleep     when a thread leaves its processor to wait for I/O: records the time.
 * woken      when it is woken: charges the time in between to its process. The time until it
 *            gets a processor again is not part of the wait.
 * completed  when a disk has served a request: records the disk for the wakeups that follow.
 * queued     when a thread passes I/O to a disk: records the disk, for waits whose end no disk causes directly.
 * throttled  when a thread has to wait until what it wrote was written back: records the disk likewise.
 * harvest    walks the accounts and reports what was added to each since the reading before.
 */
#include <task/kernel.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <task/process.h>

#include <task/disk.h>

#define DISKS 5 /* of one process; the last stands for all others */
#define WAKES (50 * 1000) /* ns after a request was served in which its processor wakes those who waited for it */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct block_device {
	struct gendisk *bd_disk;
};

struct bio {
	struct block_device *bi_bdev; /* since 5.12 */
};

struct backing_dev_info {
	char dev_name[64]; /* major:minor */
};

struct bdi_writeback {
	struct backing_dev_info *bdi;
};

#pragma clang attribute pop

/* The name of a disk, or the major and minor number of one ("8:0"). */
struct disk {
	__u64 name[2];
};

struct use {
	struct disk disk;
	__u64 taken; /* 0 of one that is free */
	__u64 nanos, reported;
};

struct account {
	struct process process;
	__u64 nanos, waits; /* of threads that were woken */
	__u64 reported_nanos, reported_waits;
	struct use uses[DISKS]; /* parts of nanos; the rest is time for which no disk could be named */
};

#include <task/account.h>

struct reported {
	struct disk disk;
	__u64 nanos;
};

struct record {
	__s32 pid; /* 0: the running total that belongs to no account */
	__u32 tgid;
	__u64 start;
	__u64 ended;
	__u64 nanos, waits;
	struct reported uses[DISKS];
};

/* Only for the generator of the Go types. */
const struct record *unused_record __attribute__((unused));

__u64 unowned_nanos = 0, unowned_waits = 0;

struct wait {
	__u64 since; /* ns of the monotonic clock */
	struct disk asked; /* to which the thread itself passed I/O before; no name if there is none */
};

/* Threads that wait. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct wait);
} waiting SEC(".maps");

/* What a processor did last. */
struct latest {
	struct {
		__u64 task, at; /* the thread that was interrupted or served it itself; when */
		struct disk disk;
	} served;
	struct {
		__u64 task, sleeps; /* who passed I/O on; how often it had slept before */
		struct disk disk;
	} asked;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct latest);
} processor SEC(".maps");

static __always_inline struct latest *here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&processor, &zero);
}

static __always_inline void name(struct disk *d, const void *from)
{
	struct disk n = {};

	bpf_probe_read_kernel_str(&n, sizeof(n), from);
	*d = n;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(completed, struct request *rq)
{
	struct gendisk *disk = disk_of(rq);
	struct latest *l = here();

	if (!l || !disk)
		return 0;
	name(&l->served.disk, (void *)disk + bpf_core_field_offset(struct gendisk, disk_name));
	l->served.task = (__u64)bpf_get_current_task();
	l->served.at = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int asks(const void *from)
{
	struct task_struct *me = (void *)bpf_get_current_task();
	struct latest *l = here();

	if (!l)
		return 0;
	name(&l->asked.disk, from);
	l->asked.task = (__u64)me;
	l->asked.sleeps = BPF_CORE_READ(me, nvcsw);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(queued, struct bio *bio)
{
	if (!bpf_core_field_exists(struct bio, bi_bdev))
		return 0;
	return asks((void *)bio->bi_bdev->bd_disk + bpf_core_field_offset(struct gendisk, disk_name));
}

SEC("tp_btf/balance_dirty_pages")
int BPF_PROG(throttled, struct bdi_writeback *wb)
{
	return asks((void *)wb->bdi + bpf_core_field_offset(struct backing_dev_info, dev_name));
}

SEC("tp_btf/sched_switch")
int BPF_PROG(asleep, int preempt, struct task_struct *prev, struct task_struct *next)
{
	struct wait w = {};
	struct latest *l;
	__u32 tid;

	if (preempt || !BPF_CORE_READ_BITFIELD(prev, in_iowait))
		return 0;
	tid = prev->pid;
	if (!tid)
		return 0;
	l = here();
	/* This sleep is counted already; what the thread passed on before an earlier one is not what it waits for. */
	if (l && l->asked.task == (__u64)prev && l->asked.sleeps + 1 == prev->nvcsw)
		w.asked = l->asked.disk;
	w.since = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&waiting, &tid, &w, BPF_ANY))
		add(&unowned_waits, 1); /* the map is full: a wait of unknown length */
	return 0;
}

/* use_of returns the time of a process on a disk. Two threads may take an entry each for the same disk. */
static __always_inline __u64 *use_of(struct account *v, struct disk *d)
{
#pragma unroll
	for (int i = 0; i < DISKS - 1; i++) {
		struct use *u = &v->uses[i];

		if (!u->taken && !__sync_val_compare_and_swap(&u->taken, 0, 1)) {
			u->disk = *d;
			return &u->nanos;
		}
		if (u->disk.name[0] == d->name[0] && u->disk.name[1] == d->name[1])
			return &u->nanos;
	}
	return &v->uses[DISKS - 1].nanos;
}

/* This is where the waker runs, which sched_wakeup is not always. */
SEC("tp_btf/sched_waking")
int BPF_PROG(woken, struct task_struct *t)
{
	struct wait *w, was;
	struct latest *l;
	struct account *v;
	__u64 now;
	__u32 tid;

	if (!BPF_CORE_READ_BITFIELD(t, in_iowait))
		return 0;
	tid = t->pid;
	w = bpf_map_lookup_elem(&waiting, &tid);
	if (!w)
		return 0; /* woken before it left its processor, or asleep since before we were loaded */
	was = *w;
	bpf_map_delete_elem(&waiting, &tid);
	now = bpf_ktime_get_ns();
	v = account_of(t->tgid, (__u64)t);
	add(v ? &v->nanos : &unowned_nanos, now - was.since);
	add(v ? &v->waits : &unowned_waits, 1);
	l = here();
	if (!v || !l)
		return 0;
	if (l->served.task == (__u64)bpf_get_current_task() && now - l->served.at < WAKES)
		was.asked = l->served.disk;
	if (was.asked.name[0])
		add(use_of(v, &was.asked), now - was.since);
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
	for (int i = 0; i < DISKS; i++) {
		r.uses[i].disk = v->uses[i].disk;
		r.uses[i].nanos = *(volatile __u64 *)&v->uses[i].nanos - v->uses[i].reported;
	}
	if (!r.nanos && !r.waits && !r.ended)
		return 0;
	if (bpf_seq_write(ctx->meta->seq, &r, sizeof(r)))
		return 0; /* the buffer is full: the kernel calls again for the same account */
	v->reported_nanos += r.nanos;
	v->reported_waits += r.waits;
	for (int i = 0; i < DISKS; i++)
		v->uses[i].reported += r.uses[i].nanos;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
