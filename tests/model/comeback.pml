/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Servers of a group with data directories die, all of them too, at any moment of fail-overs and
 * switches: who comes back (docs/internals/replication.md, section 5). How to run: README.md.
 *
 * MODELLED. NN nodes, each in one life after the other, and NW writes, of which each node has the
 * first few in memory, and the first few on its disk. etcd has a configuration: primary, members,
 * who is in sync, and who was primary before. A transaction names the revision that it replaces; it
 * may be late, after its server has died and lives again, and ND of them are lost. A primary
 * acknowledges a write when all in sync have it in memory, and it itself on its disk; a backup's
 * disk has it later. NC deaths. NX times a backup takes over from a primary that is alive, or a
 * primary gives way by itself. With POWER a death may lose what the disk had; nothing is vouched
 * for then.
 * Not modelled: what is written and not acknowledged; rings, terms, leases, readers (failover.pml);
 * a person; a directory that is copied, or restored.
 *
 * CHECKED. Who answers as primary has all that was acknowledged. When nothing more happens all
 * live, and one of them is primary and answers; with POWER, or a directory lacks something, and a
 * person is asked.
 *
 * MUTANTS
 *	M_VOUCHLATE	a primary answers before its directory says that it may have
 *	M_GIVEALL	who is named gives back, whether it may have answered or not
 *	M_GIVENOTHING	who is named and has not answered waits for a person
 *	M_FORGET	who takes over names the primary before it, and none of those before that
 *	M_ADMITEARLY	a primary lets others learn before it answers
 *	M_ONELIFE	who comes back vouches for its new life, and no more for the one that is named
 *	M_NOTAGAIN	what an earlier life proposed may come when its life is forgotten
 * VARIANTS that hold as well; the rules are for directories that are restored from a back-up
 *	V_KEEPBEFORE	who was primary before stays named when the primary has answered
 *	V_OTHERLIFE	a directory that vouches for any life is believed
 *
 * FOUND. The rule that M_NOTAGAIN breaks was missing: the transaction of a life that had died came
 * when the next one had vouched for itself and for the life that was named; nobody came back.
 */
#ifndef NN
#define NN 3
#endif
#ifndef NW
#define NW 1
#endif
#ifndef NC
#define NC 3
#endif
#ifndef NX
#define NX 0
#endif
#ifndef ND
#define ND 1
#endif

#define NB 3                            /* before */
#define NODE(life) (((life) - 1) % NN)
#define NEXT(life) ((life) + NN)

#define NOTHING 0
#define TAKE 1
#define SWITCH 2
#define REMOVE 3
#define ADD 4
#define PROMOTE 5
#define RETURN 6
#define GIVE 7
#define AGAIN 8                         /* the same configuration, of the next revision */

/* etcd */
byte rev = 1, prim = 1;
byte member[NN];                        /* life; 0: none */
bool sync[NN];
byte before[NB];
/* Transactions on their way: of this life of a node, and of one before. */
byte what[2 * NN], from[2 * NN], by[2 * NN], whom[2 * NN];
byte lost;

/* A node. */
bool up[NN], opened[NN], learned[NN];
byte me[NN];                            /* life, the last one if it is not up */
byte mem[NN];                           /* writes */
byte ring[NN];                          /* the life of the primary that it follows; 0: revoked */
byte knows[NN];                         /* a primary: the last revision that it has written */
byte seen[NN];                          /* the revision when its life began */

/* Its directory. */
byte disk[NN], whole0[NN], whole1[NN];
bool weak[NN];                          /* it lacks something, perhaps */

byte acked, deaths, whims;

hidden byte i, k, a, n2;
hidden byte ok;

#define IN(n)		(member[n] == me[n] && member[n] != 0)
#define HAS(n, life)	(whole0[n] == (life) || whole1[n] == (life))
#define FREE(n)		(what[n] == NOTHING)
#define LEADS(n)	(up[n] && opened[n] && prim == me[n] && knows[n] == rev)

inline propose(n, w, x) {
	what[n] = w;
	from[n] = rev;
	by[n] = me[n];
	whom[n] = x
}

inline push(life) {
#ifndef M_FORGET
	before[2] = before[1];
	before[1] = before[0];
#else
	before[1] = 0;
#endif
	before[0] = life
}

inline clear_before() {
	before[0] = 0; before[1] = 0; before[2] = 0
}

inline drop(n) {
	member[n] = 0;
	sync[n] = false
}

inline alone(life) {
	k = 0;
	do
	:: k < NN -> drop(k); k++
	:: else -> break
	od;
	member[NODE(life)] = life;
	sync[NODE(life)] = true;
	prim = life;
	clear_before()
}

/* It dies, or starts itself again: @late: what it had proposed may come yet. */
inline forget(n) {
	up[n] = false;
	opened[n] = false;
	learned[n] = false;
	mem[n] = 0;
	ring[n] = 0;
	knows[n] = 0;
	if
	:: what[n] != NOTHING ->
		what[NN + n] = what[n];
		from[NN + n] = from[n];
		by[NN + n] = by[n];
		whom[NN + n] = whom[n]
	:: else
	fi;
	what[n] = NOTHING; from[n] = 0; by[n] = 0; whom[n] = 0
}

/* All that must hold what @n says do. */
#define COUNTS(n, x)	(sync[x] || (what[n] == PROMOTE && whom[n] == member[x]))
#define FOLLOWS(n, x)	((x) == (n) || !member[x] || !COUNTS(n, x) || \
			 (up[x] && IN(x) && ring[x] == me[n]))
#if NN > 2
#define ALL(n)		(FOLLOWS(n, 0) && FOLLOWS(n, 1) && FOLLOWS(n, 2))
#else
#define ALL(n)		(FOLLOWS(n, 0) && FOLLOWS(n, 1))
#endif

inline give_all(n, count) {
	k = 0;
	do
	:: k < NN ->
		if
		:: k != n && up[k] && ring[k] == me[n] && (sync[k] || learned[k]) -> mem[k] = count
		:: else
		fi;
		k++
	:: else -> break
	od
}

/* The transaction in place @a is executed. */
inline execute() {
	if
	:: from[a] == rev ->
		rev++;
		n2 = NODE(by[a]);
		if
		:: what[a] == TAKE ->
			push(prim);
			drop(NODE(prim));
			prim = by[a]
		:: what[a] == SWITCH ->
			push(prim);
			drop(NODE(prim));
			prim = whom[a]
		:: what[a] == REMOVE -> drop(NODE(whom[a]))
		:: what[a] == ADD ->
			member[NODE(whom[a])] = whom[a];
			sync[NODE(whom[a])] = false
		:: what[a] == PROMOTE -> sync[NODE(whom[a])] = true
		:: what[a] == RETURN -> alone(by[a])
		:: what[a] == AGAIN -> skip
		:: what[a] == GIVE ->
			drop(NODE(prim));
			prim = before[0];
			member[NODE(prim)] = prim;
			sync[NODE(prim)] = true;
			before[0] = before[1];
			before[1] = before[2];
			before[2] = 0
		fi;
		if
		:: prim == by[a] && me[n2] == by[a] ->
			knows[n2] = rev;
#ifndef V_KEEPBEFORE
			if
			:: opened[n2] && what[a] != SWITCH -> clear_before()
			:: else
			fi
#endif
		:: else
		fi
	:: else
	fi;
	what[a] = NOTHING; from[a] = 0; by[a] = 0; whom[a] = 0;
	n2 = 0; k = 0
}

active proctype etcd() {
end:	do
	:: atomic { what[0] != NOTHING -> a = 0; execute(); a = 0 }
	:: atomic { what[1] != NOTHING -> a = 1; execute(); a = 0 }
	:: atomic { what[NN] != NOTHING -> a = NN; execute(); a = 0 }
	:: atomic { what[NN + 1] != NOTHING -> a = NN + 1; execute(); a = 0 }
#if NN > 2
	:: atomic { what[2] != NOTHING -> a = 2; execute(); a = 0 }
	:: atomic { what[NN + 2] != NOTHING -> a = NN + 2; execute(); a = 0 }
#endif
	od
}

/* @n is primary, and answers: its directory has all, and says so. */
inline begin_to_answer(n) {
	assert(mem[n] >= acked);
	disk[n] = mem[n];
	opened[n] = true;
	knows[n] = rev;
	weak[n] = false;
#ifndef M_VOUCHLATE
	whole0[n] = me[n];
	whole1[n] = 0
#endif
}

#ifdef V_OTHERLIFE
#define VOUCHES(n) (whole0[n] && !weak[n])
#else
#define VOUCHES(n) (HAS(n, prim) && !weak[n])
#endif

/* What another life has proposed may come yet, and it names a life that is forgotten here. */
#ifdef M_NOTAGAIN
#define UNSETTLED(n) false
#else
#define UNSETTLED(n) (whole0[n] != prim && whole0[n] != me[n] && rev == seen[n])
#endif

#if defined(M_GIVEALL)
#define GIVES(n) (before[0] != 0 && !VOUCHES(n))
#elif defined(M_GIVENOTHING)
#define GIVES(n) false
#else
#define GIVES(n) (before[0] != 0 && !HAS(n, prim))
#endif

#ifdef M_ADMITEARLY
#define ADMITS(n) (up[n] && prim == me[n])
#else
#define ADMITS(n) LEADS(n)
#endif
#define GONE(x)		(member[x] != 0 && (!up[x] || me[x] != member[x]))
#define COMES(x)	(up[x] && !opened[x] && member[x] == 0 && ring[x] == 0 && !learned[x])
#define HASLEARNED(n, x) (up[x] && IN(x) && !sync[x] && learned[x] && ring[x] == me[n])
#define MAYLEAD(n, x)	(whims < NX && sync[x] && up[x] && IN(x) && ring[x] == me[n])

/* What a primary proposes about another node. */
#define OTHERS(n, x) \
	atomic { (x) != n && up[n] && prim == me[n] && FREE(n) && \
		(GONE(x) || (ADMITS(n) && COMES(x)) || \
		 (LEADS(n) && (HASLEARNED(n, x) || MAYLEAD(n, x)))) -> \
		if \
		:: GONE(x) -> propose(n, REMOVE, member[x]) \
		:: ADMITS(n) && COMES(x) -> propose(n, ADD, me[x]) \
		:: LEADS(n) && HASLEARNED(n, x) -> propose(n, PROMOTE, me[x]) \
		:: LEADS(n) && MAYLEAD(n, x) -> whims++; propose(n, SWITCH, me[x]) \
		fi }

proctype server(byte n) {
end:	do
	/* It lives and dies. */
	:: atomic { !up[n] ->
		up[n] = true;
		seen[n] = rev;
		me[n] = NEXT(me[n]) }
	:: atomic { up[n] && deaths < NC ->
		deaths++;
#ifdef POWER
		if
		:: disk[n] > 0 && !weak[n] -> disk[n]--; weak[n] = true
		:: true
		fi;
#endif
		forget(n) }
	:: atomic { up[n] && what[n] != NOTHING && lost < ND ->
		lost++;
		what[n] = NOTHING; from[n] = 0; by[n] = 0; whom[n] = 0 }
	/* It was deposed, or taken out, or is given back what it did not know to be gone. */
	:: atomic { up[n] && FREE(n) && ((opened[n] && (prim != me[n] || knows[n] != rev)) ||
		(learned[n] && member[n] != me[n]) ||
		(ring[n] != 0 && (member[n] != me[n] || (!sync[n] && ring[n] != prim)))) ->
		forget(n);
		up[n] = true;
		seen[n] = rev;
		me[n] = NEXT(me[n]) }

	/* Primary. */
	:: atomic { up[n] && !opened[n] && prim == me[n] && FREE(n) && ALL(n) -> begin_to_answer(n) }
#ifdef M_VOUCHLATE
	:: atomic { up[n] && opened[n] && whole0[n] != me[n] -> whole0[n] = me[n]; whole1[n] = 0 }
#endif
	:: atomic { LEADS(n) && what[n] != SWITCH && acked < NW && ALL(n) ->
		acked++;
		mem[n] = acked;
		disk[n] = acked;
		give_all(n, acked) }
	:: OTHERS(n, 0)
	:: OTHERS(n, 1)
#if NN > 2
	:: OTHERS(n, 2)
#endif

	/* It follows. */
	:: atomic { up[n] && IN(n) && sync[n] && prim != me[n] && ring[n] != prim && FREE(n) &&
		up[NODE(prim)] && me[NODE(prim)] == prim && !opened[NODE(prim)] ->
		ring[n] = prim;                 /* it comes to who has taken over, and has what that has */
		mem[n] = mem[NODE(prim)] }
	:: atomic { up[n] && IN(n) && !sync[n] && ring[n] == 0 && up[NODE(prim)] &&
		me[NODE(prim)] == prim && ADMITS(NODE(prim)) ->
		ring[n] = prim;                 /* it learns: what it had goes aside */
		disk[n] = 0; whole0[n] = 0; whole1[n] = 0; weak[n] = false }
	:: atomic { up[n] && IN(n) && !sync[n] && !learned[n] && ring[n] == prim && LEADS(NODE(prim)) ->
		mem[n] = mem[NODE(prim)];
		disk[n] = mem[n];
		learned[n] = true }
	:: atomic { up[n] && IN(n) && disk[n] < mem[n] -> disk[n] = mem[n] }
	:: atomic { up[n] && IN(n) && sync[n] && prim != me[n] && FREE(n) &&
		(!up[NODE(prim)] || me[NODE(prim)] != prim || whims < NX) ->
		if
		:: up[NODE(prim)] && me[NODE(prim)] == prim -> whims++
		:: else
		fi;
		ring[n] = 0;                    /* first its rights go */
		propose(n, TAKE, 0) }

	/* It comes back. */
	:: atomic { up[n] && FREE(n) && member[n] != me[n] && NODE(prim) == n && prim != me[n] &&
		(VOUCHES(n) || GIVES(n)) ->
		if
		:: VOUCHES(n) && UNSETTLED(n) -> propose(n, AGAIN, 0)
		:: VOUCHES(n) && !UNSETTLED(n) -> /* before it asks, its directory says so of this life, too */
#ifdef M_ONELIFE
			whole1[n] = 0;
#else
			whole1[n] = (HAS(n, prim) && prim != me[n] -> prim : 0);
#endif
			whole0[n] = me[n];
			mem[n] = disk[n];
			propose(n, RETURN, 0)
		:: else -> propose(n, GIVE, 0)
		fi }
	od
}

/* Nothing goes on by itself any more: one answers. */
active proctype end_of_all() {
	atomic { timeout ->
		i = 0;
		ok = 0;
		do
		:: i < NN -> ok = ok || (up[i] && opened[i] && prim == me[i]) || weak[i]; i++
		:: else -> break
		od;
		assert(ok);
		i = 0; ok = 0 }
}

init {
	atomic {
		i = 0;
		do
		:: i < NN ->
			up[i] = true;
			me[i] = i + 1;
			member[i] = i + 1;
			sync[i] = true;
			if
			:: i > 0 -> ring[i] = 1; learned[i] = true
			:: else
			fi;
			i++
		:: else -> break
		od;
		opened[0] = true;
		knows[0] = 1;
		whole0[0] = 1;
		i = 0;
		do
		:: i < NN -> run server(i); i++
		:: else -> break
		od;
		i = 0
	}
}
