/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Accounts by process, which all programs of sensor/task keep alike. The includer defines
 * struct account, which begins with struct process, before it includes this file, and:
 *
 *   ACCOUNTS   the map of accounts by process id of the first pid namespace
 *   ended      marks the account of a process when its last thread exits
 *   begin      records the pid namespace of the reader; the iterator calls it first
 *
 * User space deletes an account one reading after the one that reported its end.
 */
#pragma once

__u32 level = 0;     /* depth of the reader's pid namespace */
__u64 namespace = 0; /* address of the reader's pid namespace, 0 if it is the first */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192); /* user space raises it with the number of processors */
	__type(key, __u32);
	__type(value, struct account);
} accounts SEC(".maps");

/* Always zero: new accounts are copies of it. */
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

/* nested_pid returns a process id as seen in the reader's pid namespace, -1 if it is not visible there. */
static __noinline __s32 nested_pid(__u64 at)
{
	if (!at || BPF_CORE_READ((struct pid *)at, level) < level)
		return -1;
	at += bpf_core_field_offset(struct pid, numbers) + (__u64)level * bpf_core_type_size(struct upid);
	if (read_u64(at + bpf_core_field_offset(struct upid, ns)) != namespace)
		return -1;
	return (__s32)read_u64(at + bpf_core_field_offset(struct upid, nr));
}

/* open_account creates the account of a process, given the address of one of its threads. */
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
	v->process.start = BPF_CORE_READ(leader, start_boottime);
	*(volatile __s32 *)&v->process.pid = pid;
	return v;
}

/*
 * account_of returns the account of a process, NULL if the map is full. An account that is marked as
 * ended belongs to an earlier process with the same id.
 */
static __always_inline struct account *account_of(__u32 tgid, __u64 task)
{
	struct account *v = bpf_map_lookup_elem(&accounts, &tgid);

	if (!v)
		v = open_account(tgid, task);
	return v && !v->process.ended ? v : NULL;
}

static __always_inline void add(__u64 *v, __u64 n)
{
	__sync_fetch_and_add(v, n);
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
		v->process.ended = 1;
	return 0;
}

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
