// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What each process sends and receives at its sockets: ../traffic.go lists what is counted and
 * what is not.
 *
 * sent, received      trace points of the socket layer (since 6.3): once for each call that moved
 *                     payload, in the context of the calling process.
 * sent4 ... sendpage  the same for older kernels: the returns of the functions that every call on
 *                     a socket of IPv4 or IPv6 passes.
 * spliced             payload that is spliced out of a TCP socket, which passes neither.
 * state               connections opened, and accepted ones that end without payload, and the addresses of this machine.
 * retransmit          TCP segments sent again, charged to the last user of the connection.
 * harvest             walks the accounts and reports what was added to each since the reading before,
 *                     and at the end what belongs to no account.
 */
#include <task/kernel.h>
#include "socket.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <task/process.h>

#define AF_INET 2
#define AF_INET6 10
#define SOCK_RAW 3
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_MPTCP 262
#define MSG_PEEK 0x2
#define MSG_ERRQUEUE 0x2000

#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_FIN_WAIT1 4
#define TCP_CLOSE 7
#define TCP_LAST_ACK 9

#define SECOND 1000000000ULL

enum protocol { TCP, UDP, OTHER, PROTOCOLS };

enum scope {
	LOOPBACK,  /* 127.0.0.0/8 and ::1 */
	HOST,      /* an address of this machine, in any network namespace */
	ELSEWHERE,
	UNKNOWN,   /* a datagram of a socket without a peer, where its address can not be read */
	SCOPES,
};

enum direction { RECEIVE, TRANSMIT, DIRECTIONS };

#define CELLS (PROTOCOLS * SCOPES * DIRECTIONS)

struct cell {
	__u64 bytes, messages; /* calls that moved payload; of UDP datagrams */
};

struct use {
	struct cell cells[CELLS]; /* [protocol][scope][direction] */
	__u64 opened, accepted;   /* TCP connections */
	__u64 retransmits;        /* TCP segments */
};

#define FIGURES (sizeof(struct use) / sizeof(__u64))

struct account {
	struct process process;
	struct use now, reported;
};

#include <task/account.h>

struct record {
	__s32 pid;
	__u32 tgid;  /* in the first pid namespace: the key of the account */
	__u64 start;
	__u64 ended;
	struct use use;
};

/* Only for the generator of the Go types. */
const struct record *unused_record __attribute__((unused));

const volatile bool connections = true; /* the kernel can store data with a socket (5.11) */
const volatile __u64 address_age = 600 * SECOND; /* for which an address counts as one of this machine */

/* Traffic of processes for which there was no room. */
struct use unowned = {};

struct address {
	__u32 part[4]; /* as IPv6 has it; IPv4 as ::ffff:a.b.c.d */
};

/* Addresses of this machine, with the time at which each was last in use here (ns of the monotonic clock). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 2048);
	__type(key, struct address);
	__type(value, __u64);
} here SEC(".maps");

/* Stored with each TCP socket, and with each UDP socket that has a peer. */
struct connection {
	__u32 owner;   /* account of the last user, 0 before the first */
	__be32 peer;   /* its address, or the end of it, to notice that a UDP socket got another */
	__u8 scope;    /* enum scope plus 1, 0 until it is determined */
	__u8 accepted; /* it came in and is charged to nobody yet */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} peers SEC(".maps");

/* use_of returns the counters of the current process, the common ones if there is no room for it. */
static __always_inline struct use *use_of(__u32 tgid)
{
	struct account *v = account_of(tgid, (__u64)bpf_get_current_task());

	return v ? &v->now : &unowned;
}

/* Where programs charge: none of them is interrupted by itself, so that each has what it counts to itself. */
enum place { SENT, SENT6, SENDPAGE, RECEIVED, RECEIVED6, SPLICED, PLACES };

#define WAYS 4 /* processes that take turns on a processor, by the end of their ids */

/*
 * What a processor counted at one place and did not add to an account yet. Most calls are for the socket of the call before: they
 * touch this line of the cache instead of the seven in which the account and the storage of the socket are.
 * It is emptied at each reading, which another processor does, and when another process or kind of traffic comes.
 */
struct pending {
	__u64 sk; /* the latest socket, with what tells it from another one at its address */
	__u32 ports, tgid;
	__be32 own, peer;
	__u32 cell;
	__u32 unused;
	__u64 runs;   /* how often sum was begun */
	__u64 who[2]; /* to whom sum belongs, by the lowest bit of its run: tgid << 32 | cell */
	__u64 sum;    /* run, messages, bytes; 0 if there is nothing */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page: entries do not share lines of the cache */
	__uint(max_entries, PLACES * WAYS); /* user space multiplies it with the number of processors */
	__type(key, __u32);
	__type(value, struct pending);
} pending SEC(".maps");

static __always_inline void count(struct use *u, __u64 cell, __u64 bytes, __u64 messages)
{
	asm volatile("" : "+r"(cell)); /* keeps the comparison below, which the verifier needs */
	if (cell < CELLS) {
		add(&u->cells[cell].bytes, bytes);
		add(&u->cells[cell].messages, messages);
	}
}

static __always_inline void settle(__u64 who, __u64 messages, __u64 bytes)
{
	__u32 tgid = who >> 32;
	struct account *v = bpf_map_lookup_elem(&accounts, &tgid);

	count(v ? &v->now : &unowned, (__u32)who, bytes, messages);
}

#include <task/pending.h>

static __always_inline void mapped(struct address *a, __be32 v4)
{
	a->part[0] = 0;
	a->part[1] = 0;
	a->part[2] = __builtin_bswap32(0xffff);
	a->part[3] = v4;
}

/* scope_of returns the scope of a peer address, given the socket's own address. */
static __always_inline enum scope scope_of(struct address *peer, struct address *own)
{
	__u64 *seen;

	if (!peer->part[0] && !peer->part[1]) {
		if (!peer->part[2] && !peer->part[3])
			return UNKNOWN;
		if (!peer->part[2] && peer->part[3] == __builtin_bswap32(1))
			return LOOPBACK;
		if (peer->part[2] == __builtin_bswap32(0xffff)) {
			if ((peer->part[3] & 0xff) == 127)
				return LOOPBACK;
			if (!peer->part[3])
				return UNKNOWN;
		}
	}
	if (peer->part[3] == own->part[3] && peer->part[2] == own->part[2] &&
	    peer->part[1] == own->part[1] && peer->part[0] == own->part[0])
		return HOST;
	seen = bpf_map_lookup_elem(&here, peer);
	return seen && bpf_ktime_get_ns() - *seen < address_age ? HOST : ELSEWHERE;
}

static __always_inline void addresses(const struct sock *sk, struct address *own, struct address *peer)
{
	if (sk->__sk_common.skc_family == AF_INET) {
		mapped(own, sk->__sk_common.skc_rcv_saddr);
		mapped(peer, sk->__sk_common.skc_daddr);
		return;
	}
	bpf_core_read(own, sizeof(*own), &sk->__sk_common.skc_v6_rcv_saddr);
	bpf_core_read(peer, sizeof(*peer), &sk->__sk_common.skc_v6_daddr);
}

/* named copies the address of a message into peer, if it has one. */
static __always_inline void named(struct msghdr *msg, struct address *peer)
{
	struct { __u16 family, port; __be32 v4; struct address v6; } name = {};
	void *at;

	if (!msg)
		return;
	at = BPF_CORE_READ(msg, msg_name);
	if (!at || bpf_probe_read_kernel(&name, 8, at))
		return;
	if (name.family == AF_INET)
		mapped(peer, name.v4);
	else if (name.family == AF_INET6)
		bpf_probe_read_kernel(peer, sizeof(*peer), at + 8);
}

static __always_inline enum scope peer_scope(const struct sock *sk, struct msghdr *msg)
{
	struct address own = {}, peer = {};
	enum scope scope;

	addresses(sk, &own, &peer);
	scope = scope_of(&peer, &own);
	if (scope != UNKNOWN)
		return scope;
	named(msg, &peer);
	scope = scope_of(&peer, &own);
	if (scope != UNKNOWN)
		return scope;
	/* Without a peer, but bound to an address that only loopback traffic reaches. */
	return scope_of(&own, &peer) == LOOPBACK ? LOOPBACK : UNKNOWN;
}

/* accept counts a connection that came in, for a process. */
static __always_inline void accept(struct connection *c, __u32 tgid)
{
	struct account *v = account_of(tgid, (__u64)bpf_get_current_task());

	c->accepted = 0;
	c->owner = tgid;
	add(v ? &v->now.accepted : &unowned.accepted, 1);
}

/* charge counts a call that moved payload. It is inlined so that the verifier keeps the type of sk. */
static __always_inline int charge(struct sock *sk, struct msghdr *msg, __s64 bytes, enum direction direction, enum place place)
{
	enum protocol protocol = OTHER;
	enum scope scope = SCOPES;
	struct connection *c = NULL;
	__u16 family, number;
	struct account *v;
	struct pending *p;
	__u32 tgid, ports, i;
	__be32 own, peer;

	if (bytes <= 0 || !sk)
		return 0;
	family = sk->__sk_common.skc_family;
	if (family != AF_INET && family != AF_INET6)
		return 0;
	tgid = bpf_get_current_pid_tgid() >> 32;
	if (family == AF_INET) {
		own = sk->__sk_common.skc_rcv_saddr;
		peer = sk->__sk_common.skc_daddr;
	} else {
		own = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[3];
		peer = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[3];
	}
	ports = sk->__sk_common.skc_portpair;
	i = (bpf_get_smp_processor_id() * PLACES + place) * WAYS + tgid % WAYS;
	p = bpf_map_lookup_elem(&pending, &i);
	if (!p)
		return 0; /* there are as many as processors */
	if (p->sk == (__u64)sk && p->tgid == tgid && p->ports == ports && p->own == own && p->peer == peer &&
	    join(p, (__u64)tgid << 32 | p->cell, bytes))
		return 0;

	number = sk->sk_protocol;
	if (number == IPPROTO_TCP || number == IPPROTO_UDP || number == IPPROTO_MPTCP) {
		if (sk->sk_type == SOCK_RAW) /* it gets copies of packets that others receive */
			return 0;
		protocol = number == IPPROTO_UDP ? UDP : TCP;
	}
	if (connections && (protocol == TCP || (protocol == UDP && sk->__sk_common.skc_dport))) {
		c = bpf_sk_storage_get(&peers, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (c) {
			if (!c->scope || c->peer != peer) {
				c->scope = peer_scope(sk, NULL) + 1;
				c->peer = peer;
			}
			scope = c->scope - 1;
			c->owner = tgid;
			if (c->accepted)
				accept(c, tgid);
		}
	}
	if (scope == SCOPES)
		scope = peer_scope(sk, msg);
	i = (protocol * SCOPES + scope) * DIRECTIONS + direction;
	p->sk = c || !msg ? (__u64)sk : 0; /* else each message has an address of its own */
	p->ports = ports;
	p->tgid = tgid;
	p->own = own;
	p->peer = peer;
	p->cell = i;
	if (join(p, (__u64)tgid << 32 | i, bytes))
		return 0;
	v = account_of(tgid, (__u64)bpf_get_current_task());
	if (!v || !start(p, (__u64)tgid << 32 | i, bytes))
		count(v ? &v->now : &unowned, i, bytes, 1);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(sent, struct sock *sk, int ret, int flags)
{
	return charge(sk, NULL, ret, TRANSMIT, SENT);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(received, struct sock *sk, int ret, int flags)
{
	if (flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	return charge(sk, NULL, ret, RECEIVE, RECEIVED);
}

SEC("fexit/inet_sendmsg")
int BPF_PROG(sent4, struct socket *s, struct msghdr *msg, unsigned long size, int ret)
{
	return charge(s->sk, msg, ret, TRANSMIT, SENT);
}

SEC("fexit/inet6_sendmsg")
int BPF_PROG(sent6, struct socket *s, struct msghdr *msg, unsigned long size, int ret)
{
	return charge(s->sk, msg, ret, TRANSMIT, SENT6);
}

SEC("fexit/inet_recvmsg")
int BPF_PROG(received4, struct socket *s, struct msghdr *msg, unsigned long size, int flags, int ret)
{
	if (flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	return charge(s->sk, msg, ret, RECEIVE, RECEIVED);
}

SEC("fexit/inet6_recvmsg")
int BPF_PROG(received6, struct socket *s, struct msghdr *msg, unsigned long size, int flags, int ret)
{
	if (flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	return charge(s->sk, msg, ret, RECEIVE, RECEIVED6);
}

/* Before 6.5 sendfile(2) and splice(2) hand pages over. */
SEC("fexit/inet_sendpage")
int BPF_PROG(sendpage, struct socket *s, void *page, int offset, unsigned long size, int flags, __s64 ret)
{
	return charge(s->sk, NULL, ret, TRANSMIT, SENDPAGE);
}

SEC("fexit/tcp_splice_read")
int BPF_PROG(spliced, struct socket *s, void *pos, void *pipe, unsigned long size, unsigned int flags, __s64 ret)
{
	return charge(s->sk, NULL, ret, RECEIVE, SPLICED);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state, struct sock *sk, int before, int after)
{
	struct address own = {}, peer = {};
	struct connection *c;
	__u64 now;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (after == TCP_SYN_SENT) {
		__u32 tgid = bpf_get_current_pid_tgid() >> 32;

		add(&use_of(tgid)->opened, 1);
		if (connections) {
			c = bpf_sk_storage_get(&peers, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
			if (c)
				c->owner = tgid;
		}
		return 0;
	}
	if (connections && (after == TCP_FIN_WAIT1 || after == TCP_LAST_ACK || after == TCP_CLOSE)) {
		/*
		 * It ends without payload. The process that closes it makes the first two changes; the third one may come with a packet of
		 * the peer, in whatever process that interrupts.
		 */
		c = bpf_sk_storage_get(&peers, sk, 0, 0);
		if (c && c->accepted) {
			if (after == TCP_CLOSE) {
				c->accepted = 0;
				add(&unowned.accepted, 1);
			} else {
				accept(c, bpf_get_current_pid_tgid() >> 32);
			}
		}
		return 0;
	}
	if (after != TCP_ESTABLISHED)
		return 0;
	if (connections && before == TCP_SYN_RECV) {
		c = bpf_sk_storage_get(&peers, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (c)
			c->accepted = 1;
	}
	now = bpf_ktime_get_ns();
	addresses(sk, &own, &peer);
	bpf_map_update_elem(&here, &own, &now, BPF_ANY);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmit, struct sock *sk)
{
	struct account *v = NULL;
	struct connection *c;

	c = bpf_sk_storage_get(&peers, sk, 0, 0);
	if (c)
		v = bpf_map_lookup_elem(&accounts, &c->owner);
	add(v && !v->process.ended ? &v->now.retransmits : &unowned.retransmits, 1);
	return 0;
}

/* Scratch memory of harvest: a record is larger than the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record);
} scratch SEC(".maps");

SEC("iter/bpf_map_elem")
int harvest(struct bpf_iter__bpf_map_elem *ctx)
{
	struct account *v = ctx->value;
	__u32 *key = ctx->key, zero = 0;
	struct record *r;
	__u64 *now, *reported, *out, changed = 0;

	if (ctx->meta->seq_num == 0) {
		begin();
		bpf_for_each_map_elem(&pending, empty_each, NULL, 0);
	}
	r = bpf_map_lookup_elem(&scratch, &zero);
	if (!r)
		return 0;
	if (!v || !key) { /* after the last account */
		__builtin_memset(r, 0, sizeof(*r));
		__builtin_memcpy(&r->use, &unowned, sizeof(unowned));
		bpf_seq_write(ctx->meta->seq, r, sizeof(*r));
		return 0;
	}
	if (!v->process.pid)
		return 0;
	r->tgid = *key;
	r->pid = v->process.pid;
	r->start = v->process.start;
	r->ended = v->process.ended;
	now = (__u64 *)&v->now;
	reported = (__u64 *)&v->reported;
	out = (__u64 *)&r->use;
#pragma unroll
	for (int i = 0; i < FIGURES; i++) {
		out[i] = *(volatile __u64 *)&now[i] - reported[i];
		changed |= out[i];
	}
	if (!changed && !r->ended)
		return 0;
	if (bpf_seq_write(ctx->meta->seq, r, sizeof(*r)))
		return 0; /* the buffer is full: the kernel calls again for the same account */
#pragma unroll
	for (int i = 0; i < FIGURES; i++)
		reported[i] += out[i];
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
