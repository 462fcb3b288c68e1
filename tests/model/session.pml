/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Sessions that are waited for: they register, get queue pairs, lose them, and come again (DESIGN 5.4
 * to 5.7). How to run: README.md.
 *
 * MODELLED. One server, one client. The queue-pair thread loads E into a new session's slot, puts it
 * into the list, then WELCOME is sent with that E; counts the session among those with a queue pair before
 * the client may post, and no longer when its queue pair is destroyed; so does a fence, which also
 * takes it from the list. LOSSES times, at any moment. Any time may pass between two of these, so
 * the epoch that the client begins with can be old. UPD times the server writes K (a block is
 * replaced), or replaces K's segment; raises E; waits for the session if it is in the list, has a
 * queue pair, and its slot says e <= r; and reuses the memory at its next turn. The client does GETS
 * GETs by the directory that it has cached, over all reconnects; the header of the bucket and its
 * slot are fetched in either order, then the block. Its housekeeper announces when it likes, or
 * never: then each pin is the WELCOME's epoch.
 * Not modelled: threads, order of stores (pin.pml), hints (rqsbr.pml, recut.pml), what a miss is
 * (split.pml).
 *
 * CHECKED. I1: a block that a slot led to has no other life when it is fetched; the slot of a bucket
 * whose header was accepted is of the segment that the directory named.
 *
 * MUTANTS
 *	M_JOINLATE	counted when the client may post already
 *	M_LISTLATE	put into the list when the client may post already
 *	M_SLOTLATE	the slot is set to E when the client may post already
 *	M_LEAVEEARLY	no longer counted, or not in the list, and then its queue pair is destroyed
 *	M_LOOKFIRST	who is waited for is decided before the memory is unlinked
 *	M_NOMOVED	an old segment is not marked MOVED, so one that nobody waits for is not refused
 *	M_MOVEDLATE	it is marked after it was decided which are waited for
 *	M_NOINC		the segment's incarnation is not compared
 *	M_KEEPSECTION	a section goes on on the next queue pair
 * Variants without an error:
 *	V_RAISELATE	E is raised after it was decided which are waited for. What a session that comes in
 *			between does comes after the unlinking, as what one does that comes later
 *	V_OLDSLOT	the slot keeps what the session before announced: no more than E was when this one came
 *
 * FOUND. That nobody waits for a session without a queue pair is right for blocks, because all its
 * READs come after the unlinking; for a cached directory, because MOVED was set before the look at
 * the list.
 *
 * STATES: README.md.
 */
#ifndef GETS
#define GETS 2
#endif
#ifndef UPD
#define UPD 3
#endif
#ifndef LOSSES
#define LOSSES 2
#endif
#define NB 2

byte E = 1;
byte dseg = 0, dinc = 1;	/* the directory's entry: one word */
byte hinc[2], slot[2];		/* two segments: header; K's slot */
bool moved[2];
byte inc[NB];			/* blocks */
bool isfree[NB];

byte sE = 0;			/* the session's slot */
bool listed, counted;		/* in the list; has a queue pair, for those who wait */
bool qp;			/* and really has one: the client may post */
byte conn = 0;			/* which one */

byte newest = 0, pin = 0;	/* the client */

#ifdef M_KEEPSECTION
#define READ qp -> if :: true ->	/* waits for the next one */
#else
#define READ if :: !(qp && s == conn) -> goto closed :: qp && s == conn ->
#endif
#define DONE fi
#ifdef M_NOINC
#define FITS (!mv)
#else
#define FITS (!mv && hi == ci)
#endif

inline get_header() { hi = hinc[cs]; mv = moved[cs] }
inline get_slot() { b = slot[cs]; si = hinc[cs]; bi = inc[b] }

proctype client()
{
	byte n, s, hi, si, b, bi;
	byte cs = 0, ci = 1;
	bool mv;

	do
	:: n >= GETS -> break
	:: atomic { n < GETS && qp -> n++; s = conn; pin = newest };
		if						/* the bucket */
		:: atomic { READ get_header() DONE }; atomic { READ get_slot() DONE }
		:: atomic { READ get_slot() DONE }; atomic { READ get_header() DONE }
		fi;
		if
		:: FITS ->
			assert(si == ci);
			atomic { READ assert(inc[b] == bi && !isfree[b]) DONE }
		:: !(FITS) ->
			atomic { READ cs = dseg; ci = dinc DONE }
		fi;
closed:		atomic { pin = 0; s = 0; hi = 0; si = 0; b = 0; bi = 0; mv = false }
	od
}

proctype housekeeper()
{
	byte v, m, n;

endk:	do
	:: atomic { qp -> n = conn; v = E };
		atomic {
			if
			:: n == conn -> if :: v > newest -> newest = v :: else fi
			:: else
			fi
		};
		atomic {
			m = (pin > 0 && pin < v -> pin : v);
			if
			:: n == conn && qp && m > sE -> assert(m <= E); sE = m
			:: else
			fi;
			v = 0; m = 0; n = 0
		}
	od
}

/* The server's threads that have to do with sessions, and the time that passes. */
proctype control()
{
	byte e, losses;
	bool again;

endc:	do
	:: !qp ->
		if
		:: !again ->
#ifndef M_SLOTLATE
			e = E;				/* HELLO */
#ifndef V_OLDSLOT
			sE = e;
#else
			if :: sE == 0 -> sE = e :: else fi;
#endif
#endif
#ifndef M_LISTLATE
			listed = true;
#endif
			atomic { newest = e; e = 0 }	/* WELCOME; the client sends nothing before */
		:: again
		fi;
#if defined(M_JOINLATE)
		atomic { qp = true; conn++ };
		counted = true;
#else
		counted = true;
		atomic { qp = true; conn++ };
#endif
#ifdef M_LISTLATE
		listed = true;
#endif
#ifdef M_SLOTLATE
		sE = E;
#endif
		again = false
	:: qp && losses < LOSSES ->
		atomic { losses++; if :: again = true :: again = false fi };
#ifdef M_LEAVEEARLY
		counted = false;
		if :: !again -> listed = false :: else fi;
		qp = false
#else
		qp = false;
		counted = false;
		if :: !again -> listed = false :: else fi
#endif
	od
}

#define INLIST (listed && counted)

proctype server()
{
	byte k = 0, r, old, nb;
	bool wait, seg;

	do
	:: k >= UPD -> break
	:: k < UPD ->
		k++;
#ifdef M_LOOKFIRST
		wait = INLIST;
#endif
		if
		:: atomic { nb = (isfree[0] -> 0 : 1); assert(isfree[nb]); isfree[nb] = false;
			    inc[nb]++; old = slot[dseg] };
			slot[dseg] = nb
		:: atomic { seg = true; old = dseg; nb = 1 - old };
			hinc[nb] = dinc + 1;		/* where only old directories lead */
			atomic { moved[nb] = false; slot[nb] = slot[old] };
			atomic { dseg = nb; dinc = hinc[nb] };
#if !defined(M_NOMOVED) && !defined(M_MOVEDLATE)
			moved[old] = true
#endif
		fi;
#ifdef V_RAISELATE
		wait = INLIST;
#endif
		atomic { r = E; E = r + 1 };
#if !defined(M_LOOKFIRST) && !defined(V_RAISELATE)
		!INLIST || sE > r;
#else
		!wait || !INLIST || sE > r;
#endif
#ifdef M_MOVEDLATE
		if :: seg -> moved[old] = true :: else fi;
#endif
		atomic {
			if :: !seg -> isfree[old] = true :: else fi;
			r = 0; old = 0; nb = 0; seg = false; wait = false
		}
	od
}

init
{
	atomic {
		hinc[0] = 1; inc[0] = 1; isfree[1] = true;
		run server(); run control(); run housekeeper(); run client()
	}
}
