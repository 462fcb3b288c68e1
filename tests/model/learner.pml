/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A learner: a server that comes to hold all that the primary holds, while writes go on. How to run:
 * README.md.
 *
 * MODELLED. A primary with NK keys and one client, whose id was registered before. NO times a
 * PUT or DEL of some key, or the end of the client, is decided and takes the next position of the
 * log; it is committed; it is published, those of one key in order, others in any. A PUT is the next
 * request of one of the client's NS slots, whose last one was answered, and its reply is remembered
 * when it is published. Position and version are
 * the same number here. A learner, whose ring has the log from L0 on: records arrive in order; it
 * is told how far they are committed, and applies up to there, in order. It walks over the
 * primary's table by READs: each key once; a READ takes place before what it brought is applied.
 * The table of clients comes by RPC: it is as of the moment when it was read, says which position
 * that is, and is taken later. When both are over, and all that is committed is whole in the ring,
 * the learner is put in sync: from then on a record is committed when it is whole there.
 * Not modelled: laps of the ring (ring.pml), the transaction (failover.pml), splits and merges under
 * the walk (split.pml: a key that is there all the time is met).
 *
 * CHECKED. When it is in sync and has applied its ring, its table is what the log makes of each key,
 * and what it knows of the client is what the log says. Nothing goes back: it never stores a
 * version of a key that is older than one that it had, or than a deletion that it applied.
 *
 * MUTANTS
 *	M_WALKEARLY	the walk begins before all records up to L0 are published
 *	M_WALKCOMMIT	it begins when they are committed
 *	M_WALKFIRST	it begins before the mirror does
 *	M_NOTOMB	a DEL leaves nothing behind: a READ from before it brings the record back
 *	M_TOMBEARLY	what DELs left goes when the last READ has completed, not when it was applied
 *	M_BLIND		what a READ brought is stored, whatever is there
 *	M_BLINDLOG	so is what the ring brings
 *	M_JOINEARLY	it is put in sync although something committed is not whole in its ring
 *	M_JOINWALK	it is put in sync before its walk is over
 *	M_NOCLIENTS	the table of clients is not asked for
 *	M_CLIENTFIRST	it is read before all records up to L0 are published
 *	M_CLIENTBLIND	it replaces what the ring has brought meanwhile
 *	M_NOENDED	an end of the client that was applied before it came is not remembered
 */
#ifndef NK
#define NK 2
#endif
#ifndef NO
#define NO 4
#endif

#ifdef M_CLIENTBLIND
#define NEWER(came, known) true
#else
#define NEWER(came, known) ((came) > (known))
#endif
#ifndef NS
#define NS 2
#endif

#define PUT 1
#define DEL 2
#define END 3           /* of the client */

/* The log, by position from 1 on; a PUT's slot and sequence. */
byte kind[NO + 1], key[NO + 1], slot[NO + 1], seq[NO + 1];
bool published[NO + 1];
byte tail, committed;   /* last positions */
byte asked[NS];         /* last sequence that was decided */
bool ended;             /* the client's end was */

/* What the primary has published. */
byte table[NK];         /* version; 0: absent */
bool there = true;      /* the client is known */
byte answered[NS];      /* its last replies */

/* The learner. */
bool mirrors;
byte l0;                /* last position that is not mirrored */
byte whole, known, applied; /* last positions: in the ring, told to be committed, applied */
byte mine[NK], tomb[NK];
bool read, insync;
byte brought, cursor;   /* of key `cursor`; NK: the walk is over */
bool tombs = true;

bool known_there, known_ended, asks, has_clients; /* what it knows of the client; the RPC */
byte known_answered[NS];
bool came_there;
byte came_answered[NS];

byte top[NK];           /* ghost: newest version, or deletion, that it had */

hidden byte i, j, expect;
hidden byte ok;

inline forget_tombs() {
	tombs = false;
	i = 0;
	do
	:: i < NK -> tomb[i] = 0; i++
	:: else -> break
	od
}

inline store(k, v) {
	assert(v >= top[k]);
	mine[k] = v;
	top[k] = v
}

/* All up to L0 are published. */
inline is_published(n) {
	ok = 1;
	j = 1;
	do
	:: j <= n -> ok = ok && published[j]; j++
	:: else -> break
	od
}

inline apply_put(p) {
	if
#ifndef M_BLINDLOG
	:: p > mine[key[p]] && p > tomb[key[p]] -> store(key[p], p)
	:: else
#else
	:: true -> store(key[p], p)
#endif
	fi;
	if
	:: seq[p] > known_answered[slot[p]] && !known_ended ->
		known_there = true;
		known_answered[slot[p]] = seq[p]
	:: else
	fi
}

inline apply_del(p) {
	if
	:: p > mine[key[p]] ->
		mine[key[p]] = 0;
		top[key[p]] = (p > top[key[p]] -> p : top[key[p]]);
#ifndef M_NOTOMB
		tomb[key[p]] = (tombs -> p : 0)
#endif
	:: else
	fi
}

inline apply_end() {
	known_there = false;
#ifndef M_NOENDED
	known_ended = true
#else
	known_answered[0] = 0;
	known_answered[NS - 1] = 0
#endif
}

/* What the log up to @applied makes of key @i, and of the client. */
inline check_key() {
	expect = 0;
	j = 1;
	do
	:: j <= applied ->
		if
		:: kind[j] == PUT && key[j] == i -> expect = j
		:: kind[j] == DEL && key[j] == i -> expect = 0
		:: else
		fi;
		j++
	:: else -> break
	od;
	assert(mine[i] == expect)
}

inline check_client(n) {
	expect = 0;
	ok = 1;
	j = 1;
	do
	:: j <= applied ->
		if
		:: kind[j] == PUT && slot[j] == n -> expect = seq[j]
		:: kind[j] == END -> ok = 0
		:: else
		fi;
		j++
	:: else -> break
	od;
	assert(known_there == ok);
	assert(!ok || known_answered[n] == expect)
}

active proctype primary() {
	byte m, n;
	bool first;

end:	do
	:: atomic { tail < NO ->                /* decide, append */
		tail++;
		if
		:: key[tail] = 0
		:: NK > 1 -> key[tail] = NK - 1
		fi;
		if
		:: !ended && asked[0] == answered[0] -> kind[tail] = PUT
		:: !ended && asked[NS - 1] == answered[NS - 1] -> kind[tail] = PUT; slot[tail] = NS - 1
		:: kind[tail] = DEL
		:: !ended -> kind[tail] = END; key[tail] = 0; ended = true
		fi;
		if
		:: kind[tail] == PUT -> asked[slot[tail]]++; seq[tail] = asked[slot[tail]]
		:: else
		fi }
	:: d_step { committed < tail && (!insync || whole > committed) -> committed++ }
	:: atomic { committed > 0 ->            /* publish one, the first of its key */
		n = 1;
		do
		:: n <= committed && !published[n] ->
			first = true;
			m = 1;
			do
			:: m < n ->
				first = first && (published[m] ||
					    (kind[n] != END && kind[m] != END && key[m] != key[n]));
				m++
			:: else -> break
			od;
			if
			:: first -> break
			:: n++
			fi
		:: n <= committed && published[n] -> n++
		:: n > committed -> n = 0; break
		od;
		if
		:: n > 0 && first ->
			published[n] = true;
			if
			:: kind[n] == PUT -> table[key[n]] = n; answered[slot[n]] = seq[n]
			:: kind[n] == DEL -> table[key[n]] = 0
			:: kind[n] == END -> there = false
			fi
		:: else
		fi;
		n = 0; m = 0; first = false }
	od
}

active proctype ring() {
end:	do
	:: d_step { !mirrors -> mirrors = true; l0 = tail; whole = tail; applied = tail }
	:: d_step { mirrors && whole < tail -> whole++ }
	:: d_step { mirrors && known < committed && known < whole -> known = committed;
		if
		:: known > whole -> known = whole
		:: else
		fi }
	od
}

active proctype learner() {
end:	do
	:: d_step { mirrors && applied < known -> /* the next record */
		applied++;
		if
		:: kind[applied] == PUT -> apply_put(applied)
		:: kind[applied] == DEL -> apply_del(applied)
		:: kind[applied] == END -> apply_end()
		fi }
	/* the walk */
#ifndef M_WALKFIRST
	:: d_step { cursor < NK && !read && mirrors ->
#else
	:: d_step { cursor < NK && !read ->
#endif
#if defined(M_WALKEARLY) || defined(M_WALKFIRST)
		ok = 1;
#elif defined(M_WALKCOMMIT)
		ok = committed >= l0;
#else
		is_published(l0);
#endif
		if
		:: ok ->
			brought = table[cursor];
			read = true;
#ifdef M_TOMBEARLY
			if
			:: cursor == NK - 1 -> forget_tombs()
			:: else
			fi
#endif
		:: else
		fi }
	:: d_step { read ->
		if
#ifndef M_BLIND
		:: brought > mine[cursor] && brought > tomb[cursor] -> store(cursor, brought)
		:: else
#else
		:: brought > 0 -> store(cursor, brought)
		:: else
#endif
		fi;
		read = false;
		brought = 0;
		cursor++;
		if
		:: cursor == NK -> forget_tombs()
		:: else
		fi }
	/* the table of clients */
#ifndef M_NOCLIENTS
	:: d_step { mirrors && !asks ->
#ifdef M_CLIENTFIRST
		ok = 1;
#else
		is_published(l0);
#endif
		if
		:: ok -> asks = true; came_there = there;
			j = 0;
			do
			:: j < NS -> came_answered[j] = answered[j]; j++
			:: else -> break
			od
		:: else
		fi }
	:: d_step { asks && !has_clients ->
		has_clients = true;
		if
#ifdef M_CLIENTBLIND
		:: came_there ->
#else
		:: came_there && !known_ended ->
#endif
			known_there = true;
			j = 0;
			do
			:: j < NS && NEWER(came_answered[j], known_answered[j]) ->
				known_answered[j] = came_answered[j];
				j++
			:: j < NS && !NEWER(came_answered[j], known_answered[j]) -> j++
			:: j == NS -> break
			od
		:: else
		fi }
#endif
	/* in sync */
	:: d_step { mirrors && !insync &&
#ifndef M_JOINWALK
		cursor == NK && !read &&
#endif
#ifndef M_NOCLIENTS
		has_clients &&
#endif
#ifndef M_JOINEARLY
		whole >= committed
#else
		true
#endif
		-> insync = true }
	:: d_step { insync && applied < whole && known < whole -> known = whole } /* it takes over */
	:: d_step { insync && applied == whole && applied >= committed ->
		i = 0;
		do
		:: i < NK -> check_key(); i++
		:: else -> break
		od;
		check_client(0);
		check_client(NS - 1);
		i = 0; j = 0; expect = 0; ok = 0 }
#ifdef M_JOINEARLY
	:: d_step { insync -> assert(whole >= committed) }
#endif
	od
}
