// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What each process asks of file systems, where calls pass the VFS: see ../files.go.
 *
 * ..._begins  at the entry of a function of the VFS: records the time of calls on file systems across the network, and counts
 *             calls on others, where they are to be counted.
 * ..._ends    at its return: counts calls on file systems across the network, with the time that they took.
 * read, written  the same for functions whose result is what moved.
 * harvest     walks the accounts and reports what was added to each since the reading before.
 *
 * Most are named for the argument by which they find the file system. User space attaches them to all functions that have it there.
 */
#include <task/kernel.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <task/process.h>
#include <task/mounts.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct block_device;
struct mnt_namespace;

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
	struct block_device *s_bdev;
};

struct vfsmount {
	struct super_block *mnt_sb;
};

struct mount {
	struct vfsmount mnt;
	struct mnt_namespace *mnt_ns;
};

struct path {
	struct vfsmount *mnt;
};

struct file {
	struct path f_path;
};

struct inode {
	struct super_block *i_sb;
};

struct dentry {
	struct super_block *d_sb;
};

struct renamedata {
	struct dentry *old_dentry;
};

#pragma clang attribute pop

/* include/uapi/linux/magic.h, fs/smb/client/cifsglob.h, fs/zfs, fs/bcachefs; Lustre, GPFS, BeeGFS, PanFS and OrangeFS as statfs(2) tells. */
#define NFS 0x6969
#define CIFS 0xFF534D42
#define SMB2 0xFE534D42
#define SMB 0x517B
#define CEPH 0x00c36400
#define AFS 0x5346414F
#define AFS_KERNEL 0x6B414653
#define CODA 0x73757245
#define V9FS 0x01021997
#define LUSTRE 0x0BD00BD0
#define GPFS 0x47504653
#define BEEGFS 0x19830326
#define PANFS 0xAAD7AAEA
#define ORANGEFS 0x20030528
#define GFS2 0x01161970
#define OCFS2 0x7461636f
#define FUSE 0x65735546
#define TMPFS 0x01021994
#define OVERLAYFS 0x794c7630
#define BTRFS 0x9123683E
#define ZFS 0x2fc12fc1
#define BCACHEFS 0xca451a4e

#define ERRORS (-4095ULL) /* pointers from here on are errors (IS_ERR) */

const volatile bool all = false;  /* file systems of this machine count, too */
const volatile bool fuse = false; /* FUSE counts as one across the network: nobody else counts its requests */

enum class { UNCOUNTED, LOCAL, REMOTE };

/* class_of tells how calls on a file system are counted. GFS2 and OCFS2 have a disk, and ask other machines about each file. */
static __always_inline enum class class_of(struct super_block *sb)
{
	__u64 magic = sb->s_magic;

	switch (magic) {
	case NFS:
	case CIFS:
	case SMB2:
	case SMB:
	case CEPH:
	case AFS:
	case AFS_KERNEL:
	case CODA:
	case V9FS:
	case LUSTRE:
	case GPFS:
	case BEEGFS:
	case PANFS:
	case ORANGEFS:
	case GFS2:
	case OCFS2:
		return REMOTE;
	case FUSE:
		return fuse ? REMOTE : UNCOUNTED;
	case TMPFS:
	case OVERLAYFS:
	case BTRFS:
	case ZFS:
	case BCACHEFS:
		return all ? LOCAL : UNCOUNTED;
	}
	return all && sb->s_bdev ? LOCAL : UNCOUNTED;
}

/* Where programs charge: none of them is interrupted by itself, so that each has what it counts to itself. */
enum place { STAT, OPEN, READING, WRITING, PLACES };

#define WAYS 8 /* pairs of process and file system that take turns on a processor */

#define CELL(index, operation) (1 + (index) * OPERATIONS + (operation))

/* What a processor counted at one place on local file systems and did not add to an account yet. */
struct pending {
	__u64 mnt; /* the latest mount, with what tells it from another one at its address */
	__u32 dev, tgid;
	__u64 cell; /* 0 if it is not counted */
	__u64 runs, who[2], sum;
	__u64 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page: entries do not share lines of the cache */
	__uint(max_entries, PLACES * WAYS); /* user space multiplies it with the number of processors */
	__type(key, __u32);
	__type(value, struct pending);
} pending SEC(".maps");

/* put adds calls to an account. */
static __always_inline void put(struct account *v, __u64 index, __u64 operation, __u64 calls, __u64 bytes)
{
	struct cells *c;

	asm volatile("" : "+r"(index), "+r"(operation)); /* keeps the comparisons below, which the verifier needs */
	if (index >= MOUNTS || operation >= OPERATIONS)
		return;
	c = &v->uses[index].now;
	add(&c->operations[operation], calls);
	if (operation < METADATA)
		add(&c->bytes[operation], bytes);
}

/* settle moves pending calls; the includer of task/pending.h has to say how. */
static __always_inline void settle(__u64 who, __u64 calls, __u64 bytes)
{
	__u32 tgid = who >> 32, nobody = NOBODY, cell = (__u32)who - 1;
	struct account *v = bpf_map_lookup_elem(&accounts, &tgid);

	if (!v)
		v = bpf_map_lookup_elem(&accounts, &nobody);
	if (v)
		put(v, cell / OPERATIONS, cell % OPERATIONS, calls, bytes);
}

#include <task/pending.h>

static int first(void)
{
	bpf_for_each_map_elem(&pending, empty_each, NULL, 0);
	return 0;
}

/* owner returns the account of the process that runs, else that of nobody. */
static __always_inline struct account *owner(__u32 *tgid)
{
	struct account *v;

	*tgid = bpf_get_current_pid_tgid() >> 32;
	v = account_of(*tgid, (__u64)bpf_get_current_task());
	if (!v) {
		*tgid = NOBODY;
		v = bpf_map_lookup_elem(&accounts, tgid);
	}
	return v;
}

/* internal tells mounts that no process has: those of pipes and memory, and what an overlay keeps of the file systems below it. */
static __noinline int internal(__u64 mnt)
{
	__u64 at = mnt - bpf_core_field_offset(struct mount, mnt) + bpf_core_field_offset(struct mount, mnt_ns);

	return read_u64(at) >= ERRORS;
}

/* keep counts a call on a local file system, mostly by adding to what is pending. */
static __always_inline int keep(struct vfsmount *mnt, struct super_block *sb, enum place place, enum operation operation, __u64 bytes)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, dev = sb->s_dev, i;
	struct account *v;
	struct pending *p;
	__u64 index;

	i = (bpf_get_smp_processor_id() * PLACES + place) * WAYS + (tgid ^ dev) % WAYS;
	p = bpf_map_lookup_elem(&pending, &i);
	if (!p)
		return 0; /* there are as many as processors */
	if (p->mnt == (__u64)mnt && p->tgid == tgid && p->dev == dev &&
	    (!p->cell || join(p, (__u64)tgid << 32 | p->cell, bytes)))
		return 0;
	p->mnt = (__u64)mnt;
	p->tgid = tgid;
	p->dev = dev;
	p->cell = 0;
	if (internal((__u64)mnt))
		return 0;
	v = owner(&tgid);
	if (!v)
		return 0;
	index = index_of(v, (__u64)dev + 1);
	if (tgid != NOBODY) /* else it is asked again: there may be room by then */
		p->cell = CELL(index, operation);
	else
		p->mnt = 0;
	if (!join(p, (__u64)tgid << 32 | CELL(index, operation), bytes) && !start(p, (__u64)tgid << 32 | CELL(index, operation), bytes))
		put(v, index, operation, 1, bytes);
	return 0;
}

/* When the call of a thread on a file system across the network began. */
struct began {
	__u64 at; /* ns of the monotonic clock, 0 if none is under way */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct began);
} calls SEC(".maps");

static __always_inline int begins(void)
{
	struct began *b = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (b)
		b->at = bpf_ktime_get_ns();
	return 0;
}

/* since returns for how long the call of this thread has lasted, 0 if it began before we were loaded. */
static __always_inline __u64 since(void)
{
	struct began *b = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0, 0);
	__u64 took = b && b->at ? bpf_ktime_get_ns() - b->at : 0;

	if (b)
		b->at = 0;
	return took;
}

/* charge adds to what the process that runs did on a file system. */
static __always_inline int charge(struct super_block *sb, enum operation operation, __u64 requests, __u64 bytes, __u64 nanos)
{
	struct account *v;
	struct cells *c;
	__u32 tgid;

	v = owner(&tgid);
	if (!v)
		return 0;
	c = &use_of(v, (__u64)sb->s_dev + 1)->now;
	add(&c->operations[operation], requests);
	if (operation < METADATA)
		add(&c->bytes[operation], bytes);
	if (nanos)
		add(&c->nanos[operation], nanos);
	return 0;
}

/* ends counts a call on a file system across the network. */
static __always_inline int ends(struct super_block *sb, enum operation operation, __u64 bytes)
{
	return charge(sb, operation, 1, bytes, since());
}

/* changes counts the beginning of a call that nothing but its file system is known of. */
static __always_inline int changes(struct super_block *sb)
{
	enum class class = class_of(sb);

	if (class == REMOTE)
		return begins();
	return class == LOCAL ? charge(sb, METADATA, 1, 0, 0) : 0;
}

static __always_inline int changed(struct super_block *sb)
{
	return class_of(sb) == REMOTE ? ends(sb, METADATA, 0) : 0;
}

/*
 * Many compilers make vfs_getattr a part of its callers, so a stat is counted where it asks the security modules. The function that
 * follows may be a part of its caller, too: its times are missing then.
 */
SEC("fentry/security_inode_getattr")
int BPF_PROG(stat_begins, struct path *path)
{
	struct vfsmount *mnt = path->mnt;
	enum class class = class_of(mnt->mnt_sb);

	if (class == UNCOUNTED)
		return 0;
	if (class == LOCAL)
		return keep(mnt, mnt->mnt_sb, STAT, METADATA, 0);
	charge(mnt->mnt_sb, METADATA, 1, 0, 0);
	return begins();
}

SEC("fexit/vfs_getattr_nosec")
int BPF_PROG(stat_ends, struct path *path)
{
	struct super_block *sb = path->mnt->mnt_sb;
	__u64 took;

	if (class_of(sb) != REMOTE)
		return 0;
	took = since();
	return took ? charge(sb, METADATA, 0, 0, took) : 0;
}

SEC("fentry/vfs_open")
int BPF_PROG(open_begins, struct path *path)
{
	struct vfsmount *mnt = path->mnt;
	enum class class = class_of(mnt->mnt_sb);

	if (class == REMOTE)
		return begins();
	return class == LOCAL ? keep(mnt, mnt->mnt_sb, OPEN, METADATA, 0) : 0;
}

SEC("fexit/vfs_open")
int BPF_PROG(open_ends, struct path *path)
{
	return changed(path->mnt->mnt_sb);
}

/* moves is the beginning of a call that moves data. */
static __always_inline int moves(struct file *file)
{
	return class_of(file->f_path.mnt->mnt_sb) == REMOTE ? begins() : 0;
}

static __always_inline int moved(struct file *file, __s64 bytes, enum place place, enum operation operation)
{
	struct vfsmount *mnt = file->f_path.mnt;
	enum class class = class_of(mnt->mnt_sb);

	if (class == UNCOUNTED)
		return 0;
	if (bytes < 0)
		bytes = 0;
	return class == REMOTE ? ends(mnt->mnt_sb, operation, bytes) : keep(mnt, mnt->mnt_sb, place, operation, bytes);
}

SEC("fentry/vfs_read")
int BPF_PROG(move_begins, struct file *file)
{
	return moves(file);
}

SEC("fexit/vfs_read")
int BPF_PROG(read, struct file *file, char *buf, unsigned long size, void *pos, __s64 ret)
{
	return moved(file, ret, READING, READ);
}

SEC("fexit/vfs_write")
int BPF_PROG(written, struct file *file, char *buf, unsigned long size, void *pos, __s64 ret)
{
	return moved(file, ret, WRITING, WRITE);
}

SEC("fentry/iterate_dir")
int BPF_PROG(file_begins, struct file *file)
{
	return changes(file->f_path.mnt->mnt_sb);
}

SEC("fexit/iterate_dir")
int BPF_PROG(file_ends, struct file *file)
{
	return changed(file->f_path.mnt->mnt_sb);
}

SEC("fentry/vfs_rename")
int BPF_PROG(rename_begins, struct renamedata *rd)
{
	return changes(rd->old_dentry->d_sb);
}

SEC("fexit/vfs_rename")
int BPF_PROG(rename_ends, struct renamedata *rd)
{
	return changed(rd->old_dentry->d_sb);
}

/* Linux 5.12 put the mapping of users before the other arguments. */
SEC("fentry/vfs_unlink")
int BPF_PROG(inode_begins, void *mapping, struct inode *dir)
{
	return changes(dir->i_sb);
}

SEC("fexit/vfs_unlink")
int BPF_PROG(inode_ends, void *mapping, struct inode *dir)
{
	return changed(dir->i_sb);
}

SEC("fentry/notify_change")
int BPF_PROG(dentry_begins, void *mapping, struct dentry *dentry)
{
	return changes(dentry->d_sb);
}

SEC("fexit/notify_change")
int BPF_PROG(dentry_ends, void *mapping, struct dentry *dentry)
{
	return changed(dentry->d_sb);
}

SEC("fentry/vfs_link")
int BPF_PROG(first_dentry_begins, struct dentry *dentry)
{
	return changes(dentry->d_sb);
}

SEC("fexit/vfs_link")
int BPF_PROG(first_dentry_ends, struct dentry *dentry)
{
	return changed(dentry->d_sb);
}

char _license[] SEC("license") = "Dual BSD/GPL";
