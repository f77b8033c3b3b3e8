/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The members of sockets and messages that traffic.bpf.c reads; offsets are resolved as in task/kernel.h. */
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u32 skc_portpair; /* that, and our own port */
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_type;
	__u16 sk_protocol;
};

struct socket {
	struct sock *sk;
};

struct msghdr {
	void *msg_name; /* in kernel memory: the address of an unconnected message */
	int msg_namelen;
};

#pragma clang attribute pop
