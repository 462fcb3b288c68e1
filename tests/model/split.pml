/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* split.pml: segment split against one-sided readers with a cached directory (DESIGN 2, 3, 4).
 * run:  spin -a [-D...] split.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m500000 -w27
 * One key K.  Bucket = half A {header(inc,moved), slot 0} + half B {slot 1}; a READ fetches A,B or B,A.
 * Operation n (PUT/DEL/insert) writes block n; blocks are not reused here (rqsbr.pml has that).
 * Segment memory 0 -> split into 1 -> (grace period) -> memory 0 rebuilt as the next home of K.
 * Checked: a hit is no older than the floor (acked or returned before the GET began), a miss needs a
 * delete at or after the floor.  No -D: mended rule (MOVED before any write is APPLIED): no error.
 *   M_ACKRULE   the first draft's rule: MOVED only before the ACK of writes in the new segment -> fails
 *               (quickest: -DM_ACKRULE -DOPS=2 -DSPLITS=1 -DGETS=1; needs NR=2)
 *   M_MOVEDLATE MOVED after such an ack            M_NOMOVED  never marked                      -> fails
 *   M_NOSINC    no segment incarnation in the header check, memory reused                       -> fails
 *   M_NOSGP     segment memory reused without a grace period (header half fetched first)        -> fails
 *   M_PUBFIRST  publish (or clear) before OBSOLETE; a reader with a hint                        -> fails
 *   M_KEYMOVES  the writer moves a live key between slots of a bucket                           -> fails
 * Exhaustive: -DGETS=1 (95.5M states, 4.3 GB) and -DOPS=2 -DSPLITS=1 (35.5M); defaults need -DBITSTATE.
 *   V_NOHDRLAST / V_NOHDRFIRST restrict the order of the halves                                           */
#ifndef NR
#define NR 2
#endif
#ifndef GETS
#define GETS 2
#endif
#ifndef OPS
#define OPS 3
#endif
#ifndef SPLITS
#define SPLITS 2
#endif
byte hinc[2]; bool moved[2]; byte s0[2], s1[2];        /* two segments' worth of memory */
byte dseg=0, dinc=1;                                   /* directory entry (one 8-byte word) */
byte E=1, pin[NR];                                     /* announcing: abstracted, see pin.pml */
bool obs[OPS+2], del[OPS+2]; bool wl=false, splitting=false;
byte floor=0, started=0;                               /* ghosts */

inline ret(n){ if :: n>floor -> floor=n :: else fi }

proctype reader(byte c){
  byte cs=0, ci=1, f, hi, a, b, n=0, t, hint=0, x; bool mv, ob;
  do
  :: n>=GETS -> break
  :: n<GETS -> n++; t=0;
     atomic{ pin[c]=E; f=floor }                       /* open the section; the GET begins */
     if :: atomic{ cs=dseg; ci=dinc } :: true fi;      /* the process may have refreshed it (new client, other key) */
     if :: hint>0 -> atomic{ if :: !obs[hint] -> assert(hint>=f); ret(hint); goto done
                                :: else -> hint=0 fi }
        :: true fi;
again: t++;
     if :: t>3 -> goto done :: else fi;                /* bounded; then RPC */
     if
#ifndef V_NOHDRFIRST
     :: atomic{ hi=hinc[cs]; mv=moved[cs]; a=s0[cs] }; b=s1[cs]
#endif
#ifndef V_NOHDRLAST
     :: b=s1[cs]; atomic{ hi=hinc[cs]; mv=moved[cs]; a=s0[cs] }
#endif
     fi;
#ifdef M_NOSINC
     if :: mv ->
#else
     if :: mv || hi!=ci ->
#endif
           atomic{ cs=dseg; ci=dinc; a=0; b=0; mv=false; hi=0 }; goto again   /* refresh the directory */
        :: else fi;
     atomic{ ob=false; hi=0;
       if :: a==0 && b==0 ->                           /* miss */
             x=f; do :: x<=started && !del[x] -> x++ :: else -> break od;
             assert(x<=started);                       /* absent at some moment of this GET */
             ret(x); x=0; goto done
          :: else fi }
     if :: a>0 -> atomic{ if :: !obs[a] -> assert(a>=f); ret(a); hint=a; goto done
                             :: else -> ob=true fi } :: else fi;
     if :: b>0 -> atomic{ if :: !obs[b] -> assert(b>=f); ret(b); hint=b; goto done
                             :: else -> ob=true fi } :: else fi;
     atomic{ a=0; b=0; ob=false }; goto again;         /* OBSOLETE: back to step 2 */
done: atomic{ pin[c]=0; f=0; a=0; b=0; t=0; hi=0; mv=false; ob=false; x=0 }
  od }

inline lock(){ atomic{ !wl -> wl=true } }

proctype writer(){
  byte k=0, g, old; bool in1;
  do
  :: k>=OPS -> break
  :: k<OPS -> k++;
     lock();
     atomic{ g=dseg; old=s0[g]; in1=false; if :: s1[g]>0 -> old=s1[g]; in1=true :: else fi; }
     if
     :: old>0 ->                                       /* PUT over a live key */
        started=k;
#ifdef M_PUBFIRST
        if :: in1 -> s1[g]=k :: else -> s0[g]=k fi; obs[old]=true
#else
        obs[old]=true; if :: in1 -> s1[g]=k :: else -> s0[g]=k fi
#endif
#ifdef M_KEYMOVES
     :: old>0 -> started=k; obs[old]=true;
        if :: in1 -> s0[g]=k; s1[g]=0 :: else -> s1[g]=k; s0[g]=0 fi
#endif
     :: old>0 ->                                       /* DELETE */
        atomic{ started=k; del[k]=true };
#ifdef M_PUBFIRST
        if :: in1 -> s1[g]=0 :: else -> s0[g]=0 fi; obs[old]=true
#else
        obs[old]=true; if :: in1 -> s1[g]=0 :: else -> s0[g]=0 fi
#endif
     :: old==0 -> started=k; if :: s0[g]=k :: s1[g]=k fi                      /* insert, either slot */
     fi;
#ifdef M_ACKRULE
     !splitting;                                       /* DESIGN: MOVED before the ack */
#endif
     atomic{ ret(k); old=0; in1=false; g=0; wl=false } /* ack; unlock */
  od }

proctype splitter(){
  byte k=0, o=0, d, r, i;
  do
  :: k>=SPLITS -> break
  :: k<SPLITS -> k++; d=1-o;
     lock();
     atomic{ splitting=true; hinc[d]=k+1; moved[d]=false; s0[d]=0; s1[d]=0 }  /* being built: unpublished */
     s0[d]=s0[o]; s1[d]=s1[o];                         /* copy */
     atomic{ dseg=d; dinc=k+1 }                        /* publish in the directory */
#if defined(M_ACKRULE) || defined(M_MOVEDLATE) || defined(M_NOMOVED)
     wl=false;
#endif
#ifndef M_NOMOVED
     moved[o]=true;
#endif
     splitting=false;
#if !defined(M_ACKRULE) && !defined(M_MOVEDLATE) && !defined(M_NOMOVED)
     wl=false;
#endif
     atomic{ r=E; E=r+1; i=0 }                         /* retire the old segment */
#ifndef M_NOSGP
     do :: i<NR -> atomic{ (pin[i]==0 || pin[i]>r) -> i++ } :: else -> break od;
#endif
     atomic{ o=d; r=0; i=0; d=0 }
  od }

init{ atomic{ byte i=0; hinc[0]=1; del[0]=true;        /* op 0: absent */
  run writer(); run splitter();
  do :: i<NR -> run reader(i); i++ :: else -> break od } }
