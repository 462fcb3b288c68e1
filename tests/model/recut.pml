/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Slabs that are recut under hints (DESIGN 4, 5.1 and 5.7: h in the epoch slot, hint_floor in the
 * root). How to run: README.md.
 *
 * MODELLED. One slab, one key K that stands in it or elsewhere. CUTS times: K is written elsewhere,
 * its block in the slab retired, given back after its grace period; the slab is empty: s = E;
 * hint_floor is raised to s; once every session's h >= s the slab is recut, and K written there
 * again. EXTRA grace periods pass for other blocks at any time. One client: NT threads with GETS
 * GETs each and one cache of hints, {address, pin of the section in which the block was last seen
 * LIVE}; a housekeeper that READs epoch and hint_floor (in either order), drops hints whose pin is
 * below the floor, scans the pins and announces e and h. The server may fence it, at most FENCES
 * times, and the client may give up all of its queue pairs (DETACH); it comes back with a new
 * session, or, if it was not fenced, with the same one; hints are kept. The server loads what a new
 * slot begins with before the session is put into the list. No wait is for a session that has no
 * queue pair.
 * Not modelled: incarnations and torn blocks (rqsbr.pml), ordering of stores (pin.pml), another life
 * of the server: hints do not survive that.
 *
 * CHECKED. A READ of a block, by the index or by a hint, is executed while the slab is cut as it was
 * when its address was learnt. I3 for h: it never goes backwards within a session.
 *
 * THE RULE FOR h. A hint that was taken out of the cache counts as held until the section that took
 * it is closed, whatever became of it in the cache, and the pin of that section says nothing about
 * it: it may be newer than all of this. So the client may announce f when it has dropped all hints
 * with a pin below f, and every section that was open at that moment has been closed since. Here the
 * newest epoch of then is remembered, and f is announced by the first round whose scan finds no
 * section with a pin up to it. What an open section will yet remember needs no care: its block is
 * LIVE in it, so the slab falls empty later, with a larger s.
 * Right as well:
 *	V_AGES		hints carry no pin but an age (client/src/know/hints.c). The round that READs a higher floor
 *			makes it one more: all older ones are gone at once. A section loads the age after its
 *			pin, and uses and remembers hints of that age only; whose connection it was is all one.
 *			A PUT has no pin: it loads the age before its request is posted, and remembers its reply
 *	V_OLDEST	the client goes by what is in its cache, min(e, oldest hint), and announces that in the
 *			same way when the sections of then are closed; it need not know the floor to do so
 *	V_SERVERGP	the client announces f at once, and the server lets one more grace period of its own
 *			pass between h >= s and the cut
 *	V_ONEHOLD	the server raises hint_floor when it has seen all h >= s, in the same hold of the lock
 *			under which a session begins to be waited for; before, only where it is short of memory
 *	V_NOHINTS	nothing is remembered, h = e
 *	V_HSTARTZERO	a new slot begins with h = 0: only slower
 *
 * MUTANTS
 *	M_NOWAITH	the slab is cut without a look at h
 *	M_HINUSE	f is announced although sections that were open at the drop still are
 *	M_HOLDEST	min(e, oldest hint in the cache) is announced at once
 *	M_HMINPIN	min(f, pins) is announced: the pin of a section that holds an old hint may be new
 *	M_HBEFOREDROP	f is announced before the drop
 *	M_HISE		h = e although there are hints (V_NOHINTS: a client without them may)
 *	M_FLOORLATE	hint_floor is raised after the look at h
 *	M_SEARLY	s is the epoch of the retirement, not of the empty slab
 *	M_HSTARTE	a new slot begins with h = E
 *	M_KEEPNODROP	hints are used before hint_floor was READ again: over a reconnect (DETACH=0); when
 *			the same session had no queue pair for a while (FENCES=0)
 *	M_TAKEFIRST	a hint is taken out of the cache before its section's pin is set
 *	M_RECORDLATE	a hint is remembered after its section was closed
 *	M_FOREIGN	a hint is remembered by a section whose session has gone meanwhile
 *	M_HINTNEWEST	a hint is given the newest epoch instead of its section's pin
 * and with V_AGES
 *	M_AGEFIRST	a section loads the age before its pin is set
 *	M_AGENEWEST	what a section found is given the age of then
 *	M_PUTLATE	a PUT loads the age with the reply
 *	M_AGELATE	the round scans the pins before it raises the age
 *
 * LANES (V_LANES, with V_AGES). A thread has up to LANES sections open at once, with one word for
 * their pins, by the rules of pin.pml. Each loads newest, then the age, with no store in between
 * where others are open: the word is no more than the pin that it records, and was there before, so
 * the round that raises the age finds either. Lanes of a connection that is gone may remember yet,
 * and have no pin when one of the next connection is open. Writes, which have none either, are left
 * out. Mutants: M_AGEFIRST, M_AGELATE, M_HINUSE, M_HMINPIN, M_NOWAITH, and
 *	M_LANEAGE	a lane that opens beside others has their age
 *	M_LANEZERO, M_LANENEWEST, M_LANELOAD	as in pin.pml
 * (M_LANECARRY breaks nothing here: its error is in another life of the server, see pin.pml.)
 *
 * (V_REACH: an assertion that fails when a slab is cut under a session that was there, with a hint,
 * when the slab fell empty: so that is among the states.)
 *
 * STATES: README.md.
 */
#ifndef NT
#define NT 1
#endif
#ifndef GETS
#ifdef V_LANES
#define GETS 3
#else
#define GETS 2
#endif
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef EXTRA
#define EXTRA 1
#endif
#ifndef FENCES
#define FENCES 1
#endif
#ifndef DETACH
#define DETACH 1
#endif
#ifndef LANES
#define LANES 2
#endif
#define NONE 255

/* The server. */
byte E = 1, hint_floor = 0;	/* in the root */
byte cut = 1;			/* how often the slab was cut */
bool here = true;		/* K's slot names the slab */
bool obs;			/* K's block in the slab: OBSOLETE, or no longer a block */
byte sE = 1, sH = 0;		/* the slot of the newest session */
bool qp = true;			/* it has a queue pair, and is waited for */
bool fenced;			/* it is no longer a session */

/* The client. */
byte conn = 1;			/* how often it had its first queue pair */
bool ready = true;		/* hints may be used: the floor was READ on these queue pairs */
bool lk;			/* of the housekeeper's round and of reconnects */
byte newest = 1, pin[NT];
bool busy[NT];			/* ghost: a GET that is under way */
byte last = 1, hlast = 0;	/* announced */
byte dropped = 0, since = 0;	/* hints below this are gone; the newest epoch at that moment */
bool hint;			/* the cache: one address */
byte hpin, hcut;
#ifdef V_AGES
byte age = 1, hage;		/* what may be used now; of the cache */
#endif

#ifdef V_AGES
#define MINE true
#define OURS (hage == a)
inline drop_below(x) { skip }
inline raise_age() { age++ }		/* what stands in the cache stays there */
#else
#define OURS true
inline drop_below(x) { if :: hint && hpin < x -> hint = false; hpin = 0; hcut = 0 :: else fi }
inline raise_age() { skip }
#endif

inline read_block()
{
	if
	:: s == conn && qp -> assert(c == cut); seen = !obs
	:: else
	fi
}

#ifdef M_FOREIGN
#define MINE true
#elif !defined(V_AGES)
#define MINE (s == conn)
#endif
#ifdef M_HINTNEWEST
#define PIN newest
#else
#define PIN p
#endif

#ifdef V_LANES

#define BUCKET 1			/* a READ is posted, of that */
#define BLOCK 2
#define DONE 3

/* Lanes in the order in which they were opened. */
typedef lanes {
	byte s[LANES], p[LANES], a[LANES], at[LANES], c[LANES];
	bool by_hint[LANES], seen[LANES]
};
lanes l[NT];
byte open[NT];

/* Is there no lane of connection @x before @i? */
#ifdef M_LANECARRY
#define FIRST(i, x) ((i) == 0)
#else
#define FIRST(i, x) ((i) == 0 || l[t].s[(i) - 1] != (x))
#endif
#define LAST (open[t] - 1)
#ifdef M_LANELOAD
#define NEXT (j < LAST -> newest : 0)
#else
#define NEXT (j < LAST -> l[t].p[j + 1] : 0)
#endif

inline pins()
{
	atomic {
		qp && ready -> busy[t] = true; s = conn; p = newest;
#ifndef M_LANENEWEST
		if :: FIRST(open[t], s) -> pin[t] = p :: else fi
#else
		pin[t] = p
#endif
	}
}

#ifdef M_LANEAGE
#define AGE (FIRST(open[t], s) -> age : l[t].a[LAST])
#else
#define AGE age
#endif

/* Lane j: what it found is remembered, or not; what misled it is forgotten. */
inline remember()
{
	if
	:: l[t].seen[j] && l[t].by_hint[j]
	:: l[t].seen[j] -> hint = true; hcut = l[t].c[j]; hage = l[t].a[j]
	:: !l[t].seen[j] && l[t].by_hint[j] && hage == l[t].a[j] -> hint = false; hage = 0; hcut = 0
	:: else
	fi
}

inline gone()				/* lane j */
{
	d_step {
		do
		:: j < LAST ->
			l[t].s[j] = l[t].s[j + 1]; l[t].p[j] = l[t].p[j + 1];
			l[t].a[j] = l[t].a[j + 1]; l[t].at[j] = l[t].at[j + 1];
			l[t].c[j] = l[t].c[j + 1]; l[t].by_hint[j] = l[t].by_hint[j + 1];
			l[t].seen[j] = l[t].seen[j + 1]; j++
		:: else -> break
		od;
		l[t].s[j] = 0; l[t].p[j] = 0; l[t].a[j] = 0; l[t].at[j] = 0; l[t].c[j] = 0;
		l[t].by_hint[j] = false; l[t].seen[j] = false;
		open[t]--; j = 0
	}
}

proctype thread(byte t)
{
	byte n, s, p, a, j;
	bool w;

	do
	:: n < GETS && open[t] < LANES ->
		n++;
#ifdef M_AGEFIRST
		a = AGE;
		pins();
#else
		pins();
		a = AGE;
#endif
		atomic {
			l[t].s[open[t]] = s; l[t].p[open[t]] = p; l[t].a[open[t]] = a;
			if
			:: hint && OURS ->
				l[t].by_hint[open[t]] = true; l[t].c[open[t]] = hcut;
				l[t].at[open[t]] = BLOCK
			:: true -> l[t].at[open[t]] = BUCKET
			fi;
			open[t]++; s = 0; p = 0; a = 0
		}
	:: atomic {				/* one remembers, and is closed */
			if
			:: open[t] > 0 && l[t].at[0] == DONE -> j = 0
			:: open[t] > 1 && l[t].at[1] == DONE -> j = 1
#if LANES > 2
			:: open[t] > 2 && l[t].at[2] == DONE -> j = 2
#endif
			fi;
			remember();
			w = (FIRST(j, l[t].s[j]) && l[t].s[j] == l[t].s[LAST]);
			p = (w -> NEXT : 0);
			gone()
		};
#ifdef M_LANEZERO
		if :: w -> pin[t] = 0 :: else fi;
#endif
		atomic {
			if :: w -> pin[t] = p :: else fi;
			busy[t] = (open[t] > 0); w = false; p = 0
		}
	:: n >= GETS && open[t] == 0 -> break
	od
}

inline fetch(i)				/* what lane i has posted */
{
	if
	:: !(l[t].s[i] == conn && qp) -> l[t].at[i] = DONE
	:: else ->
		if
		:: l[t].at[i] == BLOCK ->
			assert(l[t].c[i] == cut);
			l[t].seen[i] = !obs; l[t].at[i] = DONE
		:: l[t].at[i] == BUCKET && here -> l[t].c[i] = cut; l[t].at[i] = BLOCK
		:: else -> l[t].at[i] = DONE
		fi
	fi
}

#define UNDER_WAY(i) (l[t].at[i] == BUCKET || l[t].at[i] == BLOCK)

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
	byte n, s, c, p;
	bool by_hint, seen;
#ifdef V_AGES
	byte a;
	bool put;
#endif

	do
	:: n >= GETS -> break
	:: n < GETS ->
		n++;
#ifdef V_AGES
		if
		:: true				/* a PUT, applied once; its reply may come again later */
#ifndef M_PUTLATE
			atomic { qp && ready -> busy[t] = true; s = conn; a = age; put = true };
#else
			atomic { qp && ready -> busy[t] = true; s = conn; put = true };
#endif
			atomic {
				if :: s == conn && qp && here -> c = cut; seen = true :: else fi
			};
#ifdef M_PUTLATE
			a = age
#endif
		:: true
#ifdef M_AGEFIRST
			atomic { qp && ready -> busy[t] = true; s = conn; a = age };
			atomic { p = newest; pin[t] = p }
#else
			atomic { qp && ready -> busy[t] = true; s = conn; p = newest; pin[t] = p };
			a = age
#endif
		fi;
		if
		:: atomic { !put && hint && OURS -> by_hint = true; c = hcut }
		:: true
		fi;
#elif defined(M_TAKEFIRST)
		if
		:: atomic { qp && ready && hint -> busy[t] = true; s = conn; by_hint = true; c = hcut }
		:: atomic { qp && ready -> busy[t] = true; s = conn }
		fi;
		atomic { p = newest; pin[t] = p };
#else
		atomic { qp && ready -> busy[t] = true; s = conn; p = newest; pin[t] = p };
		if
		:: atomic { hint -> by_hint = true; c = hcut }
		:: true
		fi;
#endif
		if
#ifdef V_AGES
		:: put
#endif
		:: by_hint -> atomic { read_block() }
#ifdef V_AGES
		:: !put && !by_hint ->
#else
		:: else ->
#endif
			if				/* the bucket */
			:: atomic { s == conn && qp && here -> c = cut };
			   atomic { read_block() }
			:: atomic { !(s == conn && qp && here) -> skip }
			fi
		fi;
#ifdef M_RECORDLATE
		pin[t] = 0;
#endif
		atomic {				/* the cache has a lock */
			if
			:: seen && by_hint			/* its pin may stay the old one */
#ifdef V_AGES
#ifdef M_AGENEWEST
			:: seen -> hint = true; hcut = c; hage = age
#else
			:: seen -> hint = true; hcut = c; hage = a
#endif
			:: !seen && by_hint && OURS -> hint = false; hage = 0; hcut = 0
#elif !defined(V_NOHINTS)
			:: seen && MINE -> hint = true; hcut = c; hpin = PIN
#endif
#ifndef V_AGES
			:: !seen && by_hint -> hint = false; hpin = 0; hcut = 0
#endif
			:: else
			fi;
#ifdef V_AGES
			a = 0; put = false;
#endif
			by_hint = false; seen = false; c = 0; p = 0; s = 0
		};
		atomic { pin[t] = 0; busy[t] = false }
	od
}

#endif /* V_LANES */

#define OLDEST (hint && hpin < m -> hpin : m)
#if defined(M_HISE) || defined(V_NOHINTS)
#define H m
#elif defined(M_HOLDEST)
#define H OLDEST
#elif defined(M_HMINPIN)
#define H (least < dropped -> least : dropped)
#elif defined(M_HINUSE) || defined(V_SERVERGP) || defined(M_HBEFOREDROP)
#define H dropped
#else
#define H (since < least -> dropped : hlast)
#endif

proctype housekeeper()
{
	byte n, v, f, m, least, i, h;
#ifdef V_AGES
	bool raised;
#endif

endk:	do
	:: atomic { qp && ready -> n = conn };
		if				/* one READ of the two words */
		:: v = E; f = hint_floor
		:: f = hint_floor; v = E
		fi;
		atomic { !lk -> lk = true };
		if
		:: n == conn ->
			atomic {
				if :: v > newest -> newest = v :: else fi;
#ifdef V_OLDEST
				if :: dropped == 0 -> since = newest :: else fi
#else
#ifdef V_AGES
				if :: f > dropped -> dropped = f; since = newest; raised = true :: else fi
#else
				if :: f > dropped -> dropped = f; since = newest :: else fi
#endif
#endif
			};
#if defined(V_AGES) && !defined(M_AGELATE)
			atomic { if :: raised -> raise_age(); raised = false :: else fi };
#endif
#ifndef M_HBEFOREDROP
			atomic { drop_below(f) };
#endif
			least = NONE;
			i = 0;
			do
			:: i < NT ->
				atomic {
					if
					:: pin[i] > 0 && pin[i] < least -> least = pin[i]
					:: else
					fi;
					i++
				}
			:: else -> break
			od;
#if defined(V_AGES) && defined(M_AGELATE)
			atomic { if :: raised -> raise_age(); raised = false :: else fi };
#endif
			atomic {
				m = (least < v -> least : v);
				m = (m < last -> last : m);
				last = m;
#ifdef V_OLDEST
				/* announced by the round that finds all sections of now closed */
				if
				:: dropped == 0 -> dropped = OLDEST; h = hlast
				:: dropped > 0 && since < least -> h = dropped; dropped = 0
				:: else -> h = hlast
				fi;
#else
				h = H;
#endif
				h = (h < hlast -> hlast : h);
				hlast = h; i = 0; least = 0
			}
		:: else -> v = 0
		fi;
		lk = false;
		atomic {
			if
			:: v > 0 && n == conn && qp ->
				assert(m >= sE && m <= E && h >= sH);	/* I3 */
				sE = m; sH = h
			:: else
			fi;
			m = 0; v = 0; h = 0; n = 0
		};
#ifdef M_HBEFOREDROP
		atomic { drop_below(dropped) };
#endif
		f = 0
	od
}

/* What comes after the queue pairs are gone: the server's queue-pair thread and the client. */
proctype connect()
{
	byte e0, f0;

endc:	do
	:: atomic { !lk && !qp -> lk = true; ready = false; conn++ };
		if
		:: fenced ->			/* a new session, its slot set before it is listed */
			e0 = E;
#ifdef M_HSTARTE
			f0 = E;
#elif defined(V_HSTARTZERO)
			f0 = 0;
#else
			f0 = hint_floor;
#endif
			atomic { sE = e0; sH = f0; fenced = false; newest = e0; last = e0; hlast = f0;
				 dropped = 0; since = 0 }
		:: !fenced			/* another queue pair of the same session */
		fi;
		atomic { e0 = 0; f0 = 0; qp = true };
#ifndef M_KEEPNODROP
		if
		:: qp ->
			f0 = hint_floor;
			atomic {			/* nothing is open on these queue pairs */
				drop_below(f0);
#ifdef V_OLDEST
				dropped = 0;
#else
				if :: f0 > dropped -> dropped = f0; since = 0; raise_age() :: else fi;
#endif
				if :: f0 > hlast -> hlast = f0 :: else fi;
				f0 = 0
			}
		:: else
		fi;
#endif
		atomic { ready = true; lk = false }
	od
}

#define PASSED(r) (!qp || sE > (r))

proctype server()
{
	byte k = 0, r, s;
#ifdef V_REACH
	bool was;
	byte at;
#endif

	do
	:: k >= CUTS -> break
	:: k < CUTS ->
		k++;
		obs = true;				/* K is written elsewhere */
		here = false;
		atomic { r = E; E = r + 1 };
		PASSED(r);				/* the block is given back: the slab is empty */
#ifdef M_SEARLY
		s = r;
#else
		s = E;
#endif
#ifdef V_REACH
		atomic { was = hint; at = conn };
#endif
#ifdef V_ONEHOLD
		if				/* where memory is short, clients are asked */
		:: hint_floor = s
		:: true
		fi;
		atomic { !qp || sH >= s -> hint_floor = s };
#else
#ifndef M_FLOORLATE
		hint_floor = s;
#endif
#ifndef M_NOWAITH
		!qp || sH >= s;
#endif
#ifdef M_FLOORLATE
		hint_floor = s;
#endif
#endif
#ifdef V_SERVERGP
		atomic { r = E; E = r + 1 };
		PASSED(r);
#endif
#ifdef V_REACH
		assert(!(was && qp && conn == at));
#endif
		atomic { cut++; r = 0; s = 0 };
		atomic { obs = false; here = true }	/* K in the slab again */
	od
}

#if NT > 1
#define IDLE (!busy[0] && !busy[1])
#else
#define IDLE (!busy[0])
#endif

/* Grace periods of other blocks; leases that end; handles that are closed. */
proctype events()
{
	byte extra, fences, detach;

ende:	do
	:: atomic { extra < EXTRA -> extra++; E++ }
	:: atomic { fences < FENCES && qp -> fences++; qp = false; fenced = true }
	:: atomic { detach < DETACH && qp && IDLE -> detach++; qp = false }
	od
}

init
{
	atomic {
		byte i = 0;

		run server(); run housekeeper(); run connect(); run events();
		do
		:: i < NT ->
			run thread(i);
#ifdef V_LANES
			run nic(i);
#endif
			i++
		:: else -> break
		od
	}
}
