/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A ring that one server WRITEs the log into, and another takes it out of, over several laps. How to
 * run: README.md.
 *
 * MODELLED. A ring of R cells; the cell of position P stands at P modulo R. Records of one or two
 * cells: a head, which says position and length, and perhaps a body, whose bytes are a client's and
 * may look like the head that the next lap will have there (`forged`). The cells of all WRITEs that
 * are posted land in any order; a WRITE completes when all of its cells have landed. The primary
 * posts a record when it has room, by what the backup has said that it has taken. The backup looks
 * for the record at the position that is next, copies it out cell by cell, and verifies the copy:
 * each cell is of that record. Then it says so, later, by one word.
 * The checksum of a record is modelled as what it detects: cells that are of different records, or
 * of none. It is seeded with a random key of the ring, so what a client sent is never right.
 *
 * CHECKED. Records are taken in order, each whole; no cell is overwritten of a record that has not
 * been taken: so what has completed is there, whole, for one who takes over.
 *
 * MUTANTS
 *	M_NOFLOW	the primary does not ask what was taken
 *	M_FREEEARLY	the backup says "taken" when it has seen a head
 *	M_NOPOS		a record's position is not compared: one of an earlier lap is taken again
 *	M_NOSEED	the checksum has no seed, so a client's bytes may be a record
 *	M_HEADONLY	the head is verified, not the body
 *
 * What is not asked: that a record is copied out before it is verified. An honest primary does not
 * write there again before it was told; one that was deposed has lost the ring before anybody looks.
 */
#ifndef R
#define R 3
#endif
#ifndef NREC
#define NREC 4
#endif
#define NPARTS 2

byte start[NREC + 1], size[NREC + 1], landed[NREC + 1]; /* landed: bits */
bool forged[NREC + 1];
byte posted, behind;       /* last record; position behind it */

/* A cell: record and part. */
byte rec[R], part[R];

byte next, freed;       /* the backup's; what the primary knows of it */
byte taken;             /* last record that was taken */

byte copy_of[NPARTS], copy_part[NPARTS], copied, want, head; /* the backup's copy */
bool looking = true;

byte c, i, o;
byte ok;

#define CELL(p) ((p) % R)

#ifdef M_NOPOS
#define DUE(c, p) true
#else
#define DUE(c, p) (start[rec[c]] == (p))
#endif

/* Cell @c looks like the head of the record at position @p. */
#ifdef M_NOSEED
#define HEAD(c, p) (rec[c] && (part[c] == 0 && DUE(c, p) || \
			       part[c] == 1 && forged[rec[c]] && start[rec[c]] + 1 + R == (p)))
#else
#define HEAD(c, p) (rec[c] && part[c] == 0 && DUE(c, p))
#endif

active proctype primary() {
end:	do
	:: atomic { posted < NREC ->
		i = 1;
		if
		:: i = 2
		:: skip
		fi;
		if
#ifndef M_NOFLOW
		:: behind + i - freed <= R ->
#else
		:: true ->
#endif
			posted++;
			start[posted] = behind;
			size[posted] = i;
			behind = behind + i;
			if
			:: i == 2 -> forged[posted] = true
			:: true
			fi
		:: else
		fi;
		i = 0 }
	od
}

/* A cell of some WRITE lands. */
active proctype nic() {
end:	do
	:: atomic { posted > 0 ->
		o = 0;
		i = 0;
		if
		:: o = 1
		:: posted > 1 -> o = 2
		:: posted > 2 -> o = 3
		:: posted > 3 -> o = 4
		:: posted > 4 -> o = 5
		fi;
		if
		:: i = 0
		:: size[o] > 1 -> i = 1
		fi;
		if
		:: !((landed[o] >> i) & 1) ->
			c = CELL(start[o] + i);
			assert(rec[c] == 0 || rec[c] <= taken); /* nothing is overwritten that was not taken */
			rec[c] = o;
			part[c] = i;
			landed[o] = landed[o] | (1 << i)
		:: else
		fi;
		c = 0; o = 0; i = 0 }
	od
}

active proctype backup() {
end:	do
	:: d_step { looking ->                  /* a head? */
		c = CELL(next);
		if
		:: HEAD(c, next) ->
			looking = false;
			copied = 0;
			head = rec[c];
			want = size[head];
#ifdef M_NOSEED
			if
			:: part[c] == 1 -> want = 1
			:: else
			fi;
#endif
#ifdef M_FREEEARLY
			if
			:: next + want > freed -> freed = next + want
			:: else
			fi
#endif
		:: else
		fi;
		c = 0; ok = 0 }
	:: d_step { !looking && copied < want -> /* copy a cell */
		c = CELL(next + copied);
		copy_of[copied] = rec[c];
		copy_part[copied] = part[c];
		copied++;
		c = 0 }
	:: d_step { !looking && copied == want -> /* verify the copy, and take it */
		ok = 1;
		i = 0;
		do
		:: i < want ->
#if defined(M_HEADONLY)
			ok = ok && (i > 0 || (copy_of[i] == head && copy_part[i] == i));
#elif defined(M_NOSEED)
			ok = ok && copy_of[i] == head;
#else
			ok = ok && copy_of[i] == head && copy_part[i] == i;
#endif
			i++
		:: else -> break
		od;
		if
		:: ok ->
			assert(head == taken + 1);      /* the next one */
			assert(start[head] == next && size[head] == want);
			i = 0;
			do
			:: i < want -> assert(copy_of[i] == head && copy_part[i] == i); i++
			:: else -> break
			od;
			taken = head;
			next = next + want
		:: else
		fi;
		looking = true;
		copied = 0; want = 0; head = 0; i = 0; ok = 0;
		copy_of[0] = 0; copy_of[1] = 0; copy_part[0] = 0; copy_part[1] = 0 }
	:: d_step { freed < next -> freed = next } /* it says so */
	od
}
