/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Two counters that must end equal: for ../test_run, which shows that ../run can fail.
 *	M_BREAKS	a real mutant			M_NOTHING	one that changes nothing
 *	V_STUCK		a deadlock, no assertion	V_LONG		a path of 1000 steps
 *	V_LARGE		more states than anyone can search
 */
#ifdef V_LONG
#define STEPS 250
#else
#define STEPS 5
#endif
byte a, b;
#ifdef V_LARGE
byte x[8];
#endif
#ifdef M_NOTHING
#endif

init
{
	byte n = 0;

	do
	:: n < STEPS -> a++; b++; n++
	:: else -> break
	od;
#ifdef M_BREAKS
	b++;
#endif
#ifdef V_STUCK
	a != b;
#endif
#ifdef V_LARGE
	do
	:: x[0]++ :: x[1]++ :: x[2]++ :: x[3]++ :: x[4]++ :: x[5]++ :: x[6]++ :: x[7]++
	:: x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7] > 5000 -> break
	od;
#endif
	assert(a == b)
}
