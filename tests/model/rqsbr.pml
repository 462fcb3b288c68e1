/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Blocks that are reused under remote readers with hints (DESIGN 3, 4, 5.1 to 5.5): epochs, fences,
 * the order of the steps of a PUT, and what a reader accepts. How to run: README.md.
 *
 * MODELLED. One key K, one writer with UPD PUTs (one that fails frees its block before it was LIVE),
 * a reclaimer of its own that takes all retired blocks at once, NB blocks of one class, NC clients
 * with GETS GETs each. A block is three words that change and are fetched one by one: state with
 * incarnation; body; checksum, which belongs to one body and one incarnation. A READ fetches them in
 * any order, while the block is zeroed and rewritten. A client goes by the index or by its hint,
 * which it may keep over a reconnect; its announcement of the epoch comes when it likes. A WRITE may
 * be executed before a READ that was posted before it (with STRICT it may not). The server fences
 * whoever it waits for, whenever it likes. Another reader (a worker, another client) looks by the
 * index at any moment: so most rules need one client only.
 * Not modelled: threads and pins (pin.pml), other keys, slabs (recut.pml), how sessions come
 * (session.pml), segments (split.pml, chain.pml).
 *
 * CHECKED. I1: while a block that was reached through the index is fetched, it has no other life.
 * I7: what is accepted is one version, of the incarnation that was looked for. I2: it is no older
 * than what was acknowledged or returned before this GET began, and no PUT that failed.
 *
 * MUTANTS
 *	M_EARLYQS	the newest epoch announced while a READ is outstanding (not found with STRICT)
 *	M_NOFENCE	who is too slow is left out of the wait, its queue pair lives on
 *	M_NOGEN		who had the slot before has a queue pair that lives on (V_ZOMBIE: with the generation
 *			in the slot that alone does no harm), and no generation is compared
 *	M_STAMPFIRST	the epoch is raised before the batch's blocks were unlinked
 *	M_PUBFIRST	published before the old block is OBSOLETE
 *	M_ACKEARLY	acknowledged before it is
 *	M_NOVERIFY	neither state nor incarnation of a hint is looked at
 *	M_NOLIVE	the state alone is not
 *	M_NOHINC	the hint's incarnation alone is not compared. The checksum does not stand behind it:
 *			the address may be LIVE with a version of K that is not published yet
 *	M_NOGP		nobody waits for sessions. Nothing stands behind it for what is reached by the
 *			index, since slots carry no incarnation: the same early version
 *	M_INCLATE	LIVE with the old incarnation first, then with the new one
 * Redundant alone, but not together with what stands behind the plus (V_WHOLE: of the checks I7
 * alone):
 *	M_SUMNOINC	the checksum does not cover the incarnation	+ M_NOGP V_WHOLE
 *	M_NOSUM		there is no checksum				+ M_NOGP V_WHOLE
 *	M_ONESTORE	no INVALID with the new incarnation before the body, but LIVE with it after: the block
 *			still is OBSOLETE, and that is enough		+ M_NOLIVE M_NOSUM V_WHOLE
 *			(with V_NOZERO, not zeroed, and V_STATELAST, the state fetched last: without M_ONESTORE
 *			that holds)
 *	V_LIVELATE	published before it is LIVE: it is not found meanwhile, no more
 * So the grace period alone keeps what is accepted whole, and so does the checksum with the
 * incarnation; that it is not too new or too old takes the order of the steps, the state and the
 * grace period.
 *
 * STATES: README.md.
 */
#ifndef NC
#define NC 1
#endif
#ifndef GETS
#define GETS 2
#endif
#ifndef UPD
#define UPD 3
#endif
#define NB 3
#define NONE 255
#define INVALID 0
#define LIVE 1
#define OBSOLETE 2

byte E = 1, idx = 0;
byte state[NB], inc[NB];	/* one word */
byte body[NB];			/* the PUT that wrote it; 0: zeroes */
byte sbody[NB], sinc[NB];	/* the checksum: of which body, with which incarnation. One word */
bool isfree[NB], retired[NB];
byte sE[NC], sG[NC], gen[NC], myg[NC];
bool live[NC], qp[NC];		/* waited for; a queue pair that works */
byte floor = 1;			/* ghost: newest version acknowledged or returned */
byte oinc[UPD + 2];		/* ghost: the incarnation that PUT k used */
bool failed[UPD + 2];

/* A client's NIC: one READ and one WRITE of the epoch slot are outstanding at most. */
bool rdp[NC], rdone[NC], rerr[NC], wrp[NC], prot[NC];
byte rb[NC], ri[NC], got[NC], we[NC], wg[NC];
byte dst[NC], di[NC], db[NC], dsb[NC], dsi[NC];

inline ret(k) { if :: k > floor -> floor = k :: else fi }

#ifdef M_NOGP
#define I1(c) true
#else
#define I1(c) (!prot[c] || (inc[rb[c]] == ri[c] && !isfree[rb[c]]))
#endif
#ifdef V_STATELAST
#define MAYSTATE(c) ((got[c] & 6) == 6)
#else
#define MAYSTATE(c) true
#endif

proctype nic(byte c)
{
end:	do
	:: atomic { rdp[c] && qp[c] && !(got[c] & 1) && MAYSTATE(c) ->
		    assert(I1(c)); dst[c] = state[rb[c]]; di[c] = inc[rb[c]]; got[c] = got[c] | 1 }
	:: atomic { rdp[c] && qp[c] && !(got[c] & 2) ->
		    assert(I1(c)); db[c] = body[rb[c]]; got[c] = got[c] | 2 }
	:: atomic { rdp[c] && qp[c] && !(got[c] & 4) ->
		    assert(I1(c)); dsb[c] = sbody[rb[c]]; dsi[c] = sinc[rb[c]]; got[c] = got[c] | 4 }
	:: atomic { rdp[c] && got[c] == 7 -> rdp[c] = false; rdone[c] = true; got[c] = 0 }
	:: atomic { rdp[c] && !qp[c] && got[c] != 7 ->
		    rerr[c] = true; rdp[c] = false; rdone[c] = true; got[c] = 0;
		    dst[c] = 0; di[c] = 0; db[c] = 0; dsb[c] = 0; dsi[c] = 0 }
#ifdef STRICT
	:: atomic { wrp[c] && !rdp[c] ->
#else
	:: atomic { wrp[c] ->
#endif
		    if :: qp[c] -> sE[c] = we[c]; sG[c] = wg[c] :: else fi;
		    wrp[c] = false; we[c] = 0; wg[c] = 0 }
	od
}

#ifdef M_NOSUM
#define SOUND(c) true
#elif defined(M_SUMNOINC)
#define SOUND(c) (db[c] > 0 && dsb[c] == db[c])
#else
#define SOUND(c) (db[c] > 0 && dsb[c] == db[c] && dsi[c] == di[c])
#endif
#if defined(M_NOLIVE) || defined(M_NOVERIFY)
#define ISLIVE(c) true
#else
#define ISLIVE(c) (dst[c] == LIVE)
#endif
#if defined(M_NOHINC) || defined(M_NOVERIFY)
#define FITS(c) true
#else
#define FITS(c) (prot[c] || di[c] == ri[c])
#endif

proctype client(byte c)
{
	byte n = 0, e, f, g, hint = NONE, hi;

	do
	:: n >= GETS -> break
	:: n < GETS ->
		n++;
		if
		:: atomic { !qp[c] && !wrp[c] ->		/* a new session; its hints may be kept */
			    gen[c]++; sG[c] = gen[c]; sE[c] = E; qp[c] = true; live[c] = true;
			    myg[c] = gen[c];
			    if :: hint != NONE -> hint = NONE; hi = 0 :: true fi }
		:: qp[c]
		fi;
		/* A section opens with the READ of the epoch; the GET begins. */
		atomic { g = myg[c]; e = E; f = floor };
		if
		:: atomic { rb[c] = idx; ri[c] = inc[idx]; prot[c] = true }	/* the bucket */
		:: atomic { hint != NONE -> rb[c] = hint; ri[c] = hi; prot[c] = false }
		fi;
		atomic { rdone[c] = false; rerr[c] = false; rdp[c] = true };
#ifdef M_EARLYQS
		if :: atomic { !wrp[c] -> we[c] = E; wg[c] = g; wrp[c] = true } :: true fi;
#endif
		atomic {
			rdone[c];
			if
			:: !rerr[c] && ISLIVE(c) && FITS(c) && SOUND(c) ->
				assert(db[c] > 0 && oinc[db[c]] == di[c]);	/* I7 */
#ifndef M_NOSUM
				assert(dsb[c] == db[c]);
#endif
#ifndef V_WHOLE
				assert(db[c] >= f && !failed[db[c]]);		/* I2 */
				ret(db[c]);
#endif
				hint = rb[c]; hi = di[c]
			:: else -> hint = NONE; hi = 0
			fi;
			f = 0; rb[c] = 0; ri[c] = 0; prot[c] = false; rdone[c] = false; rerr[c] = false;
			dst[c] = 0; di[c] = 0; db[c] = 0; dsb[c] = 0; dsi[c] = 0
		};
#ifndef M_EARLYQS
		/* It is closed: the epoch may be announced, now or never. */
		if :: atomic { !wrp[c] -> we[c] = e; wg[c] = g; wrp[c] = true } :: true fi;
#endif
		atomic { e = 0; g = 0 }
	od
}

#if defined(V_ZOMBIE) || defined(M_NOGEN)
/* The client that had slot 0 before, its queue pair forgotten; it reads E and announces it. */
active proctype zombie()
{
endz:	do
#ifdef M_NOGEN
	:: atomic { sE[0] = E; sG[0] = gen[0] }
#else
	:: atomic { sE[0] = E; sG[0] = 0 }
#endif
	od
}
#endif

/* Looks by the index and returns what is LIVE. */
active proctype other()
{
endo:	do
	:: atomic { state[idx] == LIVE && body[idx] != floor ->
			 assert(body[idx] > floor); floor = body[idx] }
	od
}

inline obsolete() { state[old] = OBSOLETE }
inline publish() { idx = nb }
inline acknowledge() { ret(k + 1) }
#if defined(M_ONESTORE)
#define BEGIN skip
#define END atomic { state[nb] = LIVE; inc[nb] = inc[nb] + 1 }
#elif defined(M_INCLATE)
#define BEGIN skip
#define END state[nb] = LIVE; inc[nb] = inc[nb] + 1
#else
#define BEGIN atomic { state[nb] = INVALID; inc[nb] = inc[nb] + 1 }
#define END state[nb] = LIVE
#endif

proctype writer()
{
	byte k = 0, nb, old, i;

	do
	:: k >= UPD -> break
	:: k < UPD ->
		k++;
		atomic {
			isfree[0] || isfree[1] || isfree[2];
			nb = 0;
			do :: !isfree[nb] -> nb++ :: else -> break od;
			isfree[nb] = false; i = inc[nb] + 1; oinc[k + 1] = i
		};
		BEGIN;
		body[nb] = k + 1;
		atomic { sbody[nb] = k + 1; sinc[nb] = i; i = 0 };
#if !defined(M_ONESTORE) && !defined(M_INCLATE)
		if
		:: atomic { failed[k + 1] = true; body[nb] = 0; sbody[nb] = 0; sinc[nb] = 0;
			    isfree[nb] = true; nb = 0 }		/* out of log, out of staging memory */
		:: true ->
#else
		if
		:: true ->
#endif
			old = idx;
#ifdef V_LIVELATE
			obsolete(); publish(); END; acknowledge();
#else
			END;
#ifdef M_PUBFIRST
			publish(); obsolete(); acknowledge();
#elif defined(M_ACKEARLY)
			publish(); atomic { acknowledge() }; obsolete();
#else
			obsolete(); publish(); atomic { acknowledge() };
#endif
#endif
			atomic { retired[old] = true; old = 0; nb = 0 }
		fi
	od
}

#define OK(i) (!live[i] || (sG[i] == gen[i] && sE[i] > r))

proctype reclaimer()
{
	byte r, i, b, batch;

endr:	do
	:: retired[0] || retired[1] || retired[2] ->
#ifdef M_STAMPFIRST
		atomic { r = E; E = r + 1 };
#endif
		/* all that is there, of which each was unlinked */
		d_step {
			batch = retired[0] | retired[1] << 1 | retired[2] << 2;
			retired[0] = false; retired[1] = false; retired[2] = false
		};
#ifndef M_STAMPFIRST
		atomic { r = E; E = r + 1 };
#endif
#ifndef M_NOGP
		do
		:: atomic { i < NC && OK(i) -> i++ }
		:: atomic { i < NC && !OK(i) ->
#ifndef M_NOFENCE
			    qp[i] = false;
#endif
			    live[i] = false }
		:: atomic { i == NC -> i = 0; r = 0; break }
		od;
#endif
		do
		:: b < NB && (batch >> b & 1) ->
#ifndef V_NOZERO
			body[b] = 0;			/* zeroed, then given back */
			atomic { sbody[b] = 0; sinc[b] = 0 };
#endif
			atomic { isfree[b] = true; b++ }
		:: b < NB && !(batch >> b & 1) -> b++
		:: b == NB -> break
		od;
		atomic { b = 0; batch = 0; r = 0 }
	od
}

init
{
	atomic {
		byte i = 0;

		state[0] = LIVE; inc[0] = 1; body[0] = 1; sbody[0] = 1; sinc[0] = 1; oinc[1] = 1;
		isfree[1] = true; isfree[2] = true;
		run writer(); run reclaimer();
		do
		:: i < NC ->
			live[i] = true; qp[i] = true;
			sE[i] = 1; gen[i] = 1; sG[i] = 1; myg[i] = 1;
			run nic(i); run client(i);
			i++
		:: else -> break
		od
	}
}
