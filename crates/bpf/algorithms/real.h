/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Numbers as a processor's floating-point unit has them (IEEE 754, binary64, rounding to nearest even), made of integers:
 * neither BPF nor the kernel has any. Only what is not negative, and neither tiny nor huge.
 *
 * RDTCP divides its budget by weights that are no integers, and rounds down afterwards. Where a share is a whole number it
 * is the last bit that decides, so that a packet more or less would depend on another arithmetic.
 */
#ifndef INCAST_REAL_H
#define INCAST_REAL_H

#include "receiver_types.h"

/*
 * mantissa * 2^exponent, where the mantissa has 53 bits; or 0. There are no branches here: the verifier would follow each of
 * them, for each flow.
 */
struct incast_real {
	u64 mantissa;
	s64 exponent;
};

#define INCAST_REAL_BITS 53

/*
 * Zeros before the first one of what is not 0. Whether the upper bits are 0 is the sign of one less, which the compiler must
 * not see through, or it makes a branch of it.
 */
INCAST_FUNCTION u64 incast_leading_zeros(u64 bits)
{
	u64 zeros = 0, upper, step;
	u32 width;

#pragma GCC unroll 6
	for (width = 32; width; width >>= 1) {
		upper = bits >> (64 - width);
		__asm__ volatile("" : "+r"(upper));
		step = ((upper - 1) >> 63) * width;
		bits <<= step;
		zeros += step;
	}
	return zeros;
}

/* Bits of a mantissa of 64 that do not fit. */
#define INCAST_REAL_DROP (64 - INCAST_REAL_BITS)

/*
 * The nearest number to (mantissa + a bit if there is `more` below) * 2^exponent. The mantissa has at least 55 bits, or is exact.
 */
INCAST_FUNCTION struct incast_real incast_rounded(u64 mantissa, s64 exponent, u64 more)
{
	u64 zeros = incast_leading_zeros(mantissa), below, kept, carry;

	mantissa <<= zeros;
	below = mantissa & ((1ULL << INCAST_REAL_DROP) - 1);
	kept = mantissa >> INCAST_REAL_DROP;
	/* A half rounds to what is even, unless there is more. */
	kept += (below + (1ULL << (INCAST_REAL_DROP - 1)) - 1 + (more | (kept & 1))) >> INCAST_REAL_DROP;
	carry = kept >> INCAST_REAL_BITS;
	return (struct incast_real){
		.mantissa = kept >> carry,
		.exponent = exponent - (s64)zeros + INCAST_REAL_DROP + (s64)carry,
	};
}

INCAST_FUNCTION struct incast_real incast_real(u64 whole)
{
	return incast_rounded(whole, 0, 0);
}

INCAST_FUNCTION struct incast_real incast_real_times(struct incast_real left, struct incast_real right)
{
	u64 high = incast_multiply_high(left.mantissa, right.mantissa), low = left.mantissa * right.mantissa;

	/* Of 105 or 106 bits, the upper 63 or 64. */
	return incast_rounded(high << 22 | low >> 42, left.exponent + right.exponent + 42,
			      incast_any(low & ((1ULL << 42) - 1)));
}

/* The divisor is not 0. */
INCAST_FUNCTION struct incast_real incast_real_over(struct incast_real left, struct incast_real right)
{
	u64 divisor = right.mantissa ? right.mantissa : 1;
	u64 quotient = left.mantissa / divisor, rest = left.mantissa % divisor;
	u32 each;

	/* 55 bits behind the point, 11 at a time. */
#pragma GCC unroll 5
	for (each = 0; each < 5; each++) {
		rest <<= 11;
		quotient = quotient << 11 | rest / divisor;
		rest %= divisor;
	}
	return incast_rounded(quotient, left.exponent - right.exponent - 55, incast_any(rest));
}

/* Smaller than all that is added to it. */
INCAST_FUNCTION struct incast_real incast_nothing(void)
{
	return (struct incast_real){ .exponent = -4000 };
}

INCAST_FUNCTION struct incast_real incast_real_plus(struct incast_real left, struct incast_real right)
{
	s64 difference = left.exponent - right.exponent;
	u64 swap, mantissas = left.mantissa ^ right.mantissa, distance, small;

	__asm__ volatile("" : "+r"(difference));
	swap = -((u64)difference >> 63);
	left.mantissa ^= mantissas & swap;
	right.mantissa ^= mantissas & swap;
	distance = ((u64)difference ^ swap) - swap;
	left.exponent += (s64)(distance & swap);
	/* At this distance nothing but its being there is left of the smaller one. */
	distance = incast_lesser(distance, 63);
	small = right.mantissa << 10;
	return incast_rounded((left.mantissa << 10) + (small >> distance), left.exponent - 10,
			      incast_any(small & ((1ULL << distance) - 1)));
}

/* 1 - x, for x up to a half. */
INCAST_FUNCTION struct incast_real incast_one_less(struct incast_real x)
{
	u64 one = 1ULL << 63, small = x.mantissa << 10, distance, more;

	if (!x.mantissa)
		return incast_real(1);
	/* One is 2^63 of 2^-63, and x is `small` of 2^(exponent - 10). */
	distance = incast_lesser((u64)(-63 - (x.exponent - 10)), 63);
	more = incast_any(small & ((1ULL << distance) - 1));
	return incast_rounded(one - (small >> distance) - more, -63, more);
}

/* So many powers of two less. */
INCAST_FUNCTION struct incast_real incast_real_shifted(struct incast_real real, u32 by)
{
	if (real.mantissa)
		real.exponent -= by;
	return real;
}

/* Rounded down. It is below 2^53. */
INCAST_FUNCTION u64 incast_whole(struct incast_real real)
{
	return real.mantissa >> incast_lesser((u64)-real.exponent, 63);
}

#endif
