/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The members of requests to disks that programs of sensor/task read; offsets are resolved as in kernel.h. */
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gendisk {
	char disk_name[32];
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	__u32 cmd_flags;
	__u32 __data_len;
	__u64 start_time_ns; /* 0 where the statistics of the disk are switched off */
};

/* Before 5.15. */
struct request___disk {
	struct gendisk *rq_disk;
};

#pragma clang attribute pop

static __always_inline struct gendisk *disk_of(struct request *rq)
{
	if (bpf_core_field_exists(struct request_queue, disk))
		return rq->q->disk;
	return BPF_CORE_READ((struct request___disk *)rq, rq_disk);
}
