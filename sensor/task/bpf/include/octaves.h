/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Distributions of times with one bucket for each power of two of a second. */
#pragma once

#define OCTAVES 25
#define SMALLEST 10          /* the first bucket ends at 2^10 of 2^30 parts of a second */
#define LONGEST (1ULL << 36) /* ns; keeps the product below in 64 bits */

struct delays {
	__u64 nanos;
	__u64 octaves[OCTAVES]; /* bucket i ends at 2^(i-20) seconds, the last has no end */
};

/* octave returns the bucket of a delay in ns. */
static __always_inline __u32 octave(__u64 nanos)
{
	__u64 v;
	__u32 i = 0;

	if (nanos > LONGEST)
		nanos = LONGEST;
	/* 2^30 / 10^9 is 1 + 79179675 / 2^30 */
	v = nanos + (nanos * 79179675 >> 30);
	if (v <= 1 << SMALLEST)
		return 0;
	v = (v - 1) >> SMALLEST;
	if (v >> 16) { i += 16; v >>= 16; }
	if (v >> 8) { i += 8; v >>= 8; }
	if (v >> 4) { i += 4; v >>= 4; }
	if (v >> 2) { i += 2; v >>= 2; }
	if (v >> 1) { i += 1; v >>= 1; }
	i += 1;
	return i < OCTAVES ? i : OCTAVES - 1;
}

/* observe counts a time in ns. */
static __always_inline void observe(struct delays *d, __u64 nanos)
{
	__u32 i = octave(nanos);

	__sync_fetch_and_add(&d->nanos, nanos);
	asm volatile("" : "+r"(i)); /* keeps the comparison below, which the verifier needs */
	if (i < OCTAVES)
		__sync_fetch_and_add(&d->octaves[i], 1);
}
