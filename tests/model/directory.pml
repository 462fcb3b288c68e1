/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Directories that double, halve and are reused, under clients that cache them (DESIGN 2 to 4;
 * client/src/know/directory.c, lookup.c) and local readers (server/index/lookup.c). How to run: README.md.
 *
 * MODELLED. One key, any of four hashes, never written: it is in the table all the time. The server
 * doubles the directory, splits 0 into 00 and 01, merges them, halves the directory, doubles it
 * again, splits 1, into memory that was 0's and 01's. DIR memory is nine words:
 *	1  depth 1  words 0..2		2  depth 2  words 4..8
 *	3  depth 1  words 0..2, where 1 was: same place, same depth
 *	4  depth 2  words 3..7, over 2: each entry stands where another's was, an entry where
 *	   the header was; and the lowest word is the last that is written.
 * Root's descriptor is four words, written one by one and READ in either direction: it may be torn.
 * A grace period is exact: memory is reused when the sections that were open at its retirement are
 * closed. A remote reader looks the key up by its cached entry, refreshes by a chain of three READs
 * in any order, loads by descriptor, entry, header. Entries of other keys are like the key's own,
 * so it alone is fetched, at any moment between the two. A GET may begin with a refresh or a load:
 * another key, another handle, or a new client. A worker takes pointer, entry, MOVED, slot.
 * Not modelled: writes (chain.pml, split.pml), two refreshes into one shared cache, ARM's ordering.
 *
 * CHECKED. No false miss: a bucket that is accepted has the key. Whole: a directory that is loaded
 * holds its own entries (ghost tag). Same: an entry is the cached directory's own where the
 * descriptor says that this still is the directory.
 *
 * MUTANTS (with -DLOCALS=0: remote reader; with -DREMOTE=0: worker)
 *	M_NOPREFIX	remote: the bucket's header is not compared with the hash's prefix
 *	M_NODGP		each: directories reused without a grace period
 *	M_RETIREFIRST	each: a directory retired before root names the next one
 *	M_ENTRYEARLY	each: a segment entered into the directory before it is built
 *	M_DESCRIBEEARLY	remote: root names a directory before it is built
 * Broken grace period (V_NODGP, remote): self-verification alone keeps directories whole, unless
 *	M_HEADERFIRST	the header is READ before the entries instead of last
 *	M_NODIRINC	the header's incarnation is not compared
 *	V_NODIRHEADER	the header is not looked at
 *	M_INVALIDLATE	memory is rewritten before the headers that stand in it are cleared
 * With the grace period each of the first three is redundant: a sound descriptor names a directory
 * that was current inside this section. The fourth is needed without the grace period alone.
 *	M_NODIRSUM	a torn descriptor is believed: found with V_NODIRHEADER only. The header
 *			refuses every mixture of two descriptors.
 *
 * FOUND
 * 1. False misses are kept out by the bucket's header alone: with V_NODIRHEADER, M_NODIRSUM and
 *    V_NODGP at once the directory may hold anything (V_NOWHOLE drops "whole"), and there is no
 *    false miss. That rests on the prefix.
 * 2. The directory's header does NOT vouch for the entry that is READ in one chain with it: header
 *    first, then the memory is reused (the cached directory is of an earlier section, no grace
 *    period protects it), then the entry: another key's. M_NOPREFIX is this. It would take
 *    V_STRICT, an entry counts only where the descriptor is sound and names the cached directory,
 *    to do without the prefix.
 * 3. A worker needs neither prefix nor incarnation, and not even MOVED (V_BLIND): pointer, entry and
 *    bucket are one read-side section.
 * 4. What M_INVALIDLATE breaks stands in the server by two habits: a directory is put at the start of a
 *    gap (server/memory/directories.c), and its entries are written upwards (server/index/
 *    directory.c), so the header of what stood there goes before its entries.
 *
 * STATES  -DLOCALS=0 1.0 M, with V_NODGP 4.8 M; -DREMOTE=0 under 0.1 M; -DGETS=1, both readers, 16 M.
 */
#ifndef REMOTE
#define REMOTE 1
#endif
#ifndef LOCALS
#define LOCALS 1
#endif
#ifndef GETS
#define GETS 2
#endif
#ifndef TRIES
#define TRIES 3
#endif
#ifndef LOADS
#define LOADS 2
#endif
#define BIT(c) (1 << (c))

/* Words of DIR memory: 0; an entry; a directory's header. */
#define ENTRY(s, i, d) ((s) | (i) << 3 | (d) << 5)	/* i counts from 1: never 0 */
#define SEG(e) ((e) & 7)
#define SINC(e) ((e) >> 3 & 3)
#define DEPTH(e) ((e) >> 5 & 3)
#define HEADER(i, d) (128 | (d) << 4 | (i))
#define IS_HEADER(w) ((w) >= 128)

/* Directory i, counted from 1: where it stands and how deep it is. */
#define AT(i) ((i) == 2 -> 4 : ((i) == 4 -> 3 : 0))
#define DEEP(i) (2 - ((i) & 1))
#define WORDS 9

byte dm[WORDS];			/* DIR memory */
byte tag[WORDS];		/* ghost: the directory that wrote the word */
byte rdepth, rat, rinc, rsum;	/* root's descriptor; what rsum is a checksum of */
byte cur;			/* the server's own pointer to the directory */

/* Segments: header (one word), and whether the slot of the key that is looked for is there. */
byte sinc[5], sdepth[5], sprefix[5];
bool smoved[5], has[5];
byte key;			/* its hash: two bits */
byte open, dhold[5], shold[5];

#define PREFIX(d) (key >> (2 - (d)))
#define INDEX(d) PREFIX(d)

inline open_section() { open = open | BIT(c) }
inline close_section()
{
	open = open & ~BIT(c);
	dhold[1] = dhold[1] & ~BIT(c); dhold[2] = dhold[2] & ~BIT(c);
	dhold[3] = dhold[3] & ~BIT(c); dhold[4] = dhold[4] & ~BIT(c);
	shold[0] = shold[0] & ~BIT(c); shold[1] = shold[1] & ~BIT(c);
	shold[2] = shold[2] & ~BIT(c); shold[3] = shold[3] & ~BIT(c);
	shold[4] = shold[4] & ~BIT(c)
}

inline get_header(s) { hi = sinc[s]; hd = sdepth[s]; hp = sprefix[s]; mv = smoved[s] }

#ifdef M_NOPREFIX
#define FITS (!mv && hi == SINC(e) && hd == DEPTH(e))
#else
#define FITS (!mv && hi == SINC(e) && hd == DEPTH(e) && hp == PREFIX(hd))
#endif

#ifdef V_NODIRHEADER
#define HEADER_SOUND(h, i, d) true
#elif defined(M_NODIRINC)
#define HEADER_SOUND(h, i, d) (IS_HEADER(h) && ((h) >> 4 & 3) == (d))
#else
#define HEADER_SOUND(h, i, d) ((h) == HEADER(i, d))
#endif

#ifdef M_NODIRSUM
#define DESCRIPTOR_SOUND true
#else
#define DESCRIPTOR_SOUND (qd == DEEP(qs) && qa == AT(qs) && qi == qs)
#endif

inline get_descriptor()		/* it may be torn */
{
	if
	:: qd = rdepth; qa = rat; qi = rinc; qs = rsum
	:: qs = rsum; qi = rinc; qa = rat; qd = rdepth
	fi
}

proctype remote(byte c)
{
	/* the cached directory, and its entry of the key */
	byte ci = 1, e = ENTRY(key >> 1, 1, 1);
	byte n, t, m, got, w, wt, h, qd, qa, qi, qs, hi, hd, hp;
	bool mv, k;

	do
	:: n >= GETS -> break
	:: n < GETS ->
		n++;
		open_section();
		/* A new client loads first; and another key may have found the directory stale. */
		if :: true :: goto refresh :: goto load fi;
again:		atomic {
			t++; w = 0; wt = 0; h = 0; got = 0; m = 0; qd = 0; qa = 0; qi = 0; qs = 0;
			hi = 0; hd = 0; hp = 0; mv = false; k = false;
			if :: t > TRIES -> goto done :: else fi
		};
		if :: e == 0 || IS_HEADER(e) -> goto refresh :: else fi;
		if
		:: atomic { get_header(SEG(e)) }; k = has[SEG(e)]
		:: k = has[SEG(e)]; atomic { get_header(SEG(e)) }
		fi;
		if
		:: FITS -> assert(k); goto done		/* no false miss */
		:: else
		fi;
refresh:	/* one chain of three READs, in any order */
		do
		:: (got & 1) == 0 ->
			atomic { w = dm[AT(ci) + 1 + INDEX(DEEP(ci))];
				 wt = tag[AT(ci) + 1 + INDEX(DEEP(ci))]; got = got | 1 }
		:: (got & 2) == 0 -> atomic { h = dm[AT(ci)]; got = got | 2 }
		:: (got & 4) == 0 -> get_descriptor(); got = got | 4
		:: got == 7 -> break
		od;
		if
		:: HEADER_SOUND(h, ci, DEEP(ci)) ->
			if
#ifdef V_STRICT
			:: w > 0 && DESCRIPTOR_SOUND && qi == ci -> e = w
#else
			:: w > 0 -> e = w
#endif
			:: else
			fi;
			if
			:: DESCRIPTOR_SOUND && qi == ci ->
#ifndef V_NODGP
				assert(wt == ci);	/* the same directory: the entry was its own */
#endif
				goto again
			:: !(DESCRIPTOR_SOUND) -> goto again
			:: else
			fi
		:: else
		fi;
load:		atomic {
			m++; got = 0; w = 0; wt = 0; h = 0; qd = 0; qa = 0; qi = 0; qs = 0;
			if :: m > LOADS -> goto done :: else fi
		};
		get_descriptor();
		if :: !(DESCRIPTOR_SOUND) -> goto load :: else fi;
#ifdef M_HEADERFIRST
		h = dm[qa];
#endif
		atomic { w = dm[qa + 1 + INDEX(qd)]; wt = tag[qa + 1 + INDEX(qd)] };
#ifndef M_HEADERFIRST
		h = dm[qa];
#endif
		if
		:: HEADER_SOUND(h, qi, qd) ->
#ifndef V_NOWHOLE
			assert(wt == qi);		/* a directory that is loaded is whole */
#endif
			atomic { ci = qi; e = w; goto again }
		:: else -> goto load
		fi;
done:		atomic {
			close_section();
			t = 0; w = 0; wt = 0; h = 0; got = 0; m = 0; qd = 0; qa = 0; qi = 0; qs = 0;
			hi = 0; hd = 0; hp = 0; mv = false; k = false
		}
	od
}

/* A worker: it begins at the server's own pointer, and checks MOVED alone. */
proctype worker(byte c)
{
	byte n, t, d, e;
	bool mv, k;

	do
	:: n >= GETS -> break
	:: n < GETS ->
		n++;
		open_section();
again:		atomic { t++; e = 0; d = 0; k = false; if :: t > TRIES -> goto done :: else fi };
		d = cur;
		atomic { e = dm[AT(d) + 1 + INDEX(DEEP(d))];
			 assert(tag[AT(d) + 1 + INDEX(DEEP(d))] == d) };
		mv = smoved[SEG(e)];
#ifndef V_BLIND
		if :: mv -> goto again :: else fi;
#endif
		k = has[SEG(e)];
		assert(k);
done:		atomic { close_section(); t = 0; e = 0; d = 0; mv = false; k = false }
	od
}

/* Directory i in place of i - 1. Entry x of it comes from that of the old one. */
inline replace_directory(i)
{
#if !defined(M_NODGP) && !defined(V_NODGP)
	if :: i == 3 -> dhold[1] == 0 :: i == 4 -> dhold[2] == 0; dhold[3] == 0 :: else fi;
#endif
#ifndef M_INVALIDLATE
	/* what is left of the headers of those that stood there goes first */
	if
	:: i == 3 -> dm[AT(1)] = 0
	:: i == 4 -> dm[AT(2)] = 0
	:: else
	fi;
#endif
#ifdef M_RETIREFIRST
	dhold[i - 1] = open;
#endif
#ifdef M_DESCRIBEEARLY
	describe(i);
#endif
	x = 1 << DEEP(i);		/* in the order that leaves the lowest word for the end */
	do
	:: x > 0 ->
		atomic {
			x--;
			if
			:: DEEP(i) > DEEP(i - 1) -> y = dm[AT(i - 1) + 1 + x / 2]
			:: else -> y = dm[AT(i - 1) + 1 + x * 2]
			fi;
			dm[AT(i) + 1 + x] = y; tag[AT(i) + 1 + x] = i; y = 0
		}
	:: else -> break
	od;
	atomic { dm[AT(i)] = HEADER(i, DEEP(i)); tag[AT(i)] = i };
#ifndef M_DESCRIBEEARLY
	describe(i);
#endif
#ifndef M_RETIREFIRST
	dhold[i - 1] = open
#endif
}

inline describe(i)
{
	rdepth = DEEP(i);
	rat = AT(i);
	rinc = i;
	rsum = i;
	cur = i
}

inline build_segment(s, prefix, depth)
{
	shold[s] == 0;
	atomic { sinc[s] = sinc[s] + 1; smoved[s] = false; sdepth[s] = depth; sprefix[s] = prefix;
		 has[s] = false };
	has[s] = (key >> (2 - depth)) == prefix
}

inline set_entry(i, x, s)
{
	atomic { dm[AT(i) + 1 + (x)] = ENTRY(s, sinc[s], sdepth[s]); tag[AT(i) + 1 + (x)] = i }
}

proctype server()
{
	byte x, y;

	/* The directory doubles; segment 0 is split into 2 and 3. */
	replace_directory(2);
#ifdef M_ENTRYEARLY
	atomic { dm[AT(2) + 1] = ENTRY(2, 1, 2); tag[AT(2) + 1] = 2;
		 dm[AT(2) + 2] = ENTRY(3, 1, 2); tag[AT(2) + 2] = 2 };
#endif
	build_segment(2, 0, 2); build_segment(3, 1, 2);
	set_entry(2, 0, 2); set_entry(2, 1, 3);
	smoved[0] = true; shold[0] = open;
	/* They are merged again into 4. The directory halves. */
	build_segment(4, 0, 1);
	set_entry(2, 0, 4); set_entry(2, 1, 4);
	smoved[2] = true; shold[2] = open;
	smoved[3] = true; shold[3] = open;
	replace_directory(3);
	/* It doubles once more, at another place, and the other half is split, into
	 * memory that was the first half's. */
	replace_directory(4);
	build_segment(0, 2, 2); build_segment(2, 3, 2);
	set_entry(4, 2, 0); set_entry(4, 3, 2);
	smoved[1] = true; shold[1] = open
}

init
{
	atomic {
		byte i = 0;

		if :: key = 0 :: key = 1 :: key = 2 :: key = 3 fi;
		sinc[0] = 1; sdepth[0] = 1; sprefix[0] = 0; has[0] = key < 2;
		sinc[1] = 1; sdepth[1] = 1; sprefix[1] = 1; has[1] = key >= 2;
		dm[0] = HEADER(1, 1); dm[1] = ENTRY(0, 1, 1); dm[2] = ENTRY(1, 1, 1);
		tag[0] = 1; tag[1] = 1; tag[2] = 1;
		rdepth = 1; rat = AT(1); rinc = 1; rsum = 1; cur = 1;
		run server();
		do :: i < REMOTE -> run remote(i); i++ :: else -> break od;
		do :: i < REMOTE + LOCALS -> run worker(i); i++ :: else -> break od
	}
}
