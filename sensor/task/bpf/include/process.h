/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/* The process that an account belongs to. */
struct process {
	__u64 start; /* ns since boot */
	__s32 pid;   /* in the reader's pid namespace; -1 if it is not visible there, 0 while the account is created */
	__u32 ended;
};
