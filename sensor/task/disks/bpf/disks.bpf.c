// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long disks take to answer requests: see ../disks.go.
 *
 * done       when a request is accounted for (since 6.5).
 * completed  the same for older kernels, when the last part of a request is completed.
 * harvest    walks the disks and reports the totals of each.
 */
#include <task/kernel.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <task/disk.h>
#include <task/octaves.h>

#define OPERATIONS 4 /* read, write, flush, discard: enum req_op */
#define REQ_OP_MASK 0xff

struct key {
	__u64 disk; /* address of the gendisk */
	__u64 operation;
};

struct entry {
	char name[32];
	struct delays delays;
};

struct record {
	__u64 operation;
	struct entry entry;
};

/* Only for the generator of the Go types. */
const struct record *unused_record __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct key);
	__type(value, struct entry);
} accounts SEC(".maps");

/* Scratch memory: entries and records are larger than what the stack has room for. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct record);
} scratch SEC(".maps");

/* entry_of returns the entry of a disk and operation; another disk may have had the same address. */
static __always_inline struct entry *entry_of(struct gendisk *disk, __u32 operation)
{
	struct key key = { (__u64)disk, operation };
	struct entry *e = bpf_map_lookup_elem(&accounts, &key);
	struct record *blank;
	__u32 zero = 0;

	if (e)
		return e;
	blank = bpf_map_lookup_elem(&scratch, &zero);
	if (!blank)
		return NULL;
	bpf_probe_read_kernel_str(blank->entry.name, sizeof(blank->entry.name), (void *)disk + bpf_core_field_offset(struct gendisk, disk_name));
	bpf_map_update_elem(&accounts, &key, &blank->entry, BPF_NOEXIST);
	return bpf_map_lookup_elem(&accounts, &key);
}

static __always_inline int answered(struct request *rq)
{
	__u64 started = rq->start_time_ns, now;
	__u32 operation = rq->cmd_flags & REQ_OP_MASK;
	struct gendisk *disk;
	struct entry *e;

	if (!started || operation >= OPERATIONS)
		return 0;
	disk = disk_of(rq);
	if (!disk)
		return 0;
	e = entry_of(disk, operation);
	now = bpf_ktime_get_ns(); /* the fast clock may be behind the one of the stamp by some ns */
	if (e)
		observe(&e->delays, now > started ? now - started : 0);
	return 0;
}

SEC("tp_btf/block_io_done")
int BPF_PROG(done, struct request *rq)
{
	return answered(rq);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(completed, struct request *rq, int error, unsigned int bytes)
{
	return bytes < rq->__data_len ? 0 : answered(rq);
}

SEC("iter/bpf_map_elem")
int harvest(struct bpf_iter__bpf_map_elem *ctx)
{
	struct entry *e = ctx->value;
	struct key *key = ctx->key;
	struct record *r;
	__u32 one = 1;

	if (!e || !key)
		return 0;
	r = bpf_map_lookup_elem(&scratch, &one);
	if (!r)
		return 0;
	r->operation = key->operation;
	__builtin_memcpy(&r->entry, e, sizeof(*e));
	bpf_seq_write(ctx->meta->seq, r, sizeof(*r));
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
