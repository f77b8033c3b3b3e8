/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the programs of sensor/task read, each with the few members they read.
 * Offsets and flavours (names with three underscores) are resolved when a program is loaded (CO-RE):
 * see ../../ebpf/bpf/kernel.h.
 */
#pragma once

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1024,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct pid_namespace;

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct signal_struct {
	atomic_t live;
};

struct sched_info {
	unsigned long pcount;         /* how often the thread got a processor */
	unsigned long long run_delay; /* ns ready and not running, until it last got one */
};

struct task_struct {
	unsigned int flags;
	int pid, tgid;
	unsigned int in_iowait : 1; /* the thread sleeps until storage answers */
	unsigned long nvcsw; /* how often the thread left its processor to sleep */
	struct sched_info sched_info;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	__u64 start_boottime;
	struct signal_struct *signal;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *key;
	void *value;
};

#pragma clang attribute pop
