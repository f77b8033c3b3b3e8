// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What each process does on FUSE file systems: see ../fuse.go.
 *
 * sent      when a request is passed to the server of the file system: records the time and the process
 *           that the kernel names in it.
 * answered  when it is over: counts it, its payload and the time it took, by mount.
 * harvest   walks the accounts and reports what was added to each since the reading before.
 */
#include <task/kernel.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <task/process.h>

/* enum fuse_opcode of include/uapi/linux/fuse.h */
#define FUSE_READ 15
#define FUSE_WRITE 16
#define FUSE_INIT 26
#define FUSE_DESTROY 38

#define OUT_HEADER 16   /* bytes of struct fuse_out_header */
#define WRITE_HEADER 80 /* bytes of struct fuse_in_header and fuse_write_in */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pid_namespace {
	unsigned int level;
};

struct fuse_conn {
	__u32 dev;
	struct pid_namespace *pid_ns;
};

struct fuse_mount {
	struct fuse_conn *fc;
};

struct fuse_in_header {
	__u32 len, opcode;
	__u32 pid; /* thread, in the pid namespace of the mount; 0 if no process made the request */
};

struct fuse_out_header {
	__u32 len;
	__s32 error;
};

struct fuse_req {
	struct {
		struct fuse_in_header h;
	} in;
	struct {
		struct fuse_out_header h;
	} out;
	struct fuse_mount *fm;
};

#pragma clang attribute pop

extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

#include <task/mounts.h>

/* A request under way. */
struct request {
	__u64 since; /* ns of the monotonic clock */
	__u32 tgid;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH); /* an entry without an answer is dropped in the end */
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct request);
} requests SEC(".maps");

/* requester returns the process that made a request, with its account open. */
static __always_inline __u32 requester(const struct fuse_req *req)
{
	struct task_struct *me = (void *)bpf_get_current_task(), *t;
	__u32 tid = BPF_CORE_READ(req, in.h.pid), tgid = NOBODY, depth;
	__u64 at = (__u64)BPF_CORE_READ(me, thread_pid);

	if (!tid)
		return NOBODY;
	depth = BPF_CORE_READ(req, fm, fc, pid_ns, level);
	at += bpf_core_field_offset(struct pid, numbers) + (__u64)depth * bpf_core_type_size(struct upid) + bpf_core_field_offset(struct upid, nr);
	if ((__u32)read_u64(at) == tid) {
		tgid = bpf_get_current_pid_tgid() >> 32;
		return account_of(tgid, (__u64)me) ? tgid : NOBODY;
	}
	if (depth)
		return NOBODY;
	t = bpf_task_from_pid(tid); /* somebody else passes on what was waiting */
	if (!t)
		return NOBODY;
	tgid = t->tgid;
	if (!account_of(tgid, (__u64)t))
		tgid = NOBODY;
	bpf_task_release(t);
	return tgid;
}

SEC("tp_btf/fuse_request_send")
int BPF_PROG(sent, const struct fuse_req *req)
{
	struct request r = {};
	__u64 key = (__u64)req;

	r.since = bpf_ktime_get_ns();
	r.tgid = requester(req);
	bpf_map_update_elem(&requests, &key, &r, BPF_ANY);
	return 0;
}

SEC("tp_btf/fuse_request_end")
int BPF_PROG(answered, const struct fuse_req *req)
{
	__u32 opcode = BPF_CORE_READ(req, in.h.opcode), len, nobody = NOBODY, i = METADATA;
	__u64 key = (__u64)req, took;
	struct request *r;
	struct account *v;
	struct cells *c;

	if (opcode == FUSE_INIT || opcode == FUSE_DESTROY)
		return 0;
	r = bpf_map_lookup_elem(&requests, &key);
	if (!r)
		return 0; /* it began before we were loaded */
	took = bpf_ktime_get_ns() - r->since;
	v = bpf_map_lookup_elem(&accounts, &r->tgid);
	bpf_map_delete_elem(&requests, &key);
	if (!v)
		v = bpf_map_lookup_elem(&accounts, &nobody);
	if (!v)
		return 0;
	c = &use_of(v, (__u64)BPF_CORE_READ(req, fm, fc, dev) + 1)->now;
	if (opcode == FUSE_READ || opcode == FUSE_WRITE) {
		i = opcode == FUSE_READ ? READ : WRITE;
		len = i == READ ? BPF_CORE_READ(req, out.h.len) : BPF_CORE_READ(req, in.h.len);
		len = len > (i == READ ? OUT_HEADER : WRITE_HEADER) ? len - (i == READ ? OUT_HEADER : WRITE_HEADER) : 0;
		if (!BPF_CORE_READ(req, out.h.error))
			add(i == READ ? &c->bytes[READ] : &c->bytes[WRITE], len);
		add(i == READ ? &c->operations[READ] : &c->operations[WRITE], 1);
		add(i == READ ? &c->nanos[READ] : &c->nanos[WRITE], took);
		return 0;
	}
	add(&c->operations[METADATA], 1);
	add(&c->nanos[METADATA], took);
	return 0;
}

static int first(void) { return 0; }

char _license[] SEC("license") = "Dual BSD/GPL";
