// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The task table of the kernel, as records: see ../record.go for what they mean and
 * ../ebpf.go for how they are put together.
 *
 * walk   a task iterator: a record for each process and a short one for each further
 *        thread. The iterator goes by process id, so threads of one process do not follow
 *        each other; user space adds them up. (Walking the threads of a process
 *        here would need a read through a helper for each field of each of them, and
 *        the iterator visits every thread anyway.) A process of one thread that has not
 *        run since the last pass costs eight cache lines instead of more than thirty: its
 *        record says that nothing has changed.
 * list   the same, where the kernel lets a program go through its list of processes (since 6.7): without the
 *        look-up of each number that the iterator makes, which costs as much again. It writes into memory that
 *        user space has mapped, adds the threads of a process up itself, and passes over processes of many
 *        threads, too, if none of them has run. What does not fit is read by walk.
 * ended  when a thread ends: keeps what it waited, read and wrote, of which the kernel keeps nothing, or adds
 *        it to the I/O of children. When the last thread of a process ends: notes who it was, as the kernel forgets
 *        group, session and parent when the process is waited for.
 * freed  when the kernel frees a process: its final totals, the CPU time up to its last
 *        switch included. At its end that is not known: the scheduler has not charged
 *        the last slice yet, which may be all of a short life.
 * opened when a process opens the node of a GPU. Other files cost nothing: the kernel calls chrdev_open for character devices alone.
 * claim  freed comes some 10 ms after the process was waited for (a grace period of RCU).
 *        This reads the totals of those between the two. User space drops the record of
 *        freed that follows: a mark in the entry could hit that of another process, as
 *        the kernel gives entries away again at once and this may be interrupted.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define EXIT_DEAD 0x10
#define PIDTYPE_PGID 2
#define PIDTYPE_SID 3

#define MAX_CPUS 4096
#define MAX_HIERARCHIES 24
#define MAX_DEPTH 32
#define MAX_ENDING 64 /* threads that end at once */
#define NAME_SIZE 256
#define PATH_SIZE 4096
#define TOLD_SLOTS 131072
#define REFRESH 31 /* passes, and one: a power of two */
#define SET_SLOTS 256
#define LISTING_WORDS 65536
#define OPEN_SLOTS 64
/* Numbers of devices, as in Documentation/admin-guide/devices.txt. What has /dev/kfd open to compute opens the render node, too. */
#define MINOR_BITS 20
#define MAJOR_NVIDIA 195
#define MINOR_NVIDIA_MODESET 254 /* and 255, nvidiactl: of all devices */
#define MAJOR_DRM 226
#define ALL_PROCS 0    /* BPF_TASK_ITER_ALL_PROCS */
#define PROC_THREADS 2 /* BPF_TASK_ITER_PROC_THREADS */

enum kind {
	KIND_PASS = 1,
	KIND_PROCESS,
	KIND_THREAD,
	KIND_EXIT,  /* by freed */
	KIND_PATH,
	KIND_CLAIM, /* the same, by claim: that of freed follows */
	KIND_SAME,  /* a process as it was told in the last pass */
	KIND_OPEN,
};

/* Of the kernel, since 6.7: kernel/bpf/task_iter.c. */
struct bpf_iter_task {
	__u64 opaque[3];
} __attribute__((aligned(8)));

extern int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, unsigned int flags) __ksym;
extern struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym;
extern void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
extern struct task_struct *bpf_task_acquire(struct task_struct *t) __ksym;
extern void bpf_task_release(struct task_struct *t) __ksym;

/* What the record could tell on this kernel. */
enum flag {
	HAVE_WAIT = 1 << 0,
	HAVE_IO = 1 << 1,
	HAVE_GROUP = 1 << 2,
	HAVE_MEMORY = 1 << 3,
	HAVE_MM = 1 << 4,     /* it has an address space */
	KERNEL = 1 << 5,
	UNSTABLE = 1 << 6,    /* a thread ended while the totals were read */
	CHILD_IO = 1 << 7,    /* the kernel's I/O of ended threads has that of children, too */
	OOM_VICTIM = 1 << 8,  /* the OOM killer chose it */
	INCOMPLETE = 1 << 9,  /* a thread ended before it was added: it is missing */
	PARTIAL = 1 << 10,    /* some thread ended of which nothing was kept */
	SHARED = 1 << 11,     /* another process may have the same address space */
};

struct pass {
	__u32 kind, level;
	__u64 lost; /* exit records so far that found no room */
	__u64 full; /* ended threads so far of which nothing could be kept */
};

struct usage {
	__u64 runtime, utime, stime, wait; /* ns */
	__u64 nvcsw, nivcsw, minflt, majflt;
	__u64 read_bytes, write_bytes;
	__u64 cancelled; /* written, and deleted before it reached storage, bytes */
};

struct process {
	__u32 kind, flags;
	__s32 pid, ppid, pgid, sid;
	__u32 uid, threads;
	__u32 state, seq;
	__u64 start, cgroup;
	struct usage use;
	__u32 harvested, kept; /* a number that changes with what is kept of ended threads, and whether something is */
	__u64 mm;          /* number of its address space, 0 if it has none */
	__s64 huge;        /* pages of ordinary size that explicit huge pages take */
	__s64 pages[4];    /* file, anonymous, swapped, shmem */
	__s64 delta[4];    /* to be added to pages; of one that ended, the first is how long it lived, ns */
	__u64 peak;        /* pages */
	char comm[16];
};

struct same {
	__u32 kind;
	__s32 pid;
};

struct thread {
	__u32 kind, seq;
	__s32 pid; /* of the process */
	__u32 harvested; /* of the process, 0 if that was read before */
	struct usage use;
};

struct open {
	__u32 kind;
	__s32 pid;
	__u32 node; /* major number << MINOR_BITS, minor number */
	__u32 lost; /* opens so far that found no room */
};

struct path {
	__u32 kind, hierarchy;
	__u64 set;
	__u32 count;   /* number of hierarchies of the set */
	__u32 length;  /* bytes of names; ~0 if the path is too long */
	char names[PATH_SIZE]; /* leaf first, each ended by NUL */
};

/* What is known of a process when its last thread ends. */
struct obituary {
	struct process r; /* totals short of the last slice of CPU time */
	__u64 task;       /* address of the leader, valid until freed was run for it */
};

/* What the threads of a process did that ended, of what the kernel keeps nothing of or nothing apart. */
struct life {
	__u64 start;
	__u32 tgid, unused;
};

struct kept {
	__u64 wait, read_bytes, write_bytes, cancelled;
	__u64 partial; /* some ended before this was there */
};

/* Only for the generator of the Go types. */
const struct pass *unused_pass __attribute__((unused));
const struct process *unused_process __attribute__((unused));
const struct thread *unused_thread __attribute__((unused));
const struct same *unused_same __attribute__((unused));

const struct open *unused_open __attribute__((unused));
const struct life *unused_life __attribute__((unused));
const struct kept *unused_kept __attribute__((unused));

const volatile __u32 nr_cpus = 1;    /* highest possible processor + 1 */

__u64 lost = 0;
__u64 full = 0;
__u64 pass_number = 0;
__u64 complete = 0;              /* the last pass that was read to its end */
__u64 pointer = 0;               /* see as_number */
__u64 told_as[TOLD_SLOTS] = {};  /* by process id: its fingerprint and the pass */
bool told_many[TOLD_SLOTS] = {}; /* and whether the fingerprint is that of all its threads */
__u32 level = 0;                 /* depth of the pid namespace of the reader */
__u64 namespace = 0;             /* and its address, if it is not the first */
__u64 cpu_offset[MAX_CPUS] = {}; /* of the memory of each processor */
__u32 offsets_known = 0;
struct {
	__u64 set, number, pass;
} set_memo[SET_SLOTS] = {};
struct {
	__u64 who, pass;
} open_memo[OPEN_SLOTS] = {};
__u32 opens_lost = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* user space sets more where there are many processors */
} events SEC(".maps");

/* Of its own, so that a process that opens a device all the time costs no end of another one. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} opens SEC(".maps");

/* The oldest give way: what is left behind when freed was not run (the kernel skips trace
 * points on a processor that goes offline) does not fill it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096); /* as above */
	__type(key, __u32);
	__type(value, struct obituary);
} ending SEC(".maps");

/* Of living processes, some of whose threads have ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); /* as above */
	__type(key, struct life);
	__type(value, struct kept);
} harvest SEC(".maps");

/* Sets of cgroups whose paths were told. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, __u32);
} told SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct obituary);
} writing SEC(".maps");

/* Records of walk, which would be too much for the stack. */
struct walking {
	struct process process;
	struct thread thread;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walking);
} walking SEC(".maps");

/* The records of list. */
struct listing {
	__u32 used; /* words */
	__u32 full; /* there was more */
	__u64 words[LISTING_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct listing);
} listing SEC(".maps");

/* Set by user space when it lost a pass: all is told in full once. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} anew SEC(".maps");

static __always_inline __u64 mix(__u64 hierarchy, __u64 id)
{
	__u64 x = id + (hierarchy + 1) * 0x9e3779b97f4a7c15ULL;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* as_number makes a number of a pointer. The verifier lets nobody reckon with a pointer, but what
 * is read from memory is a number. */
#define as_number(p) (*(const void *volatile *)&pointer = (p), *(volatile __u64 *)&pointer)

static __always_inline __u64 read_u64(__u64 address)
{
	__u64 v = 0;

	bpf_probe_read_kernel(&v, sizeof(v), (void *)address);
	return v;
}

static __always_inline __u64 parent_of(__u64 kn)
{
	struct kernfs_node___rcu *now = (void *)kn;
	struct kernfs_node___parent *before = (void *)kn;

	if (bpf_core_field_exists(now->__parent))
		return (__u64)BPF_CORE_READ(now, __parent);
	return (__u64)BPF_CORE_READ(before, parent);
}

/*
 * The functions that loop are global, and take and give numbers only: so the verifier looks
 * at each once, and not again for each call and for each state of its caller, which took it
 * a minute before Linux 6.4 and more instructions than it allows.
 */

/* write_path writes the names from a cgroup up to its root into the scratch record. */
__noinline __u32 write_path(__u64 kn)
{
	struct path *r;
	__u32 n = 0, zero = 0;

	r = bpf_map_lookup_elem(&scratch, &zero);
	if (!r)
		return ~0U;
	for (int depth = 0; depth < MAX_DEPTH; depth++) {
		__u64 parent = parent_of(kn);
		const char *name;
		long got;

		if (!parent)
			return n;
		name = BPF_CORE_READ((struct kernfs_node *)kn, name);
		if (n >= PATH_SIZE - NAME_SIZE)
			return ~0U;
		got = bpf_probe_read_kernel_str(&r->names[n], NAME_SIZE, name);
		if (got <= 0 || got > NAME_SIZE)
			return ~0U;
		n += got;
		kn = parent;
	}
	return ~0U;
}

#define LINK(next) ((next) - bpf_core_field_offset(struct cgrp_cset_link, cgrp_link))
#define LINK_CGROUP(next) ((struct cgroup *)read_u64(LINK(next) + bpf_core_field_offset(struct cgrp_cset_link, cgrp)))

/* tell_paths sends the paths of a set of cgroups, once. */
__noinline int tell_paths(__u64 set, __u64 number, __u32 count)
{
	__u64 head = set + bpf_core_field_offset(struct css_set, cgrp_links);
	__u64 next = read_u64(head);
	__u32 zero = 0, one = 1;
	struct path *r;

	if (bpf_map_lookup_elem(&told, &number))
		return 0;
	r = bpf_map_lookup_elem(&scratch, &zero);
	if (!r)
		return 0;
	for (int i = 0; i < MAX_HIERARCHIES; i++) {
		struct cgroup *cg;
		__u32 length;

		if (!next || next == head)
			break;
		cg = LINK_CGROUP(next);
		r->kind = KIND_PATH;
		r->hierarchy = BPF_CORE_READ(cg, root, hierarchy_id);
		r->set = number;
		r->count = count;
		length = write_path((__u64)BPF_CORE_READ(cg, kn));
		r->length = length;
		if (length >= PATH_SIZE)
			length = 0;
		if (bpf_ringbuf_output(&events, r, __builtin_offsetof(struct path, names) + (length & (PATH_SIZE - 1)), 0))
			return 0; /* no room: the next sight of the set tries again */
		next = read_u64(next);
	}
	bpf_map_update_elem(&told, &number, &one, BPF_ANY);
	return 0;
}

/* number_of_set mixes hierarchy and id of every cgroup of a set. Ids of cgroups are not
 * reused (kernfs counts generations), the address of a set is. */
__noinline __u64 number_of_set(__u64 set)
{
	__u64 head = set + bpf_core_field_offset(struct css_set, cgrp_links);
	__u64 next = read_u64(head);
	__u64 number = 0;
	__u32 count = 0;

	for (int i = 0; i < MAX_HIERARCHIES; i++) {
		struct cgroup *cg;

		if (!next || next == head)
			break;
		cg = LINK_CGROUP(next);
		number += mix(BPF_CORE_READ(cg, root, hierarchy_id), BPF_CORE_READ(cg, kn, id));
		count++;
		next = read_u64(next);
	}
	if (!count)
		return 0;
	if (!number)
		number = 1;
	tell_paths(set, number, count);
	return number;
}

static __always_inline __u64 cgroups_of(struct task_struct *t)
{
	if (!bpf_core_field_exists(t->cgroups) || !bpf_core_field_exists(struct css_set, cgrp_links))
		return 0;
	return number_of_set((__u64)BPF_CORE_READ(t, cgroups));
}

/* cgroups_in_pass is cgroups_of with a memory that is valid within one pass. */
static __always_inline __u64 cgroups_in_pass(struct task_struct *t)
{
	__u64 set, number, pass = pass_number;
	__u32 i;

	if (!bpf_core_field_exists(t->cgroups))
		return 0;
	set = (__u64)BPF_CORE_READ(t, cgroups); /* a number: the verifier shifts no pointers */
	i = ((set >> 6) ^ (set >> 14)) & (SET_SLOTS - 1);
	if (set_memo[i].set == set && set_memo[i].pass == pass)
		return set_memo[i].number;
	number = cgroups_of(t);
	set_memo[i].set = set;
	set_memo[i].number = number;
	set_memo[i].pass = pass;
	return number;
}

/* nested_pid returns the number of a pid in the reader's namespace, 0 if it has none there. */
static __noinline __s32 nested_pid(struct pid *pid)
{
	struct pid *volatile copy = pid;
	__u64 at = read_u64((__u64)&copy); /* a number, to reckon with */

	if (!at || BPF_CORE_READ((struct pid *)at, level) < level)
		return 0;
	at += bpf_core_field_offset(struct pid, numbers) + (__u64)level * bpf_core_type_size(struct upid);
	if (read_u64(at + bpf_core_field_offset(struct upid, ns)) != namespace)
		return 0;
	return (__s32)read_u64(at + bpf_core_field_offset(struct upid, nr));
}

static __always_inline __s32 pid_at(struct pid *pid)
{
	return level ? nested_pid(pid) : pid->numbers[0].nr;
}

static __always_inline __s32 tgid_of(struct task_struct *t)
{
	return level ? pid_at(t->group_leader->thread_pid) : t->tgid;
}

static __always_inline __u32 sequence(struct signal_struct *sig)
{
	return *(volatile __u32 *)&sig->stats_lock;
}

static __always_inline __u32 run_state(struct task_struct *t)
{
	struct task_struct___u32 *now = (void *)t;
	struct task_struct___state *before = (void *)t;

	if (bpf_core_field_exists(now->__state))
		return now->__state;
	return before->state;
}

static __always_inline __u32 state_of(struct task_struct *t)
{
	return (run_state(t) & 0xffff) | ((__u32)t->exit_state << 16);
}

static __always_inline void own_usage(struct usage *u, struct task_struct *t)
{
	u->runtime = t->se.sum_exec_runtime;
	u->utime = t->utime;
	u->stime = t->stime;
	u->nvcsw = t->nvcsw;
	u->nivcsw = t->nivcsw;
	u->minflt = t->min_flt;
	u->majflt = t->maj_flt;
}

/* kept_usage is what is harvested when a thread ends. kept: that was done for the process; with children, the I/O was, too. */
static __always_inline void kept_usage(struct usage *u, struct task_struct *t, bool kept, bool children)
{
	kept = kept && (t->flags & PF_EXITING);
	if (bpf_core_field_exists(t->ioac.read_bytes) && !(kept && children)) {
		u->read_bytes = t->ioac.read_bytes;
		u->write_bytes = t->ioac.write_bytes;
		u->cancelled = t->ioac.cancelled_write_bytes;
	}
	if (bpf_core_field_exists(t->sched_info.run_delay) && !kept)
		u->wait = t->sched_info.run_delay;
}

/* harvest_of returns what is kept of the ended threads of a process, NULL if it is nothing. */
static __always_inline struct kept *harvest_of(struct task_struct *leader)
{
	struct life key = { .start = leader->start_boottime, .tgid = leader->tgid };

	return bpf_map_lookup_elem(&harvest, &key);
}

/* version_of changes with what is kept of ended threads; never 0. */
static __always_inline __u32 version_of(const struct kept *h)
{
	if (!h)
		return 2;
	return (__u32)(h->wait + h->read_bytes + h->write_bytes + h->cancelled) | 1;
}

/* add_harvest adds what is kept, before any thread that lives is added: one that ends meanwhile is missing and not counted twice.
 * before says that threads have ended and were released. */
static __always_inline void add_harvest(struct process *r, const struct kept *h, bool before)
{
	if (h) {
		r->use.wait += h->wait;
		r->kept = 1;
		if (r->flags & CHILD_IO) {
			r->use.read_bytes += h->read_bytes;
			r->use.write_bytes += h->write_bytes;
			r->use.cancelled += h->cancelled;
		}
	}
	r->harvested = version_of(h);
	if (h ? h->partial : before)
		r->flags |= PARTIAL;
}

/* add_ended adds what threads left behind that ended and were released. */
static __always_inline void add_ended(struct process *r, struct signal_struct *sig)
{
	r->use.runtime += sig->sum_sched_runtime;
	r->use.utime += sig->utime;
	r->use.stime += sig->stime;
	r->use.nvcsw += sig->nvcsw;
	r->use.nivcsw += sig->nivcsw;
	r->use.minflt += sig->min_flt;
	r->use.majflt += sig->maj_flt;
	if (bpf_core_field_exists(sig->ioac.read_bytes)) {
		/* The kernel adds the I/O of children that were waited for to the same
		 * place; every child has taken a page fault. */
		if (!(r->flags & CHILD_IO)) {
			r->use.read_bytes += sig->ioac.read_bytes;
			r->use.write_bytes += sig->ioac.write_bytes;
			r->use.cancelled += sig->ioac.cancelled_write_bytes;
		}
	}
}

static __always_inline void capabilities(struct process *r)
{
	struct task_struct *t = 0;

	if (bpf_core_field_exists(t->ioac.read_bytes))
		r->flags |= HAVE_IO;
	if (bpf_core_field_exists(t->sched_info.run_delay))
		r->flags |= HAVE_WAIT;
}

/* deltas adds what each processor has counted and not handed in yet. The counters
 * of the four types lie side by side. */
static __noinline int deltas(struct process *r, __u64 counters)
{
	__u32 n = nr_cpus;

	if (!r)
		return 0;
	for (__u32 i = 0; i < MAX_CPUS; i++) {
		__s32 part[4];

		if (i >= n)
			break;
		if (bpf_probe_read_kernel(part, sizeof(part), (void *)(counters + cpu_offset[i])))
			continue;
		r->delta[0] += part[0];
		r->delta[1] += part[1];
		r->delta[2] += part[2];
		r->delta[3] += part[3];
	}
	return 0;
}

/* memory reads the resident pages. */
static __always_inline void memory(struct process *r, struct mm_struct *mm)
{
	struct mm_struct___total *total = (void *)mm;
	struct mm_struct___percpu *percpu = (void *)mm;

	r->flags |= HAVE_MM;
	if (mm->mm_users.counter > (__s32)r->threads)
		r->flags |= SHARED;
	if (bpf_core_field_exists(mm->hugetlb_usage))
		r->huge = mm->hugetlb_usage.counter;
	r->peak = mm->hiwater_rss;
	if (bpf_core_field_exists(percpu->rss_stat[0].counters)) {
		r->flags |= HAVE_MEMORY;
		r->pages[0] = percpu->rss_stat[0].count;
		r->pages[1] = percpu->rss_stat[1].count;
		r->pages[2] = percpu->rss_stat[2].count;
		r->pages[3] = percpu->rss_stat[3].count;
		if (offsets_known)
			deltas(r, read_u64((__u64)&percpu->rss_stat[0].counters));
	} else if (bpf_core_field_exists(total->rss_stat.count)) {
		/* By a helper: the verifiers of these kernels do not follow the typedef in an array. */
		if (bpf_core_read(r->pages, sizeof(r->pages), &total->rss_stat.count) == 0)
			r->flags |= HAVE_MEMORY;
	}
}

#define NODE(at, member) (read_u64((at) + bpf_core_field_offset(struct task_struct, member)))

/* memory_of_thread reads the resident pages of a process whose first thread has ended: those of the first one that lives. */
static __noinline int memory_of_thread(struct process *r, __u64 leader)
{
	__u64 head = NODE(leader, signal) + bpf_core_field_offset(struct signal_struct, thread_head), next = read_u64(head), mm = 0;
	struct mm_struct___total *total = 0;
	struct mm_struct___percpu *percpu = 0;

	if (!r)
		return 0;
	for (int i = 0; i < MAX_ENDING && !mm && next && next != head; i++) {
		mm = NODE(next - bpf_core_field_offset(struct task_struct, thread_node), mm);
		next = read_u64(next);
	}
	if (!mm)
		return 0;
	r->flags |= HAVE_MM;
	r->mm = mm;
	if (bpf_core_field_exists(((struct mm_struct *)mm)->hugetlb_usage))
		r->huge = BPF_CORE_READ((struct mm_struct *)mm, hugetlb_usage.counter);
	r->peak = BPF_CORE_READ((struct mm_struct *)mm, hiwater_rss);
	if (bpf_core_field_exists(percpu->rss_stat[0].counters)) {
		percpu = (void *)mm;
		r->flags |= HAVE_MEMORY;
		r->pages[0] = BPF_CORE_READ(percpu, rss_stat[0].count);
		r->pages[1] = BPF_CORE_READ(percpu, rss_stat[1].count);
		r->pages[2] = BPF_CORE_READ(percpu, rss_stat[2].count);
		r->pages[3] = BPF_CORE_READ(percpu, rss_stat[3].count);
		if (offsets_known)
			deltas(r, (__u64)BPF_CORE_READ(percpu, rss_stat[0].counters));
	} else if (bpf_core_field_exists(total->rss_stat.count)) {
		total = (void *)mm;
		if (bpf_core_read(r->pages, sizeof(r->pages), &total->rss_stat.count) == 0)
			r->flags |= HAVE_MEMORY;
	}
	return 0;
}

/* find_offsets learns where the memory of each processor lies, from a map that has an
 * element there for each: the address of the element less that of the original.
 * (Symbols of variables would do it too, but many kernels keep none.) */
static __always_inline void find_offsets(void)
{
	struct mm_struct___percpu *percpu = 0;
	void *volatile map = &scratch;
	__u64 original;
	__u32 zero = 0;

	if (offsets_known || !bpf_core_field_exists(percpu->rss_stat[0].counters))
		return;
	/* The verifier lets nobody reckon with a pointer to a map, but what a helper copies is a number. */
	original = read_u64(read_u64((__u64)&map) + bpf_core_field_offset(struct bpf_array, pptrs));
	if (!original)
		return;
	for (__u32 i = 0; i < MAX_CPUS; i++) {
		void *here;

		if (i >= nr_cpus)
			break;
		here = bpf_map_lookup_percpu_elem(&scratch, &zero, i);
		if (!here)
			continue;
		*(volatile __u64 *)&cpu_offset[i] = (__u64)here; /* read back, it is a number */
		*(volatile __u64 *)&cpu_offset[i] -= original;
	}
	offsets_known = 1;
}

static __always_inline void tell_pass(struct seq_file *seq)
{
	struct pass r = { .kind = KIND_PASS, .level = level, .lost = lost, .full = full };

	bpf_seq_write(seq, &r, sizeof(r));
}

static __always_inline void begin_pass(void)
{
	struct task_struct *me = (void *)bpf_get_current_task();
	struct pid *pid = BPF_CORE_READ(me, thread_pid);
	__u32 zero = 0, *all = bpf_map_lookup_elem(&anew, &zero);

	level = BPF_CORE_READ(pid, level);
	if (level)
		namespace = read_u64((__u64)pid + bpf_core_field_offset(struct pid, numbers) +
			level * bpf_core_type_size(struct upid) + bpf_core_field_offset(struct upid, ns));
	find_offsets();
	pass_number++;
	if (!all || *all)
		complete = 0;
	if (all)
		*all = 0;
}

/* fingerprint is a number that changes when a process has run, and when others changed its
 * parent, its state or its control groups: all that lies in cache lines which are read anyway. */
static __always_inline __u64 fingerprint(struct task_struct *t)
{
	__u64 x = mix(t->se.sum_exec_runtime, as_number(t) ^ run_state(t));

	x += as_number(t->real_parent) * 0x9e3779b97f4a7c15ULL;
	if (bpf_core_field_exists(t->cgroups))
		x += as_number(t->cgroups) * 0xbf58476d1ce4e5b9ULL;
	return x;
}

/* unchanged reports whether a process of one thread was told in the last pass as it is now. What
 * others do to its memory is seen when all is read again, every REFRESH + 1 passes. */
static __always_inline bool unchanged(struct task_struct *t, __u64 as)
{
	if (told_as[t->pid & (TOLD_SLOTS - 1)] != as - 1 || complete != pass_number - 1)
		return false;
	return ((t->pid + pass_number) & REFRESH) != 0 && t->se.sum_exec_runtime != 0;
}

/* describe fills in the record of a process and reports whether it is to be told. */
static __always_inline bool describe(struct process *r, struct task_struct *t)
{
	struct signal_struct *sig = t->signal;
	struct kept *h = NULL;
	struct mm_struct *mm;
	bool before;

	__builtin_memset(r, 0, sizeof(*r));
	r->kind = KIND_PROCESS;
	r->pid = tgid_of(t);
	if (!r->pid)
		return false;
	capabilities(r);
	if (sig->cmin_flt)
		r->flags |= CHILD_IO;
	r->threads = sig->nr_threads;
	before = sig->sum_sched_runtime != 0;
	if (before || r->threads > 1)
		h = harvest_of(t);
	kept_usage(&r->use, t, h != NULL, r->flags & CHILD_IO);
	add_harvest(r, h, before);
	r->seq = sequence(sig);
	own_usage(&r->use, t);
	add_ended(r, sig);
	if ((r->seq & 1) || r->seq != sequence(sig))
		r->flags |= UNSTABLE;
	r->ppid = tgid_of(t->real_parent);
	r->pgid = pid_at(sig->pids[PIDTYPE_PGID]);
	r->sid = pid_at(sig->pids[PIDTYPE_SID]);
	r->flags |= HAVE_GROUP;
	r->uid = t->real_cred->uid.val;
	r->state = state_of(t);
	r->start = t->start_boottime;
	r->cgroup = cgroups_in_pass(t);
	mm = t->mm;
	if (t->flags & PF_KTHREAD) {
		r->flags |= KERNEL;
	} else if (mm) {
		memory(r, mm);
		r->mm = as_number(mm);
	} else if (r->threads > 1) {
		memory_of_thread(r, as_number(t));
	}
	__builtin_memcpy(r->comm, t->comm, sizeof(r->comm));
	return true;
}

SEC("iter/task")
int walk(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *t = ctx->task;
	struct walking *w;
	struct process *r;
	__u32 zero = 0;
	__u64 as = 0;

	if (ctx->meta->seq_num == 0) {
		begin_pass();
		tell_pass(seq);
	}
	if (!t) {
		complete = pass_number; /* the last call of a pass */
		return 0;
	}
	if (t->pid == t->tgid) {
		as = fingerprint(t) + pass_number;
		if (!told_many[t->pid & (TOLD_SLOTS - 1)] && unchanged(t, as)) {
			struct same s = { .kind = KIND_SAME, .pid = tgid_of(t) };

			if (bpf_seq_write(seq, &s, sizeof(s)) == 0)
				told_as[t->pid & (TOLD_SLOTS - 1)] = as;
			return 0;
		}
	}
	w = bpf_map_lookup_elem(&walking, &zero);
	if (!w)
		return 0;
	if (t->pid != t->tgid) {
		struct thread *th = &w->thread;

		__builtin_memset(th, 0, sizeof(*th));
		th->kind = KIND_THREAD;
		th->seq = sequence(t->signal);
		th->pid = tgid_of(t);
		own_usage(&th->use, t);
		if (t->pid < t->tgid || (t->flags & PF_EXITING)) {
			struct kept *h = harvest_of(t->group_leader);

			if (t->pid < t->tgid)
				th->harvested = version_of(h);
			kept_usage(&th->use, t, h != NULL, t->signal->cmin_flt != 0);
		} else {
			kept_usage(&th->use, t, false, false);
		}
		bpf_seq_write(seq, th, sizeof(*th));
		return 0;
	}
	if (t->exit_state & EXIT_DEAD)
		return 0;
	r = &w->process;
	if (!describe(r, t))
		return 0;
	if (bpf_seq_write(seq, r, sizeof(*r)) == 0) {
		told_many[t->pid & (TOLD_SLOTS - 1)] = false;
		told_as[t->pid & (TOLD_SLOTS - 1)] = r->threads == 1 && !(r->flags & (UNSTABLE | SHARED)) ? as : 0;
	}
	return 0;
}

/* put appends a record, whose size is a multiple of eight, to the listing. */
static __always_inline bool put(struct listing *l, const void *record, __u32 size)
{
	__u32 at = *(volatile __u32 *)&l->used;

	if (at > LISTING_WORDS - size / 8) {
		l->full = 1;
		return false;
	}
	__builtin_memcpy(&l->words[at], record, size);
	l->used = at + size / 8;
	return true;
}

/* ran adds up how long the threads of a process but the first have run. */
static __always_inline __u64 ran(struct task_struct *leader)
{
	struct bpf_iter_task it;
	struct task_struct *t;
	__u64 sum = 0;

	bpf_iter_task_new(&it, leader, PROC_THREADS);
	while ((t = bpf_iter_task_next(&it)))
		if (t->pid != t->tgid)
			sum += t->se.sum_exec_runtime;
	bpf_iter_task_destroy(&it);
	return sum;
}

/* add_threads adds the threads of a process but the first to its record. */
static __always_inline __u64 add_threads(struct process *r, struct task_struct *leader)
{
	struct bpf_iter_task it;
	struct task_struct *t;
	__u64 sum = 0;

	bpf_iter_task_new(&it, leader, PROC_THREADS);
	while ((t = bpf_iter_task_next(&it))) {
		struct usage u = {};

		if (t->pid == t->tgid)
			continue;
		own_usage(&u, t);
		kept_usage(&u, t, r->kept, r->flags & CHILD_IO);
		sum += u.runtime;
		r->use.runtime += u.runtime;
		r->use.utime += u.utime;
		r->use.stime += u.stime;
		r->use.wait += u.wait;
		r->use.nvcsw += u.nvcsw;
		r->use.nivcsw += u.nivcsw;
		r->use.minflt += u.minflt;
		r->use.majflt += u.majflt;
		r->use.read_bytes += u.read_bytes;
		r->use.write_bytes += u.write_bytes;
		r->use.cancelled += u.cancelled;
	}
	bpf_iter_task_destroy(&it);
	if (r->seq != sequence(leader->signal))
		r->flags |= INCOMPLETE;
	return sum;
}

/* list_process appends the record of a process, the short one if it has not run. */
static __always_inline bool list_process(struct listing *l, struct process *r, struct task_struct *t)
{
	__u32 slot = t->pid & (TOLD_SLOTS - 1);
	__u64 as = fingerprint(t) + pass_number;
	bool many = told_many[slot];
	struct task_struct *held;
	__u64 sum = 0;

	if (many) { /* the kernel goes through the threads of a process only while we hold it */
		held = bpf_task_acquire(t);
		if (!held)
			return true;
		sum = ran(held);
		bpf_task_release(held);
	}
	if (unchanged(t, as + sum)) {
		struct same s = { .kind = KIND_SAME, .pid = tgid_of(t) };

		told_as[slot]++;
		return put(l, &s, sizeof(s));
	}
	if ((t->exit_state & EXIT_DEAD) || !describe(r, t))
		return true;
	many = r->threads > 1;
	if (many) {
		held = bpf_task_acquire(t);
		if (!held)
			return true;
		as += add_threads(r, held);
		bpf_task_release(held);
	}
	told_many[slot] = many;
	told_as[slot] = r->flags & (UNSTABLE | INCOMPLETE | SHARED) ? 0 : as;
	return put(l, r, sizeof(*r));
}

SEC("syscall")
int list(void *ctx)
{
	struct pass first = { .kind = KIND_PASS };
	struct bpf_iter_task it;
	struct task_struct *t;
	struct walking *w;
	struct listing *l;
	__u32 zero = 0;

	l = bpf_map_lookup_elem(&listing, &zero);
	w = bpf_map_lookup_elem(&walking, &zero);
	if (!l || !w)
		return 0;
	begin_pass();
	l->used = 0;
	l->full = 0;
	first.level = level;
	first.lost = lost;
	first.full = full;
	put(l, &first, sizeof(first));
	bpf_rcu_read_lock();
	bpf_iter_task_new(&it, 0, ALL_PROCS);
	while ((t = bpf_iter_task_next(&it)))
		if (t->pid && !list_process(l, &w->process, t))
			break;
	bpf_iter_task_destroy(&it);
	bpf_rcu_read_unlock();
	if (!l->full)
		complete = pass_number;
	return 0;
}

/* keep adds what a thread did that ends to that of the others of its process, and returns it; NULL if there is no room. */
static __always_inline struct kept *keep(struct task_struct *t, struct task_struct *leader)
{
	struct kept *h = harvest_of(leader);

	if (!h) {
		struct life key = { .start = leader->start_boottime, .tgid = leader->tgid };
		struct kept first = { .partial = t->signal->sum_sched_runtime != 0 };

		if (level && !tgid_of(t))
			return NULL;
		if (t != leader && leader->exit_state) { /* before we began, and the kernel still has it */
			struct usage u = {};

			kept_usage(&u, leader, false, false);
			first.wait = u.wait;
			first.read_bytes = u.read_bytes;
			first.write_bytes = u.write_bytes;
			first.cancelled = u.cancelled;
		}
		bpf_map_update_elem(&harvest, &key, &first, BPF_NOEXIST);
		h = bpf_map_lookup_elem(&harvest, &key);
		if (!h) {
			__sync_fetch_and_add(&full, 1);
			return NULL;
		}
	}
	if (bpf_core_field_exists(t->sched_info.run_delay))
		__sync_fetch_and_add(&h->wait, t->sched_info.run_delay);
	if (bpf_core_field_exists(t->ioac.read_bytes)) {
		if (t->ioac.read_bytes)
			__sync_fetch_and_add(&h->read_bytes, t->ioac.read_bytes);
		if (t->ioac.write_bytes)
			__sync_fetch_and_add(&h->write_bytes, t->ioac.write_bytes);
		if (t->ioac.cancelled_write_bytes)
			__sync_fetch_and_add(&h->cancelled, t->ioac.cancelled_write_bytes);
	}
	return h;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(ended, struct task_struct *t)
{
	struct signal_struct *sig = t->signal;
	struct task_struct *leader = t->group_leader;
	__u32 tgid = t->tgid, zero = 0;
	struct kept *h = NULL;
	struct obituary *v;
	struct process *r;
	struct mm_struct *mm;
	bool before = sig->sum_sched_runtime != 0;

	if (before || sig->nr_threads > 1)
		h = keep(t, leader);
	before = before || sig->nr_threads > 1; /* some may not be in the kernel's sums yet */
	if (sig->live.counter > 0)
		return 0;
	v = bpf_map_lookup_elem(&writing, &zero);
	if (!v)
		return 0;
	__builtin_memset(v, 0, sizeof(*v));
	r = &v->r;
	r->pid = tgid_of(t);
	if (!r->pid)
		return 0; /* not in the reader's pid namespace */
	r->kind = KIND_EXIT;
	r->start = leader->start_boottime;
	r->ppid = tgid_of(t->real_parent);
	r->pgid = pid_at(sig->pids[PIDTYPE_PGID]);
	r->sid = pid_at(sig->pids[PIDTYPE_SID]);
	r->flags |= HAVE_GROUP;
	r->uid = t->real_cred->uid.val;
	r->state = EXIT_DEAD << 16;
	r->cgroup = cgroups_of(t);
	__builtin_memcpy(r->comm, leader->comm, sizeof(r->comm));
	capabilities(r);
	if (sig->cmin_flt)
		r->flags |= CHILD_IO;
	kept_usage(&r->use, t, h != NULL, r->flags & CHILD_IO);
	add_harvest(r, h, before);
	own_usage(&r->use, t);
	if (t != leader) {
		struct usage first = {};

		kept_usage(&first, leader, h != NULL, r->flags & CHILD_IO);
		own_usage(&first, leader);
		r->use.runtime += first.runtime;
		r->use.utime += first.utime;
		r->use.stime += first.stime;
		r->use.nvcsw += first.nvcsw;
		r->use.nivcsw += first.nivcsw;
		r->use.minflt += first.minflt;
		r->use.majflt += first.majflt;
		r->use.read_bytes += first.read_bytes;
		r->use.write_bytes += first.write_bytes;
		r->use.cancelled += first.cancelled;
		r->use.wait += first.wait;
	}
	add_ended(r, sig);
	if (bpf_core_field_exists(sig->oom_mm) && sig->oom_mm)
		r->flags |= OOM_VICTIM;
	/* Since 6.16 the address space is still there. Before, all that is left is
	 * maxrss, which holds also what it was before an exec. */
	mm = t->mm;
	if (t->flags & PF_KTHREAD) {
		r->flags |= KERNEL;
	} else if (mm) {
		__s64 now;

		r->threads = sig->nr_threads;
		memory(r, mm);
		now = r->pages[0] + r->pages[1] + r->pages[3] + r->delta[0] + r->delta[1] + r->delta[3];
		if (now > (__s64)r->peak)
			r->peak = now;
		if (r->flags & SHARED)
			r->peak = 0; /* that of another process */
	} else {
		r->peak = sig->maxrss;
	}
	r->delta[0] = bpf_ktime_get_boot_ns() - r->start;
	v->task = (__u64)leader;
	if (bpf_map_update_elem(&ending, &tgid, v, BPF_ANY))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

/* final puts the totals of a process that was waited for into r: its leader, too, is in
 * the sums of its signal_struct by then. All of them or none: this may not be the memory
 * of that process any more, and is not if threads live there, or if the totals are less
 * than they were or more than all processors can have done in its life. */
static __noinline int final(struct process *r, __u64 task)
{
	struct task_struct *t = (void *)task;
	struct life key = { .tgid = BPF_CORE_READ(t, tgid) };
	struct signal_struct *sig;
	struct usage u = {};
	struct kept *h;
	__u64 life;

	if (!r)
		return 0;
	key.start = r->start;
	h = bpf_map_lookup_elem(&harvest, &key);
	sig = BPF_CORE_READ(t, signal);
	u.runtime = BPF_CORE_READ(sig, sum_sched_runtime);
	u.utime = BPF_CORE_READ(sig, utime);
	u.stime = BPF_CORE_READ(sig, stime);
	u.nvcsw = BPF_CORE_READ(sig, nvcsw);
	u.nivcsw = BPF_CORE_READ(sig, nivcsw);
	u.minflt = BPF_CORE_READ(sig, min_flt);
	u.majflt = BPF_CORE_READ(sig, maj_flt);
	if (bpf_core_field_exists(t->ioac.read_bytes) && !(r->flags & CHILD_IO)) {
		u.read_bytes = BPF_CORE_READ(sig, ioac.read_bytes);
		u.write_bytes = BPF_CORE_READ(sig, ioac.write_bytes);
		u.cancelled = BPF_CORE_READ(sig, ioac.cancelled_write_bytes);
	} else if (h) {
		u.read_bytes = h->read_bytes;
		u.write_bytes = h->write_bytes;
		u.cancelled = h->cancelled;
	} else {
		u.read_bytes = r->use.read_bytes;
		u.write_bytes = r->use.write_bytes;
		u.cancelled = r->use.cancelled;
	}
	if (BPF_CORE_READ(sig, live.counter) || BPF_CORE_READ(sig, nr_threads))
		return 0;
	life = (bpf_ktime_get_boot_ns() - r->start) + 1000000000;
	if (u.runtime < r->use.runtime || u.runtime / nr_cpus > life)
		return 0;
	if (u.minflt < r->use.minflt || u.nvcsw < r->use.nvcsw || u.utime / nr_cpus > life || u.stime / nr_cpus > life)
		return 0;
	if (u.read_bytes < r->use.read_bytes || u.write_bytes < r->use.write_bytes)
		return 0;
	u.wait = r->use.wait;
	if (h && h->wait > u.wait)
		u.wait = h->wait;
	else if (!h && bpf_core_field_exists(t->sched_info.run_delay) && BPF_CORE_READ(t, sched_info.run_delay) > u.wait)
		u.wait = BPF_CORE_READ(t, sched_info.run_delay);
	r->use = u;
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(freed, struct task_struct *t)
{
	struct life key = { .start = t->start_boottime, .tgid = t->tgid };
	__u32 tgid = t->tgid;
	struct obituary *v;
	struct process r;

	if (t->pid != t->tgid)
		return 0;
	v = bpf_map_lookup_elem(&ending, &tgid);
	if (!v || v->r.start != t->start_boottime)
		return 0; /* it ended before we began, or is outside the reader's pid namespace */
	r = v->r;
	final(&r, (__u64)t);
	bpf_map_delete_elem(&ending, &tgid); /* first: what claim finds was not sent yet */
	bpf_map_delete_elem(&harvest, &key);
	if (bpf_ringbuf_output(&events, &r, sizeof(r), 0))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

SEC("fentry/chrdev_open")
int BPF_PROG(opened, struct inode *inode)
{
	__u32 node = inode->i_rdev, major = node >> MINOR_BITS, minor = node & ((1 << MINOR_BITS) - 1);
	struct open r = { .kind = KIND_OPEN, .node = node };
	struct task_struct *me;
	__u64 who;
	__u32 i;

	if (major != MAJOR_DRM && (major != MAJOR_NVIDIA || minor >= MINOR_NVIDIA_MODESET))
		return 0;
	who = (bpf_get_current_pid_tgid() & ~0xffffffffULL) | node;
	i = mix(0, who) & (OPEN_SLOTS - 1);
	if (open_memo[i].who == who && open_memo[i].pass == pass_number)
		return 0; /* told since the last pass */
	me = (void *)bpf_get_current_task();
	r.pid = level ? nested_pid(BPF_CORE_READ(me, group_leader, thread_pid)) : who >> 32;
	if (!r.pid)
		return 0;
	r.lost = opens_lost;
	if (bpf_ringbuf_output(&opens, &r, sizeof(r), 0)) {
		__sync_fetch_and_add(&opens_lost, 1);
		return 0;
	}
	open_memo[i].who = who;
	open_memo[i].pass = pass_number;
	return 0;
}

SEC("iter/bpf_map_elem")
int claim(struct bpf_iter__bpf_map_elem *ctx)
{
	struct obituary *v = ctx->value, *now;
	struct task_struct *t;
	struct process r;
	__u32 *key = ctx->key, tgid;

	if (ctx->meta->seq_num == 0)
		tell_pass(ctx->meta->seq);
	if (!v || !key)
		return 0;
	tgid = *key;
	t = (void *)v->task;
	r = v->r;
	if (BPF_CORE_READ(t, start_boottime) == r.start) {
		if (BPF_CORE_READ(t, sighand))
			return 0; /* it ends, or waits to be waited for: walk tells it */
		final(&r, (__u64)t);
	}
	/* freed may have told it meanwhile, and the kernel have given its memory and the
	 * entry to somebody else while they were read: it takes the entry away before that. */
	now = bpf_map_lookup_elem(&ending, &tgid);
	if (!now || now->r.start != r.start)
		return 0;
	r.kind = KIND_CLAIM;
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
