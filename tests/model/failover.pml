/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* failover.pml: fail-over of a group (docs/internals/replication.md: the section numbers below are its own). Replication into rings by
 * one-sided WRITE, etcd as a compare-and-swap register whose transactions and replies may be late, take-over, leases with time,
 * one-sided readers of one key.
 * run:  spin -a [-D...] failover.pml && gcc -O2 -DSAFETY -DCOLLAPSE -DNOREDUCE -o pan pan.c && ./pan -E -m3000000 -w26
 *       (-D goes to spin; -E: states without a next step are no error; without COLLAPSE more memory, less time)
 * Nothing has a latest time: a server, NIC, message, transaction or reply may stand still for any number of ticks, so SIGSTOP, CONT
 * and partitions need no steps of their own. Time is kept as time left, and has no end. Merged, since the merged step is the worst case:
 * beat and answer at one instant (s = g), a read's begin and its READ, revoke and sending of the transaction, T word never
 * lowered, a client's estimate of the server's clock exact (SAMPLE: really estimated). A writer's request waits at every server from the
 * start, so retries come in any order. Asserted: what is committed stays (hist), an operation is in it once, only
 * the newest opened primary extends it, a new primary opens with all of it, a read returns a committed version, at least the newest
 * acknowledged or returned before it began; RESTART: versions never repeat.
 * Variants: NS servers (2), NW writes (1), NR readers (1), LEASE ticks (2), MAXT terms (3), NC kills (1), INIT mask in sync (all),
 *   LEARN learners join, REJOIN deposed primaries come back as learners, SWITCH planned switch, RPC reads by RPC, NOREMOVE no removals,
 *   SAMPLE clock estimate (ASSERTD: it is never behind), RESTART kill and come back with nothing, PERSIST with the log,
 *   V_BLINDJOIN a primary mirrors to a learner that has not learned the term.
 * No error (states, time with COLLAPSE): S2 49 K, S2 -DRESTART -DPERSIST -DINIT=1 -DNC=2 0.6 M, 2 s; S3 0.6 M, 4 s; -DNS=3 -DMAXT=3 1.0 M, 7 s;
 *   -DSAMPLE -DASSERTD -DLEASE=1 -DMAXT=3 1.8 M, 31 s; -DLEARN -DREJOIN -DRESTART -DMAXT=4 -DNC=2 -DNW=2 9.3 M, 50 s;
 *   -DNW=2 -DNR=2 -DLEARN -DREJOIN -DSWITCH -DMAXT=5 10.0 M, 77 s; -DNS=3 -DLEASE=1 -DMAXT=4 -DLEARN -DREJOIN -DSWITCH 11.3 M, 101 s, 3 GB, -DNS=3 -DNW=2 -DLEASE=1 -DMAXT=3 -DNC=0 10.7 M, 113 s
 * Rules as mended; a draft of the design failed where a mutant says (draft). Mutants, S2 = -DLEARN -DREJOIN -DMAXT=4, S3 = -DNS=3 -DLEASE=1 -DMAXT=3:
 *  2    M_PUBEARLY    publishes before commit                               S2
 *       M_ONEBACKUP   commits with one backup's completion                  S3 -DNW=2
 *       M_REMCOMMIT   commits without a member before its removal succeeded S2
 *       M_PENDCOMMIT  (draft) member being added counts for T, not for commits       S2 -DINIT=1
 *       M_ADDEARLY    adds a learner that lacks committed records           S2 -DINIT=1
 *       M_APPLYEARLY  backup applies what is not committed                  S3 -DNC=0 -DNOREMOVE
 *       M_DEDUP       retry judged against published records only           S2 -DNW=2
 *  3.1  M_SLATE       s noted when the answer comes                         S2
 *       M_SHORT       backup waits a tick less (no drift allowance)         S2
 *  3.2  M_TMAX        T is the greatest grant                               S3 -DNW=2
 *       M_PENDT       member being added not counted until it is known in   S2, S2 -DINIT=1
 *       M_REMT        member being removed not counted from the sending     S2
 *       M_READFAIL    a read of etcd that shows the old term taken as "it failed"   S2 -DINIT=1
 *       M_LONEORDER   alone: looks whether it is alone, then notes now      S2 -DINIT=1
 *  3.3  M_ONECHANGE   (draft) one change of c is enough                      -DSAMPLE -DLEASE=1 -DNC=0 -DMAXT=2
 *       M_PAFTER      p is the time of the completion, not of the post      same
 *  3.4  M_CHECKBEFORE check before the READ;  M_NOCHECK none                S2
 *  3.5  M_NOCHECK -DRPC  RPC reads without T;  M_RPCORDER -DRPC  T checked, then value read   S2
 *       M_ACKNOT      acknowledges writes without T                         not caught: redundant
 *  4    M_NOLEARNED   timer counts from the last beat only                  S2, S2 -DINIT=1
 *       M_LEARNONCE   only from the first time it learned that it is in sync   S2 -DV_BLINDJOIN (without it not caught)
 *  4.1  M_NOREVOKE, M_SCANFIRST (scan, then revoke)                         S2
 *       M_REBEAT      answers beats of the term after revoking              S2
 *       M_OLDBEAT     primary answers beats of an older term, S2;  M_OLDBEATF  a backup of a newer term does: not caught, redundant
 *  4.2  M_NOTERM      transaction looks only at "in sync"                   S3 -DMAXT=4 -DNC=0 (not caught with 2 servers)
 *       M_NOTINSYNC   one who is not in sync takes over;  M_KEEPOLD  old primary stays in sync   S2
 *  4.3  M_CNOREVOKE   the others keep the old ring (S3 -DNW=2);  M_NODROP  and what lies beyond the new primary's end (same)
 *       M_DROPALL    (draft) they drop all beyond their committed position  S3 -DNC=0 -DNOREMOVE
 *  4.4  M_OPENEARLY   answers before all in-sync have its log               S3 -DNC=0 -DNOREMOVE
 *       M_LEASEFIRST  T published before it has applied                     not caught; with M_NODEPFENCE it is (so is that alone)
 *  4.5  M_SWITCHNOFENCE  S2 -DSWITCH -DNW=2;  M_SWITCHPENDING  switches with records pending: not caught, 4.3 and 4.4 do it
 *       M_NODEPFENCE  a deposed primary comes back, sessions not fenced     S2
 *  restart  M_RESTARTSYNC  (draft silent) a killed backup is still in sync   S2 -DRESTART
 *       M_OLDLIFE     (draft silent) etcd names the server's earlier life    -DLEARN -DREJOIN -DRESTART -DMAXT=5 -DNC=2 -DNW=2
 *       M_SAMETERM    (draft) alone, with its log: goes on in the same term  S2 -DRESTART -DPERSIST -DINIT=1
 *       M_NODUR       (draft) alone, with a log that never was said to be whole  same with -DNC=2                     */
#ifndef NS
#define NS 2            /* servers; 0 is the first primary */
#endif
#ifndef NW
#define NW 1            /* writes (each by a client of its own, tried at every server that is open) */
#endif
#ifndef NR
#define NR 1            /* readers */
#endif
#ifndef LEASE
#define LEASE 2
#endif
#ifndef MAXT
#define MAXT 3          /* greatest term */
#endif
#ifndef NC
#define NC 1            /* kills */
#endif
#ifndef INIT
#define INIT ((1<<NS)-1)  /* in sync at the start */
#endif
#ifdef M_SHORT
#define WAIT (LEASE-1)
#else
#define WAIT LEASE      /* what a backup waits, in true time, at least */
#endif
#ifdef M_ONECHANGE
#define KCH 1
#else
#define KCH 2
#endif
#define CAP (2*LEASE+1)
#define NONE 255

#define DEAD 0
#define FOL  1          /* backup or learner */
#define TAK  2          /* has revoked; its transaction is on the way */
#define SYN  3          /* primary by etcd, brings the others to its log */
#define LED  4          /* primary, open */
#define CLO  5          /* closed for a planned switch */
#define SCN  6          /* M_SCANFIRST: scanned, not yet revoked */

#define B(b) (1<<(b))
#define IN(s,b) (((s)>>(b))&1)
#define L(i,b) ((i)*NS+(b))
#define R(i,k) ((i)*NW+(k))
#define OP(r) ((r)&3)
#define VER(r,n) (((r)>>2)*4+(n))       /* version of the record at position n (counted from 1): {term, count} */
#define PEND(i) (ts[i]!=0 && tp[i]==(i))

#if defined(M_PENDT)
#define UT(i) ks[i]
#elif defined(M_REMT)
#define UT(i) (tm[i]*PEND(i)+ks[i]*(1-PEND(i)))
#else
#define UT(i) (ks[i] | tm[i]*PEND(i))    /* whose grants T counts */
#endif
#if defined(M_PENDCOMMIT)
#define UC(i) ks[i]
#elif defined(M_REMCOMMIT)
#define UC(i) (tm[i]*PEND(i)+ks[i]*(1-PEND(i)))
#else
#define UC(i) (ks[i] | tm[i]*PEND(i))    /* whose completions a commit needs */
#endif

byte et=1, ep=0, es=INIT;               /* etcd */
byte ts[NS+1], tt[NS+1], tp[NS+1], tm[NS+1];  /* a transaction on its way: 1 sent, 2 done, 3 refused; NS: of an earlier life */
byte m[NS], kt[NS], kp[NS], ks[NS];     /* mode, known configuration */
byte gd[NS];                            /* backup: time left in which it may not take over */
byte gr[NS*NS];                         /* primary: time left of b's grant, as it knows it */
short tw[NS];                           /* T word of the root page, as time left */
byte ap[NS], ln[NS], lg[NS*NW];        /* applied, log (or ring) */
byte la[NS*NS], qp[NS];                 /* completed at b; who takes this server's WRITEs */
bool rv[NS], lost[NS];
#ifdef M_SCANFIRST
byte sl[NS];
#endif
#ifdef M_LONEORDER
bool al[NS];
#endif
#ifdef M_APPLYEARLY
byte bv[NS];                            /* newest version that the backup applied before commit */
#endif
#ifdef SAMPLE
byte xa[NS]; byte ca[NS];               /* age of the clock value noted; age of the word c */
byte rst[NR], rpa[NR], rsp[NR], re[NR]; /* reader: stores of c since its first READ; age of p; phase; time left by its estimate */
#endif
byte rs[NR], rp[NR], rv_[NR]; bool bad[NR];   /* reader: server+1, phase, value, older than what it must see */
byte crashes=0;
byte flr=0, hist[NW], cur=0; bool acked[NW];  /* ghosts: newest version acknowledged or returned; committed; who may commit */
#ifdef RESTART
byte used[MAXT+1]; bool dur[NS];      /* the disk holds all that was committed, and says so */
#ifdef M_NODUR
#define DUR(i) true
#else
#define DUR(i) dur[i]
#endif
#endif
hidden byte k, k2, x, r_, ok;

inline fence(i){ k=0; do :: k<NR -> if :: rs[k]==i+1 -> rs[k]=0; rp[k]=0; rv_[k]=0; bad[k]=0;
#ifdef SAMPLE
   rst[k]=0; rpa[k]=0; rsp[k]=0; re[k]=0
#endif
   :: else fi; k++ :: else -> break od; skip }
inline unring(b){ k=0; do :: k<NS -> qp[k]=qp[k]&~B(b); k++ :: else -> break od }   /* b destroys queue pairs, deregisters its ring */
inline norow(i){ k=0; do :: k<NS -> la[L(i,k)]=0; gr[L(i,k)]=0; k++ :: else -> break od }
inline nolog(i){ k=0; do :: k<NW -> lg[R(i,k)]=0; k++ :: else -> break od; ln[i]=0; ap[i]=0 }
inline cut(b,n){ k=n; do :: k<NW -> lg[R(b,k)]=0; k++ :: else -> break od; if :: ln[b]>n -> ln[b]=n :: else fi }
inline nosample(i){
#ifdef SAMPLE
  xa[i]=NONE; ca[i]=CAP
#else
  skip
#endif
}
inline gone(i){ fence(i); norow(i); nolog(i); unring(i); qp[i]=0; tw[i]=0; gd[i]=0; rv[i]=0; nosample(i) }
inline know(i){ kt[i]=et; kp[i]=ep; ks[i]=es }
inline depose(i){
#ifdef M_NODEPFENCE
  norow(i); nolog(i); unring(i); qp[i]=0; gd[i]=0; rv[i]=0; nosample(i); know(i); m[i]=FOL
#elif defined(REJOIN)
  gone(i); know(i); m[i]=FOL;
#ifdef RESTART
  dur[i]=false
#endif
#else
  gone(i); kt[i]=0; kp[i]=0; ks[i]=0; m[i]=DEAD
#endif
}
inline commit1(i){                      /* commit and publish the next record */
  r_=lg[R(i,ap[i])];
  if :: hist[ap[i]]==0 -> assert(cur==i);                       /* one server can commit */
        k2=0; do :: k2<ap[i] -> assert(OP(hist[k2])!=OP(r_)); k2++ :: else -> break od;    /* applied at most once */
        hist[ap[i]]=r_
     :: else -> assert(hist[ap[i]]==r_) fi;                     /* nothing committed is lost or changed */
  ap[i]++ }
inline calcT(i){ 
#ifdef M_TMAX
  x=0; ok=false; k=0; do :: k<NS -> if :: k!=i && IN(UT(i),k) -> ok=true; if :: gr[L(i,k)]>x -> x=gr[L(i,k)] :: else fi :: else fi; k++ :: else -> break od;
  if :: !ok -> x=LEASE :: else fi
#else
  x=LEASE; k=0; do :: k<NS -> if :: k!=i && IN(UT(i),k) && gr[L(i,k)]<x -> x=gr[L(i,k)] :: else fi; k++ :: else -> break od
#endif
}
#define HAS(i,b,n) ((b)==(i) || !IN(UC(i),b) || la[L(i,b)]>=(n))
#define ALLHAVE(i,n) (HAS(i,0,n) && HAS(i,1,n) && HAS(i,NS-1,n))
#define ALLQP(i) ((ks[i]&~(qp[i]|B(i)))==0)
#ifdef M_ONEBACKUP
#define CANCOMMIT(i,n) (UC(i)==B(i) || (la[L(i,0)]>=(n) && i!=0 && IN(UC(i),0)) || (la[L(i,1)]>=(n) && i!=1 && IN(UC(i),1)) || (NS>2 && la[L(i,NS-1)]>=(n) && i!=NS-1 && IN(UC(i),NS-1)))
#elif defined(M_PUBEARLY)
#define CANCOMMIT(i,n) true
#else
#define CANCOMMIT(i,n) ALLHAVE(i,n)
#endif

proctype server(byte i){ byte w;
end: do
  /* --- open primary --- */
  :: d_step{ m[i]==LED && ap[i]<ln[i] && CANCOMMIT(i,ap[i]+1) -> commit1(i) }
#ifdef M_LONEORDER
  :: d_step{ m[i]==LED && !al[i] && UT(i)==B(i) -> al[i]=true }
  :: d_step{ m[i]==LED && al[i] -> tw[i]=LEASE; al[i]=false }
#endif
#ifdef M_LEASEFIRST
  :: d_step{ m[i]==SYN -> calcT(i); if :: x>tw[i] -> tw[i]=x :: else fi }
#endif
  :: d_step{ m[i]==LED && (
#ifdef SAMPLE
       xa[i]!=NONE
#else
       true
#endif
       ) -> calcT(i);
#ifdef SAMPLE
       ca[i]=xa[i]; xa[i]=NONE; k=0; do :: k<NR -> if :: rs[k]==i+1 && rst[k]<2 && rsp[k]>0 -> rst[k]++ :: else fi; k++ :: else -> break od;
#endif
       if :: x>tw[i] -> tw[i]=x :: else fi }
#ifdef SAMPLE
  :: d_step{ m[i]==LED && xa[i]==NONE -> xa[i]=0 }               /* control thread notes its clock; may be stopped before it stores it */
#endif
  /* --- take-over --- */
#ifdef M_SCANFIRST
  :: d_step{ m[i]==FOL && gd[i]==0 && IN(ks[i],i) && kp[i]!=i && !rv[i] && ts[i]==0 && kt[i]<MAXT -> sl[i]=ln[i]; m[i]=SCN }
  :: d_step{ m[i]==SCN -> cut(i,sl[i]); sl[i]=0;
#else
  :: d_step{ m[i]==FOL && gd[i]==0 && kp[i]!=i && !rv[i] && ts[i]==0 && kt[i]<MAXT &&
#ifndef M_NOTINSYNC
       IN(ks[i],i) &&
#endif
#ifndef M_RESTARTSYNC
       !lost[i] &&
#endif
       kt[i]>0 ->
#endif
#ifndef M_NOREVOKE
       unring(i);
#endif
       rv[i]=true; m[i]=TAK; ts[i]=1; tt[i]=kt[i]; tp[i]=i;
#ifdef M_KEEPOLD
       tm[i]=ks[i] }
#else
       tm[i]=(ks[i]|B(i))&~B(kp[i]) }
#endif
  :: d_step{ m[i]==SYN && ALLQP(i) && ts[i]==0 &&
#ifdef M_OPENEARLY
       true
#else
       ALLHAVE(i,ln[i])
#endif
       -> cur=i; m[i]=LED;
#ifdef RESTART
       dur[i]=true;
#endif
#ifdef M_OPENEARLY
       do :: ap[i]<ln[i] && hist[ap[i]]!=0 -> commit1(i) :: else -> break od;
#endif
       do :: ap[i]<ln[i] -> commit1(i) :: else -> break od;
       assert(ap[i]==NW || hist[ap[i]]==0) }                     /* no committed record is missing */
  /* --- replies of etcd --- */
  :: d_step{ ts[i]==2 -> 
       if :: m[i]==TAK -> m[i]=SYN; kt[i]=tt[i]+1; kp[i]=i; ks[i]=tm[i]; rv[i]=false; gd[i]=0; ap[i]=0; norow(i)
          :: (m[i]==LED || m[i]==SYN) && tp[i]==i -> kt[i]=tt[i]+1;
             k=0; do :: k<NS -> if :: IN(ks[i],k) && !IN(tm[i],k) -> qp[i]=qp[i]&~B(k); la[L(i,k)]=0; gr[L(i,k)]=0 :: else fi; k++ :: else -> break od;
             ks[i]=tm[i]
          :: m[i]==CLO -> depose(i)
          :: else fi;
       ts[i]=0; tt[i]=0; tp[i]=0; tm[i]=0 }
  :: d_step{ ts[i]==3 ->
       if :: m[i]==TAK -> m[i]=FOL
          :: m[i]==LED || m[i]==SYN || m[i]==CLO -> depose(i)
          :: else fi;
       ts[i]=0; tt[i]=0; tp[i]=0; tm[i]=0 }
#ifdef M_READFAIL
  :: d_step{ m[i]==LED && ts[i]==1 && et==kt[i] && ts[NS]==0 -> ts[NS]=1; tt[NS]=tt[i]; tp[NS]=tp[i]; tm[NS]=tm[i]; ts[i]=0; tt[i]=0; tp[i]=0; tm[i]=0 }
#endif
  /* --- learns the newest configuration --- */
  :: d_step{ et>kt[i] && ts[i]!=2 && m[i]==FOL ->
#ifndef M_CNOREVOKE
       if :: kp[i]!=ep -> unring(i) :: else fi;
#endif
#if defined(M_NOLEARNED)
       skip;
#elif defined(M_LEARNONCE)
       if :: IN(es,i) && !IN(ks[i],i) -> gd[i]=WAIT :: else fi;
#else
       if :: IN(es,i) -> gd[i]=WAIT :: else fi;
#endif
       rv[i]=false; know(i);
       if :: !IN(es,i) -> gd[i]=0 :: else fi;
       if :: ep==i &&
#ifdef M_OLDLIFE
             true
#else
             !lost[i]
#endif
             -> m[i]=SYN; gd[i]=0; norow(i); ap[i]=0 :: else fi }
  :: d_step{ et>kt[i] && ts[i]!=2 && (m[i]==LED || m[i]==SYN || m[i]==CLO) && ep!=i -> depose(i) }
  /* --- kill, restart --- */
  :: d_step{ m[i]!=DEAD && crashes<NC -> crashes++; 
#ifdef PERSIST
       x=ln[i]; r_=lg[R(i,0)]; k2=(NW>1 -> lg[R(i,NW-1)] : 0);
#endif
       gone(i); m[i]=DEAD; kt[i]=0; kp[i]=0; ks[i]=0;
#ifdef PERSIST
       ln[i]=x; lg[R(i,0)]=r_; if :: NW>1 -> lg[R(i,NW-1)]=k2 :: else fi;
#endif
#ifdef RESTART
       if :: ts[i]==1 && ts[NS]==0 -> ts[NS]=1; tt[NS]=tt[i]; tp[NS]=tp[i]; tm[NS]=tm[i] :: else fi;
#endif
#ifndef RESTART
       if :: ts[i]==1 :: else -> ts[i]=0; tt[i]=0; tp[i]=0; tm[i]=0 fi
#else
       ts[i]=0; tt[i]=0; tp[i]=0; tm[i]=0; lost[i]=true
#endif
     }
#ifdef RESTART
  :: d_step{ m[i]==DEAD && lost[i] && !(ep==i && es==B(i)) -> nolog(i); know(i); m[i]=FOL; dur[i]=false;
#ifdef M_RESTARTSYNC
       if :: IN(es,i) -> gd[i]=WAIT :: else fi
#endif
     }
#ifdef PERSIST
  /* alone in sync, with a log on disk: comes back; what was not committed may be lost */
#ifdef M_SAMETERM
  :: atomic{ m[i]==DEAD && lost[i] && DUR(i) && ep==i && es==B(i) && ts[i]==0 ->
       do :: ln[i]>0 && hist[ln[i]-1]==0 -> cut(i,ln[i]-1) :: break od; 
       d_step{ know(i); m[i]=LED; lost[i]=false; cur=i; do :: ap[i]<ln[i] -> commit1(i) :: else -> break od; skip } }
#else
  :: atomic{ m[i]==DEAD && lost[i] && DUR(i) && ep==i && es==B(i) && ts[i]==0 && et<MAXT ->
       do :: ln[i]>0 && hist[ln[i]-1]==0 -> cut(i,ln[i]-1) :: break od; 
       d_step{ know(i); m[i]=TAK; lost[i]=false; ts[i]=1; tt[i]=kt[i]; tp[i]=i; tm[i]=B(i) } }
#endif
#endif
#endif
  od }

/* the writers' side at server i */
proctype write(byte i, w){
end: do
  :: d_step{ m[i]==LED && !acked[w] ->                           /* decide: a retry that the log knows is not judged again */
       ok=true; k=0;
#ifdef M_DEDUP
       do :: k<ap[i] ->
#else
       do :: k<ln[i] ->
#endif
             if :: OP(lg[R(i,k)])==w+1 -> ok=false :: else fi; k++ :: else -> break od;
       if :: ok && ln[i]<NW -> 
#ifdef RESTART
             assert(used[kt[i]]<=ln[i]); used[kt[i]]=ln[i]+1;  /* versions never repeat */
#endif
             lg[R(i,ln[i])]=kt[i]*4+w+1; ln[i]++
          :: else fi }
  :: d_step{ m[i]==LED && !acked[w] &&
#ifndef M_ACKNOT
       tw[i]>0 &&
#endif
       ap[i]>0 -> k=0; do :: k<ap[i] -> if :: OP(lg[R(i,k)])==w+1 -> acked[w]=true;
             if :: VER(lg[R(i,k)],k+1)>flr -> flr=VER(lg[R(i,k)],k+1) :: else fi :: else fi; k++ :: else -> break od; skip }
  od }

proctype pair(byte i, b){
end: do
  :: d_step{ IN(qp[i],b) && m[i]!=DEAD && m[b]!=DEAD && la[L(i,b)]<ln[i] ->     /* i's NIC: WRITE lands at b and completes */
       lg[R(b,la[L(i,b)])]=lg[R(i,la[L(i,b)])]; la[L(i,b)]++;
       if :: ln[b]<la[L(i,b)] -> ln[b]=la[L(i,b)] :: else fi
#ifdef M_APPLYEARLY
       ; if :: VER(lg[R(b,la[L(i,b)]-1)],la[L(i,b)])>bv[b] -> bv[b]=VER(lg[R(b,la[L(i,b)]-1)],la[L(i,b)]) :: else fi
#endif
     }
  :: d_step{ (m[i]==LED || m[i]==SYN) && IN(ks[i]|tm[i]*PEND(i),b) && kt[b]==kt[i] && kp[b]==i &&   /* beat, promise, answer */
#ifdef M_REBEAT
       (m[b]==FOL || m[b]==TAK) &&
#else
       m[b]==FOL && !rv[b] &&
#endif
       (gr[L(i,b)]<LEASE || gd[b]<WAIT) ->
       if :: m[b]==FOL -> gd[b]=WAIT :: else fi;
#ifdef M_SLATE
       skip }
  :: d_step{ (m[i]==LED || m[i]==SYN) && IN(ks[i]|tm[i]*PEND(i),b) && kt[b]==kt[i] && kp[b]==i && gr[L(i,b)]<LEASE ->  /* s noted with the answer */
#endif
       gr[L(i,b)]=LEASE }
#ifdef M_OLDBEAT
  :: d_step{ m[i]==LED && IN(ks[i]|tm[i]*PEND(i),b) && (m[b]==FOL || m[b]==LED || m[b]==SYN) && kt[b]>=kt[i] && gr[L(i,b)]<LEASE ->
       gr[L(i,b)]=LEASE; if :: m[b]==FOL -> gd[b]=WAIT :: else fi }
#endif
#ifdef M_OLDBEATF
  :: d_step{ m[i]==LED && IN(ks[i]|tm[i]*PEND(i),b) && m[b]==FOL && kt[b]>=kt[i] && gr[L(i,b)]<LEASE ->
       gr[L(i,b)]=LEASE; gd[b]=WAIT }
#endif
  :: d_step{ m[i]==SYN && IN(ks[i],b) && !IN(qp[i],b) && m[b]==FOL && kt[b]==kt[i] && kp[b]==i && !lost[b] && !rv[b] ->   /* 4.3 */
#if defined(M_DROPALL)
       cut(b,0);
#elif !defined(M_NODROP)
       cut(b,ln[i]);
#endif
       la[L(i,b)]=(ln[b]<ln[i] -> ln[b] : ln[i]); qp[i]=qp[i]|B(b) }
#ifdef LEARN
  :: d_step{ m[i]==LED && !IN(ks[i],b) && !IN(qp[i],b) && m[b]==FOL &&
#ifndef V_BLINDJOIN
       kt[b]==kt[i] &&
#endif
       kp[b]==i && !PEND(i) ->
       cut(b,0); la[L(i,b)]=0; lost[b]=false; qp[i]=qp[i]|B(b) }
  :: d_step{ m[i]==LED && !IN(ks[i],b) && IN(qp[i],b) && ts[i]==0 &&
#ifndef M_ADDEARLY
       la[L(i,b)]>=ap[i] &&
#endif
       kt[i]<MAXT -> ts[i]=1; tt[i]=kt[i]; tp[i]=i; tm[i]=ks[i]|B(b) }
#endif
#ifndef NOREMOVE
  :: d_step{ (m[i]==LED || m[i]==SYN) && IN(ks[i],b) && ts[i]==0 && kt[i]<MAXT -> ts[i]=1; tt[i]=kt[i]; tp[i]=i; tm[i]=ks[i]&~B(b) }
#endif
#ifdef SWITCH
  :: d_step{ m[i]==LED && IN(ks[i],b) && ts[i]==0 &&
#ifndef M_SWITCHPENDING
       ap[i]==ln[i] &&
#endif
       kt[i]<MAXT -> m[i]=CLO;
#ifndef M_SWITCHNOFENCE
       fence(i);
#endif
       ts[i]=1; tt[i]=kt[i]; tp[i]=b; tm[i]=ks[i]&~B(i) }
#endif
  od }

proctype etcd(byte i){
end: do
  :: d_step{ ts[i]==1 ->
#ifdef M_NOTERM
       if :: et==tt[i] || (i<NS && m[i]==TAK && IN(es,i) && et<MAXT) -> tt[i]=et;
#else
       if :: et==tt[i] ->
#endif
             et=tt[i]+1; ep=tp[i]; es=tm[i]; ts[i]=2 :: else -> ts[i]=3 fi;
       if :: i==NS || m[i]==DEAD -> ts[i]=0; tt[i]=0; tp[i]=0; tm[i]=0 :: else fi }
  od }

proctype clock(){
end: do
  :: d_step{ true -> k=0;
       do :: k<NS -> if :: gd[k]>0 -> gd[k]-- :: else fi;
#ifdef SAMPLE
             if :: tw[k]>0-LEASE-1 && m[k]==LED -> tw[k]-- :: else fi;
             if :: xa[k]<CAP -> xa[k]++ :: else fi; if :: ca[k]<CAP -> ca[k]++ :: else fi;
#else
             if :: tw[k]>0 -> tw[k]-- :: else fi;
#endif
             k++ :: else -> break od;
       k=0; do :: k<NS*NS -> if :: gr[k]>0 -> gr[k]-- :: else fi; k++ :: else -> break od;
#ifdef SAMPLE
       k=0; do :: k<NR -> if :: re[k]>0 -> re[k]-- :: else fi;
             if :: rsp[k]>0 -> rpa[k]++; if :: rpa[k]>CAP -> rsp[k]=0; rpa[k]=0; rst[k]=0 :: else fi :: else fi; k++ :: else -> break od;
#endif
       skip }
  od }

#ifdef SAMPLE
#define FRESH(c,i) (re[c]>0)
#else
#define FRESH(c,i) (tw[i]>0)
#endif
#ifdef RPC
#define RD(i) (m[i]==LED)
#else
#define RD(i) (m[i]!=DEAD)
#endif
proctype reader(byte c, i){             /* reader c at server i */
end: do
  :: d_step{ rs[c]==0 && m[i]==LED -> rs[c]=i+1 }
  :: d_step{ rs[c]==i+1 && rp[c]==0 -> rs[c]=0;
#ifdef SAMPLE
       rst[c]=0; rpa[c]=0; rsp[c]=0; re[c]=0
#endif
     }
#ifdef SAMPLE
  :: d_step{ rs[c]==i+1 && rsp[c]==0 && m[i]!=DEAD -> rsp[c]=1; rst[c]=0; rpa[c]=0 }
#ifdef M_PAFTER
  :: d_step{ rs[c]==i+1 && rsp[c]==1 -> rsp[c]=2; rpa[c]=0 }                     /* p is when the completion was polled */
  :: d_step{ rs[c]==i+1 && rsp[c]==2 && rst[c]>=KCH && m[i]!=DEAD ->
#else
  :: d_step{ rs[c]==i+1 && rsp[c]==1 && rst[c]>=KCH && m[i]!=DEAD ->
#endif
#ifdef ASSERTD
       assert(ca[i]<=rpa[c]);
#endif
       if :: tw[i]+ca[i]>rpa[c] && tw[i]+ca[i]-rpa[c]>re[c] -> re[c]=tw[i]+ca[i]-rpa[c] :: else fi; rsp[c]=0; rst[c]=0; rpa[c]=0 }
#endif
#if defined(M_CHECKBEFORE) || defined(M_RPCORDER)
  :: d_step{ rs[c]==i+1 && rp[c]==0 && FRESH(c,i) && RD(i) -> rp[c]=1 }
  :: d_step{ rs[c]==i+1 && rp[c]==1 && RD(i) -> x=(ap[i]>0 -> VER(lg[R(i,ap[i]-1)],ap[i]) : 0);
       assert(x>=flr); flr=x; rp[c]=0 }
#else
  :: d_step{ rs[c]==i+1 && rp[c]==0 && RD(i) ->                                   /* begins; its READ takes place */
       rv_[c]=(ap[i]>0 -> VER(lg[R(i,ap[i]-1)],ap[i]) : 0);
#ifdef M_APPLYEARLY
       if :: bv[i]>rv_[c] -> rv_[c]=bv[i] :: else fi;
#endif
       bad[c]=(rv_[c]<flr); rp[c]=1 }
  :: d_step{ rs[c]==i+1 && rp[c]==1 -> rp[c]=0;                                   /* completed: the check, and out */
       if
#if defined(M_NOCHECK)
       :: RD(i) ->
#else
       :: FRESH(c,i) && RD(i) ->
#endif
          assert(!bad[c]);                                                        /* linearizable */
          assert(rv_[c]==0 || (hist[(rv_[c]&3)-1]>>2)==(rv_[c]>>2));              /* what it returned was committed, and is not lost */
          if :: rv_[c]>flr -> flr=rv_[c] :: else fi
       :: else fi; rv_[c]=0; bad[c]=0 }
#endif
  od }

init{ byte i=0, j;
  d_step{
    do :: i<NS -> kt[i]=1; ks[i]=INIT; m[i]=FOL; if :: i>0 && IN(INIT,i) -> gd[i]=WAIT; qp[0]=qp[0]|B(i) :: else fi; nosample(i); i++ :: else -> break od;
    m[0]=LED;
#ifdef RESTART
    dur[0]=true;
#endif
    skip }
  atomic{
    i=0; do :: i<NS -> run server(i); run etcd(i);
         j=0; do :: j<NS -> if :: j!=i -> run pair(i,j) :: else fi; j++ :: else -> break od;
         j=0; do :: j<NW -> run write(i,j); j++ :: else -> break od;
         j=0; do :: j<NR -> run reader(j,i); j++ :: else -> break od;
         i++ :: else -> break od;
    run etcd(NS); run clock() } }
