/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * One client process: threads that open sections, rounds that announce for all of them, and
 * reconnects of other threads in the middle of a round (DESIGN 5.1 to 5.4, 5.7). How to run:
 * README.md.
 *
 * MODELLED. NT threads with GETS sections each; their stores to the pins go through a store buffer
 * (TSO). TICKS that make rounds (a housekeeper, gkv_tick()), under one lock of rounds. A round: the
 * session's number n; READ E on n's queue pair; the session's lock; if the number is no longer n, it
 * is abandoned; newest; the scan, pin by pin; last; unlock; WRITE of the slot on n's queue pair. The
 * server replaces a block UPD times, and reuses it when the slot says e > r. RECON: it may fence
 * instead (3 sessions at most), and a reconnect under the session's lock begins a new session: slot
 * and WELCOME's E, newest and last, and only then the number, which stands for queue pairs that can
 * be used. RESTART: the process comes from an earlier life of the server, with E = 9: a round that
 * READ it is under way, and so may be a section. A section is void when its session is gone.
 * Not modelled: processors weaker than TSO, hints (recut.pml), sessions (session.pml).
 *
 * CHECKED. I1: a block that was reached is not reused before it is READ. I3: what is announced never
 * goes backwards and is no more than E (else the server fences an honest client).
 *
 * MUTANTS
 *	M_NOFENCE	no full fence between the pin and the first READ (V_RECHECK does not help)
 *	M_NEWEST	the newest epoch announced, not the least pin
 *	M_SCANFIRST	the pins scanned before the READ of E has completed
 *	M_RELOAD	newest loaded again after the scan, while another raises it
 *	M_NOCLAMP	the least pin announced, without max(last, ...)		I3
 *	M_NOROUNDLOCK	TICKS=2: two rounds at a time				I3
 * With RECON:
 *	M_CARRY		a section goes on on the new session's queue pair
 *	M_KEEPNEWEST	RESTART: the reconnect leaves newest and last as they were
 *	M_NONUMBER	RESTART: a round stores newest without a look at the session's number
 *	M_WRITENEW	a round's WRITE goes to the session that is there by then	I3
 *	M_NUMBERFIRST	RESTART: queue pairs of the new number may be used before newest is set
 *	M_PINFIRST	RESTART: a section takes newest before it takes its session's number
 * (With V_LENIENT the server does not mind: what I3 finds of M_KEEPNEWEST, M_NONUMBER and, with
 * RESTART, M_WRITENEW, I1 finds then. M_NOCLAMP and M_NOROUNDLOCK harm nobody but the honest
 * client.)
 * Variants without an error:
 *	V_RECHECK	after the fence a section begins again if more than its pin was announced: not needed
 *	V_LANES		a thread has up to LANES sections open at once, with one word for all
 *
 * LANES. Each records the newest epoch when it opens. Where no other is open, it is stored in the
 * word, then the fence, then the first READ; where others are, the word stays, and no fence is
 * needed. The word is the pin of the one that is open for longest: when that one closes, the pin that
 * the next one recorded is stored, without 0 in between; when another closes, nothing. Lanes of an
 * earlier connection count as closed: the first one of the next connection is stored, with the
 * fence. READs of all lanes execute at any time, also while another lane opens or closes.
 * Mutants:
 *	M_LANEZERO	0 is stored when the oldest closes, and then the next one's pin
 *	M_LANECLEAR	each lane that closes stores 0
 *	M_LANENEWEST	a lane that opens beside others stores its own pin
 *	M_LANELOAD	when the oldest closes, newest is loaded and stored
 *	M_LANELATE	beside others newest is loaded when the first READ was posted
 *	M_LANELAST	LANES=3: when the oldest closes, the last one's pin is stored
 *	M_LANECARRY	RECON RESTART: lanes of the connection before keep the word
 *	M_LANESTAY	beside others what the word says is recorded: right, but no progress
 * (V_REACH: an assertion that fails when an epoch is announced that E reached after a thread opened a
 * lane, though some lane of it was open all the time since: so that is among the states.)
 *
 * STATES: README.md.
 */
#ifndef NT
#define NT 2
#endif
#ifndef GETS
#ifdef V_LANES
#define GETS 3
#else
#define GETS 2
#endif
#endif
#ifndef LANES
#define LANES 2
#endif
#ifndef UPD
#define UPD 3
#endif
#ifndef TICKS
#define TICKS 1
#endif
#define NB 3
#define NONE 255
#define OLD 9			/* E of the server's earlier life */

/* The server. */
byte E = 1, idx = 0, inc[NB];
bool isfree[NB];
byte sE = 1;			/* the slot of the newest session */

/* The client. */
byte sess = 1;
bool dead;			/* its queue pairs are gone */
byte newest = 1, last = 1;
byte pin[NT];			/* 0: no section */
byte buf[NT];			/* store buffers of one entry */
bool held[NT];
bool lk, rounds;		/* the session's lock; that of rounds */

#ifdef M_CARRY
#define LOST dead
#else
#define LOST (dead || s != sess)
#endif

inline store(v) { atomic { !held[t] -> buf[t] = v; held[t] = true } }

inline look()
{
#ifndef RECON
	atomic { s = sess; p = newest };
#elif defined(M_PINFIRST)
	p = newest;
	s = sess;
#else
	s = sess;
	p = newest;
#endif
}

#ifdef V_LANES

#define POSTED 1
#define FOUND 2			/* the bucket is READ, the block not yet */
#define DONE 3

/* Lanes in the order in which they were opened. */
typedef lanes {
	byte s[LANES], p[LANES], at[LANES], b[LANES], ie[LANES]
};
lanes l[NT];
byte open[NT];
#ifdef V_REACH
byte began[NT];			/* E when the thread's first lane had opened */
#endif

/* Is there no lane of connection @c before @i? */
#ifdef M_LANECARRY
#define FIRST(i, c) ((i) == 0)
#else
#define FIRST(i, c) ((i) == 0 || l[t].s[(i) - 1] != (c))
#endif
#define LAST (open[t] - 1)
#ifdef M_LANELOAD
#define NEXT (j < LAST -> newest : 0)
#elif defined(M_LANELAST)
#define NEXT (j < LAST -> l[t].p[LAST] : 0)
#else
#define NEXT (j < LAST -> l[t].p[j + 1] : 0)
#endif

inline gone()				/* lane j */
{
	d_step {
		do
		:: j < LAST ->
			l[t].s[j] = l[t].s[j + 1]; l[t].p[j] = l[t].p[j + 1];
			l[t].at[j] = l[t].at[j + 1]; l[t].b[j] = l[t].b[j + 1];
			l[t].ie[j] = l[t].ie[j + 1]; j++
		:: else -> break
		od;
		l[t].s[j] = 0; l[t].p[j] = 0; l[t].at[j] = 0;
		open[t]--; j = 0
	}
}

proctype thread(byte t)
{
	byte n, s, p, j;
	bool w;

	do
	:: n < GETS && open[t] < LANES ->
		n++;
		look();
		if
		:: FIRST(open[t], s) ->
			store(p);
#ifndef M_NOFENCE
			!held[t];
#endif
		:: else
#ifdef M_LANENEWEST
			store(p)
#elif defined(M_LANESTAY)
			p = l[t].p[0]
#endif
		fi;
		atomic {
			l[t].s[open[t]] = s; l[t].p[open[t]] = p; l[t].at[open[t]] = POSTED;
#ifdef V_REACH
			if :: open[t] == 0 -> began[t] = E :: else fi;
#endif
			open[t]++; s = 0; p = 0
		};
#ifdef M_LANELATE
		if :: open[t] > 1 -> l[t].p[LAST] = newest :: else fi
#endif
	:: atomic {				/* one is closed, then the word stored */
			if
			:: open[t] > 0 && l[t].at[0] == DONE -> j = 0
			:: open[t] > 1 && l[t].at[1] == DONE -> j = 1
#if LANES > 2
			:: open[t] > 2 && l[t].at[2] == DONE -> j = 2
#endif
			fi;
#ifdef M_LANECLEAR
			w = true;
#else
			w = (FIRST(j, l[t].s[j]) && l[t].s[j] == l[t].s[LAST]);
			p = (w -> NEXT : 0);
#endif
			gone()
		};
		if
		:: w ->
#ifdef M_LANEZERO
			store(0);
#endif
			store(p)
		:: else
		fi;
		atomic { w = false; p = 0 }
	:: n >= GETS && open[t] == 0 -> break
	od
}

inline fetch(i)				/* what lane i has posted */
{
	if
	:: dead || l[t].s[i] != sess -> l[t].at[i] = DONE
	:: else ->
		if
		:: l[t].at[i] == POSTED ->
			l[t].b[i] = idx; l[t].ie[i] = inc[idx]; l[t].at[i] = FOUND; goto endn
		:: else ->
			assert(inc[l[t].b[i]] == l[t].ie[i] && !isfree[l[t].b[i]]);
			l[t].at[i] = DONE
		fi
	fi;
	l[t].b[i] = 0; l[t].ie[i] = 0
}

#define UNDER_WAY(i) (l[t].at[i] == POSTED || l[t].at[i] == FOUND)

proctype nic(byte t)
{
endn:	do
	:: atomic { UNDER_WAY(0) -> fetch(0) }
	:: atomic { UNDER_WAY(1) -> fetch(1) }
#if LANES > 2
	:: atomic { UNDER_WAY(2) -> fetch(2) }
#endif
	od
}

#else /* V_LANES */

proctype thread(byte t)
{
	byte n, s, p, b, ie;

	do
	:: n >= GETS -> break
	:: n < GETS ->
		n++;
again:
		look();
		store(p);
#ifndef M_NOFENCE
		!held[t];
#endif
#ifdef V_RECHECK
		if :: last > p -> goto again :: else fi;
#endif
		atomic {				/* the bucket */
			if
			:: LOST -> b = NONE
			:: else -> b = idx; ie = inc[b]
			fi
		};
		if
		:: b != NONE ->
#ifdef M_CARRY
			!dead;
#endif
			atomic {			/* the block */
				if
				:: LOST
				:: else -> assert(inc[b] == ie && !isfree[b])
				fi;
				b = 0; ie = 0
			}
		:: else
		fi;
		atomic { !held[t] -> buf[t] = 0; held[t] = true; p = 0; s = 0; b = 0; ie = 0 }
	od
}

#endif /* V_LANES */

active proctype flush()
{
end:	do
	:: atomic { held[0] -> pin[0] = buf[0]; buf[0] = 0; held[0] = false }
#if NT > 1
	:: atomic { held[1] -> pin[1] = buf[1]; buf[1] = 0; held[1] = false }
#endif
	od
}

#ifdef M_RELOAD
active proctype raiser()
{
	byte v;

endr:	do
	:: v = E; atomic { if :: v > newest -> newest = v :: else fi; v = 0 }
	od
}
#endif

inline scan()
{
	i = 0;
	m = NONE;
	do
	:: i < NT ->
		atomic { if :: pin[i] > 0 && pin[i] < m -> m = pin[i] :: else fi; i++ }
	:: else -> break
	od;
	i = 0
}

/* @v: the E that a round under way has READ; or 0. */
proctype housekeeper(byte v)
{
	byte n = 1, m, i;

	if :: v > 0 -> goto locked :: else fi;
endk:	do
	:: true ->
#ifndef M_NOROUNDLOCK
		atomic { !rounds -> rounds = true; n = sess };
#else
		n = sess;
#endif
#ifdef M_SCANFIRST
		scan();
#endif
		atomic {				/* READ of E, completed and polled */
			if
			:: !dead && n == sess -> v = E
			:: else -> v = 0; n = 0; m = 0; rounds = false; goto endk
			fi
		};
locked:		atomic { !lk -> lk = true };
#ifndef M_NONUMBER
		if
		:: n != sess -> atomic { lk = false; v = 0; n = 0; m = 0; rounds = false; goto endk }
		:: else
		fi;
#endif
		atomic { if :: v > newest -> newest = v :: else fi };
#ifndef M_SCANFIRST
		scan();
#endif
#ifdef M_RELOAD
		v = newest;
#endif
		atomic {
#ifdef M_NEWEST
			m = v;
#else
			m = (m < v -> m : v);
#endif
#ifndef M_NOCLAMP
			m = (m < last -> last : m);
#endif
			last = m; v = 0; lk = false
		};
		atomic {
			if
#ifdef M_WRITENEW
			:: !dead ->
#else
			:: !dead && n == sess ->
#endif
#ifndef V_LENIENT
				assert(m >= sE && m <= E);		/* I3 */
#endif
				sE = m
			:: else
			fi;
#ifdef V_REACH
			assert(!(open[0] > 0 && sE > began[0]));
#endif
			m = 0; n = 0; rounds = false
		}
	od
}

#ifdef RECON
proctype reconnect()
{
	byte e;

endc:	do
	:: atomic { dead && !lk -> lk = true };
		atomic { e = E; sE = e };
#ifdef M_NUMBERFIRST
		atomic { sess++; dead = false };
#endif
#ifndef M_KEEPNEWEST
		newest = e;
		last = e;
#endif
#ifndef M_NUMBERFIRST
		atomic { sess++; dead = false };
#endif
		atomic { lk = false; e = 0 }
	od
}
#endif

proctype server()
{
	byte k = 0, nb, old, r;

	do
	:: k >= UPD -> break
	:: k < UPD ->
		k++;
		atomic {
			nb = 0;
			do :: !isfree[nb] -> nb++ :: else -> break od;
			isfree[nb] = false; inc[nb]++; old = idx; idx = nb
		};
		atomic { r = E; E = r + 1 };
		if
		:: sE > r
#ifdef RECON
		:: atomic { !(sE > r) && !dead && sess < 3 -> dead = true }
		:: dead
#endif
		fi;
		atomic { isfree[old] = true; old = 0; nb = 0; r = 0 }
	od
}

init
{
	atomic {
		byte j = 0;

		isfree[1] = true; isfree[2] = true;
#ifdef RESTART
		newest = OLD; last = OLD; dead = true; sE = 0;
		rounds = true;
		run housekeeper(OLD);
#else
		run housekeeper(0);
#endif
#if TICKS > 1
		run housekeeper(0);
#endif
#ifdef RECON
		run reconnect();
#endif
		run server();
		do
		:: j < NT ->
			run thread(j);
#ifdef V_LANES
			run nic(j);
#endif
			j++
		:: else -> break
		od
	}
}
