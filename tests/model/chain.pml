/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Overflow chains under readers, while segments are replaced (DESIGN 2 to 4; server/index/write.c,
 * client/src/know/lookup.c). It goes on from split.pml. How to run: README.md.
 *
 * MODELLED. One key K, NR readers with GETS GETs each, OPS writes of K (PUT, DEL, insert anywhere in
 * its chain), links at any time for keys that come after the link, SPLITS replacements of its
 * segment by one with another chain. Memory 0 -> 1 -> (grace period) -> memory 0 again, with the
 * overflow buckets in another order. A bucket is a header (one word: incarnation, MOVED, link) and
 * a slot, fetched in either order; a chain is a main bucket and up to two overflow buckets, one
 * READ after the other. Overflow buckets keep what stood in them until they are linked. A write n
 * makes block n. Grace periods are exact: memory is reused when the sections open at its retirement
 * are closed. A merge is a replacement as well: what K's readers see of it is the one of the two
 * old segments that K was in (both are marked before any write); prefixes are in directory.pml.
 * Not modelled: hints, torn blocks, writers of other buckets, ARM's ordering.
 *
 * CHECKED. A hit is no older than what was acknowledged or returned before the GET began; a miss
 * needs a delete at or after that; I1: no slot is followed to a block that was retired before
 * this section opened (it may be another record by then).
 *
 * MUTANTS
 *	M_NOMOVED	old headers not marked		M_MOVEDCHAIN	overflow headers alone are
 *	M_MOVEDLATE	marked after a write was acknowledged in the new segment
 *	M_ACKRULE	marked before that, but after it was applied (needs two readers)
 *	M_PUBLISHFIRST	in the directory before the copy is made
 *	M_NOSINC	no incarnation in the header's check
 *	M_NOSGP		memory reused without a grace period
 *	M_LINKFIRST	the link before the overflow bucket's header and empty slots
 *	M_LINKRACE	a link stored without the lock that a split takes: it clears MOVED
 *	M_UNLINK	an overflow bucket that fell empty is unlinked and given to another chain
 *	M_KEYMOVES	a live key moves within its chain
 * Redundant alone, in all states, but not together with what stands behind the plus:
 *	V_NOCHAINCHECK	headers of overflow buckets are not checked by readers
 *	V_MOVEDMAIN	overflow headers are not marked MOVED
 *	V_HEADERLATE	the link before the header alone, slots empty before	+ V_NOCHAINCHECK
 *	V_TWOSECTIONS	main and overflow bucket in two sections	+ V_NOCHAINCHECK or V_MOVEDMAIN
 *	M_NOSGP with V_NOHDRFIRST (header always fetched after the slots)	+ V_NOCHAINCHECK
 * So within one section what the main header said holds for its chain: no check of the overflow
 * headers is needed, and MOVED in them is read by nobody who needs it. They are the second guard,
 * against a reader that breaks the section. M_NOSGP is caught although all headers are checked: a
 * bucket has one header, and a READ that fetches it first, and the slots after the memory was
 * reused, shows nothing. For buckets the grace period has no second guard.
 *
 * LOCAL READERS (-DLOCAL): entry, header, slots in order, and MOVED of the main bucket alone: right.
 * The chain hangs in memory that the read-side section holds, links only grow, K does not move.
 * With V_BLIND they do not look at MOVED either, and are right as well: their entry is of this very
 * GET, so the segment was K's home inside of it. M_NOSGP and M_LINKFIRST break them.
 *
 * STATES  -DGETS=1 4.1 M; defaults 8.7 M; -DLOCAL 5.0 M; -DNR=2 -DGETS=1 -DOPS=1 -DSPLITS=1 16.8 M.
 */
#ifndef NR
#define NR 1
#endif
#ifndef GETS
#define GETS 2
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef SPLITS
#define SPLITS 2
#endif
#ifndef TRIES
#define TRIES 3
#endif
#define B(s, b) (3 * (s) + (b)) /* bucket of segment s: 0 main, 1 and 2 overflow */
#define BIT(c) (1 << (c))
#define NONE 3

byte inc[6], lnk[6];		/* headers: each is one word with moved */
bool moved[6];
byte slot[6];			/* one of each bucket: the block of K, or 0 */
byte dseg = 0, dinc = 1;	/* K's directory entry: one word */
byte open = 0, hold = 0;	/* readers with a section open; those that the reuse waits for */
bool obs[OPS + 1], del[OPS + 1];
bool wl = false;		/* K's writer lock */
#ifdef M_ACKRULE
bool splitting = false;
#endif
byte floor = 0, started = 0;	/* ghosts: newest operation acknowledged or returned; begun */
byte gone = 0;			/* ghost: blocks retired, a bit each */

inline ret(n) { if :: n > floor -> floor = n :: else fi }
inline get_header(s, b) { hi = inc[B(s, b)]; mv = moved[B(s, b)]; l = lnk[B(s, b)] }
inline get_slot(s, b) { a = slot[B(s, b)] }

#if defined(LOCAL) && defined(V_BLIND)
#define FITS true
#elif defined(LOCAL)
#define FITS (b > 0 || !mv)
#elif defined(V_NOCHAINCHECK) && defined(M_NOSINC)
#define FITS (b > 0 || !mv)
#elif defined(V_NOCHAINCHECK)
#define FITS (b > 0 || (!mv && hi == ci))
#elif defined(M_NOSINC)
#define FITS (!mv)
#else
#define FITS (!mv && hi == ci)
#endif

proctype reader(byte c)
{
	byte cs = 0, ci = 1, f, b, hi, l, a, n, t, bad, x;
	bool mv;

	do
	:: n >= GETS -> break
	:: n < GETS ->
		n++;
		/* the section opens and the GET begins */
		atomic { open = open | BIT(c); bad = gone; f = floor };
#ifndef LOCAL
		/* the process may have refreshed its directory meanwhile, for another key */
		if :: atomic { cs = dseg; ci = dinc } :: true fi;
#endif
again:		atomic {
			t++; hi = 0; l = 0; a = 0; mv = false; b = 0;
			if :: t > TRIES -> goto done :: else fi
		};
#ifdef LOCAL
		atomic { cs = dseg; ci = dinc };
#endif
next:		if
#ifndef V_NOHDRFIRST
		:: atomic { get_header(cs, b) }; get_slot(cs, b)
#endif
#ifndef LOCAL
		:: get_slot(cs, b); atomic { get_header(cs, b) }
#endif
		fi;
		if
		:: !(FITS) ->
#ifndef LOCAL
			atomic { cs = dseg; ci = dinc };	/* READ the entry again */
#endif
			goto again
		:: else
		fi;
		if
		:: a > 0 ->
			atomic {
				assert(!(bad >> a & 1));	/* I1: it may be another record's by now */
				if
				:: !obs[a] -> assert(a >= f); ret(a); goto done
				:: else -> goto again
				fi
			}
		:: else
		fi;
		if
		:: l > 0 ->
			atomic { b = l; hi = 0; l = 0; a = 0 };
#ifdef V_TWOSECTIONS
			/* the next bucket in another section: against the rules */
			atomic { open = open & ~BIT(c); hold = hold & ~BIT(c) };
			atomic { open = open | BIT(c); bad = gone };
#endif
			goto next
		:: else
		fi;
		atomic {				/* a miss */
			x = f;
			do :: x <= started && !del[x] -> x++ :: else -> break od;
			assert(x <= started);		/* it was absent at some moment of this GET */
			ret(x)
		};
done:		atomic {
			open = open & ~BIT(c); hold = hold & ~BIT(c);
			f = 0; a = 0; t = 0; hi = 0; mv = false; x = 0; b = 0; l = 0; bad = 0
		}
	od
}

/* The chain of segment g: main, then u, then v. Other chains took other buckets in other lives. */
#define FIRST(s) (1 + (inc[B(s, 0)] & 1))
#define SECOND(s) (2 - (inc[B(s, 0)] & 1))

inline find()
{
	old = 0; p = 0;
	u = lnk[B(g, 0)];
	v = 0;
	if :: u > 0 -> v = lnk[B(g, u)] :: else fi;
	if
	:: slot[B(g, 0)] > 0 -> p = 0; old = slot[B(g, 0)]
	:: else ->
		if
		:: u > 0 && slot[B(g, u)] > 0 -> p = u; old = slot[B(g, u)]
		:: else ->
			if
			:: v > 0 && slot[B(g, v)] > 0 -> p = v; old = slot[B(g, v)]
			:: else
			fi
		fi
	fi
}

inline choose(q)	/* any bucket of the chain */
{
	if :: q = 0 :: u > 0 -> q = u :: v > 0 -> q = v fi
}

inline clear_slot(q) { slot[B(g, q)] = 0 }
inline make_header(q) { inc[B(g, q)] = inc[B(g, 0)]; lnk[B(g, q)] = 0; moved[B(g, q)] = false }

proctype writer()
{
	byte k = 0, g, old, p, u, v, q, last;
	bool mv;

	do
	:: k >= OPS -> break
	:: k < OPS ->
		k++;
		atomic { !wl -> wl = true; g = dseg; find() };
		if
		:: old > 0 ->				/* PUT over the live key */
			started = k;
			obs[old] = true;
			slot[B(g, p)] = k
#ifdef M_KEYMOVES
		:: old > 0 && u > 0 ->
			started = k;
			obs[old] = true;
			if
			:: p == 0 -> slot[B(g, u)] = k
			:: else -> slot[B(g, 0)] = k
			fi;
			slot[B(g, p)] = 0
#endif
		:: old > 0 ->				/* DEL */
			atomic { started = k; del[k] = true };
			obs[old] = true;
			slot[B(g, p)] = 0
		:: old == 0 ->				/* an insert, wherever there is room */
			atomic { started = k; choose(p) };
			slot[B(g, p)] = k
		fi;
#ifdef M_ACKRULE
		!splitting;
#endif
		atomic {				/* acknowledge, retire the old block, unlock */
			ret(k);
			if :: old > 0 -> gone = gone | BIT(old) :: else fi;
			old = 0; g = 0; p = 0; u = 0; v = 0; wl = false
		}
#ifdef M_LINKRACE
	:: atomic { lnk[B(dseg, 0)] == 0 -> g = dseg; u = 0; mv = moved[B(g, 0)]; p = 0; old = 0; v = 0;
		    q = FIRST(g); last = 0; clear_slot(q); make_header(q) };
		atomic {				/* MOVED may have been set in between */
			lnk[B(g, last)] = q; moved[B(g, last)] = mv;
			g = 0; q = 0; mv = false; u = 0
		}
#else
	:: atomic { !wl && (lnk[B(dseg, 0)] == 0 || lnk[B(dseg, FIRST(dseg))] == 0) ->
		    /* another key of K's bucket needs room: link one more */
		    wl = true; g = dseg; find();
		    if
		    :: u == 0 -> last = 0; q = FIRST(g)
		    :: else -> last = u; q = SECOND(g)
		    fi; old = 0; p = 0; u = 0; v = 0 };
#if defined(M_LINKFIRST)
		lnk[B(g, last)] = q;
		atomic { make_header(q) };
		clear_slot(q);
#elif defined(V_HEADERLATE)
		clear_slot(q);
		lnk[B(g, last)] = q;
		atomic { make_header(q) };
#else
		clear_slot(q);
		atomic { make_header(q) };
		lnk[B(g, last)] = q;
#endif
		atomic { g = 0; q = 0; last = 0; wl = false }
#endif
#ifdef M_UNLINK
	:: atomic { !wl && lnk[B(dseg, 0)] > 0 && slot[B(dseg, lnk[B(dseg, 0)])] == 0 &&
		    lnk[B(dseg, lnk[B(dseg, 0)])] > 0 -> wl = true; g = dseg; q = lnk[B(g, 0)] };
		lnk[B(g, 0)] = lnk[B(g, q)];		/* the empty one comes off the chain */
		atomic { lnk[B(g, q)] = 0; g = 0; q = 0; wl = false }	/* and ends another */
#endif
	od
}

proctype splitter()
{
	byte k = 0, o = 0, g, d, old, p, u, v, q;

	do
	:: k >= SPLITS -> break
	:: k < SPLITS ->
		k++;
		atomic {
			!wl -> wl = true; d = 1 - o;
#ifdef M_ACKRULE
			splitting = true;
#endif
		};
		/* Built where only directories of long ago lead to. The overflow buckets keep
		 * what stood in them until they are linked. */
		atomic { inc[B(d, 0)] = k + 1; moved[B(d, 0)] = false; lnk[B(d, 0)] = 0; slot[B(d, 0)] = 0 };
#ifdef M_PUBLISHFIRST
		atomic { dseg = d; dinc = k + 1 };
#endif
		atomic {				/* the copy, with chains of its own */
			g = o; find(); g = d;
			if
			:: p = 0; u = 0; v = 0
			:: u = FIRST(g); v = 0
			:: u = FIRST(g); v = SECOND(g)
			fi;
			if
			:: u > 0 -> clear_slot(u); make_header(u); lnk[B(g, 0)] = u
			:: else
			fi;
			if
			:: v > 0 -> clear_slot(v); make_header(v); lnk[B(g, u)] = v
			:: else
			fi;
			if :: old > 0 -> choose(q); slot[B(g, q)] = old :: else fi;
			p = 0; u = 0; v = 0; q = 0; old = 0; g = 0
		};
		atomic { dseg = d; dinc = k + 1 };	/* publish in the directory */
#if defined(M_ACKRULE) || defined(M_MOVEDLATE) || defined(M_NOMOVED)
		wl = false;
#endif
#ifndef M_NOMOVED
#ifndef V_MOVEDMAIN
		moved[B(o, 1)] = true;
#endif
#ifndef M_MOVEDCHAIN
		moved[B(o, 0)] = true;
#endif
#ifndef V_MOVEDMAIN
		moved[B(o, 2)] = true;
#endif
#endif
#ifdef M_ACKRULE
		splitting = false;
#endif
#if !defined(M_ACKRULE) && !defined(M_MOVEDLATE) && !defined(M_NOMOVED)
		wl = false;
#endif
		hold = open;				/* retire the old one: its readers may go on */
#ifndef M_NOSGP
		hold == 0;
#endif
		atomic { hold = 0; o = d; d = 0 }
	od
}

init
{
	atomic {
		byte i = 0;

		inc[0] = 1; del[0] = true;		/* operation 0: absent */
		run writer(); run splitter();
		do :: i < NR -> run reader(i); i++ :: else -> break od
	}
}
