/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What each process does on file systems, kept alike by the programs that count calls of the
 * VFS. The includer defines "static int first(void)", which the iterator calls before it reports the first account, after
 * it included this file.
 *
 *   harvest  walks the accounts and reports what was added to each since the reading before.
 */
#pragma once

#define MOUNTS 5            /* of one process; the last stands for all others */
#define OTHERS (~0ULL)
#define NOBODY 0            /* account of requests that no process is known to have made */

enum operation { READ, WRITE, METADATA, OPERATIONS };

struct cells {
	__u64 bytes[2];
	__u64 operations[OPERATIONS];
	__u64 nanos[OPERATIONS];
};

#define FIGURES (sizeof(struct cells) / sizeof(__u64))

struct use {
	__u64 dev; /* of the mount, plus 1; 0 of one that is free */
	struct cells now, reported;
};

struct account {
	struct process process;
	struct use uses[MOUNTS];
};

#include <task/account.h>

struct reported {
	__u64 dev;
	struct cells cells;
};

struct record {
	__s32 pid;
	__u32 tgid;
	__u64 start;
	__u64 ended;
	struct reported uses[MOUNTS];
};

/* Only for the generator of the Go types. */
const struct record *unused_record __attribute__((unused));

/* index_of returns which of the counters of a process are those of a mount. */
static __always_inline __u32 index_of(struct account *v, __u64 dev)
{
#pragma unroll
	for (int i = 0; i < MOUNTS - 1; i++) {
		__u64 was = v->uses[i].dev;

		if (!was)
			was = __sync_val_compare_and_swap(&v->uses[i].dev, 0, dev);
		if (!was || was == dev)
			return i;
	}
	v->uses[MOUNTS - 1].dev = OTHERS;
	return MOUNTS - 1;
}

/* use_of returns the counters of a process on a mount. */
static __always_inline struct use *use_of(struct account *v, __u64 dev)
{
	return &v->uses[index_of(v, dev)];
}

/* Scratch memory of harvest: a record is larger than what the stack has room for. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record);
} scratch SEC(".maps");

static int first(void);

SEC("iter/bpf_map_elem")
int harvest(struct bpf_iter__bpf_map_elem *ctx)
{
	struct account *v = ctx->value;
	__u32 *key = ctx->key, zero = 0;
	__u64 changed = 0;
	struct record *r;

	if (ctx->meta->seq_num == 0) {
		begin();
		first();
	}
	r = bpf_map_lookup_elem(&scratch, &zero);
	if (!r || !v || !key || !v->process.pid)
		return 0;
	r->tgid = *key;
	r->pid = v->process.pid;
	r->start = v->process.start;
	r->ended = v->process.ended;
	for (int i = 0; i < MOUNTS; i++) {
		__u64 *now = (__u64 *)&v->uses[i].now, *was = (__u64 *)&v->uses[i].reported, *out = (__u64 *)&r->uses[i].cells;

		r->uses[i].dev = v->uses[i].dev;
		for (int k = 0; k < FIGURES; k++) {
			out[k] = *(volatile __u64 *)&now[k] - was[k];
			changed |= out[k];
		}
	}
	if (!changed && !r->ended)
		return 0;
	if (bpf_seq_write(ctx->meta->seq, r, sizeof(*r)))
		return 0; /* the buffer is full: the kernel calls again for the same account */
	for (int i = 0; i < MOUNTS; i++) {
		__u64 *was = (__u64 *)&v->uses[i].reported, *out = (__u64 *)&r->uses[i].cells;

		for (int k = 0; k < FIGURES; k++)
			was[k] += out[k];
	}
	return 0;
}
