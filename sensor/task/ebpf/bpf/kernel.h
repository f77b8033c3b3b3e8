/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that task.bpf.c reads, each with the few members it reads.
 *
 * Offsets are those of the running kernel: preserve_access_index makes the compiler
 * write a relocation for each access, and the loader fills it in from the kernel's BTF
 * (CO-RE). A name with three underscores is a flavour: the loader strips what follows
 * them. It describes another layout of the same type, and is read only behind
 * bpf_core_field_exists.
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

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_MMAPABLE = 1024,
};

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct inode {
	__u32 i_rdev;
};

struct list_head {
	struct list_head *next;
};

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	long counter;
} atomic_long_t;

/* The first word of a seqlock_t in every configuration is its sequence number. */
struct seqlock {
	__u32 sequence;
};

struct sched_entity {
	__u64 sum_exec_runtime; /* ns, precise */
};

struct sched_info {
	unsigned long long run_delay; /* ns runnable and not running */
};

struct task_io_accounting {
	__u64 read_bytes, write_bytes;
	__u64 cancelled_write_bytes;
};

typedef struct {
	__u32 val;
} kuid_t;

struct cred {
	kuid_t uid;
};

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
	int nr_threads;
	struct list_head thread_head;
	struct pid *pids[4];
	struct seqlock stats_lock;
	__u64 utime, stime;
	unsigned long nvcsw, nivcsw;
	unsigned long min_flt, maj_flt;
	unsigned long cmin_flt; /* of children that were waited for */
	unsigned long maxrss;   /* pages */
	struct task_io_accounting ioac;
	unsigned long long sum_sched_runtime;
	struct mm_struct *oom_mm; /* set when the OOM killer chose the process; since 4.10 */
};

struct mm_rss_stat {
	atomic_long_t count[4];
};

struct percpu_counter {
	__s64 count;
	__s32 *counters;
};

struct mm_struct {
	atomic_t mm_users;
	unsigned long hiwater_rss;
	atomic_long_t hugetlb_usage; /* pages; only with CONFIG_HUGETLB_PAGE */
};

/* Linux before 6.2: one total for each type. */
struct mm_struct___total {
	struct mm_rss_stat rss_stat;
};

/* Since 6.2: a total, and what each processor has not added to it yet. */
struct mm_struct___percpu {
	struct percpu_counter rss_stat[4];
};

struct kernfs_node {
	const char *name;
	__u64 id;
};

struct kernfs_node___parent {
	struct kernfs_node___parent *parent;
};

/* Since 6.15. */
struct kernfs_node___rcu {
	struct kernfs_node___rcu *__parent;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgrp_cset_link {
	struct cgroup *cgrp;
	struct list_head cgrp_link;
};

struct css_set {
	struct list_head cgrp_links;
};

struct sighand_struct;

struct task_struct {
	unsigned int flags;
	struct sched_entity se;
	struct sched_info sched_info;
	struct mm_struct *mm;
	int exit_state;
	int pid, tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	__u64 utime, stime;
	unsigned long nvcsw, nivcsw;
	__u64 start_boottime;
	unsigned long min_flt, maj_flt;
	const struct cred *real_cred;
	char comm[16];
	struct signal_struct *signal;
	struct sighand_struct *sighand; /* NULL once the process was waited for */
	struct task_io_accounting ioac;
	struct css_set *cgroups;
	struct list_head thread_node; /* of its process */
};

/* Linux before 5.14 called it state. */
struct task_struct___state {
	long state;
};

struct task_struct___u32 {
	unsigned int __state;
};

struct bpf_array {
	void *pptrs[1];
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

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop
