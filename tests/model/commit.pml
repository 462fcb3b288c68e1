/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* commit.pml: the log (docs/internals/log.md): append, commit, publish; one-sided readers with hints; a crash at any moment, recovery from a snapshot
 * that was taken meanwhile in short steps, plus replay of the log; retries over it.
 * run:  spin -a [-D...] commit.pml && gcc -O2 -DSAFETY -DCOLLAPSE -DNOREDUCE -o pan pan.c && ./pan -m1000000 -w24   (-D goes to spin)
 * An operation is served by any worker: every step of it is one atomic transition, deciding and publishing are under the bucket's lock.
 * Readers' two steps within a bucket, torn memory and grace periods are rqsbr.pml's and split.pml's.  INCR and TOUCH are PUTs that are
 * judged: every write is checked to stand on the predecessor that it was judged against, in the log and after recovery.
 * Checked: everything told (reply, refusal, read) survives and is never older than what was told before; each operation is at most once
 * in the log that survives; a conditional PUT never wins against another record of its number; recovery = the whole log (no lost write,
 * no resurrection).  No -D: --sync always, mended rules, no error.  Variants:
 *   NO operations (3), NK keys (2), NCR crashes (1), NSN snapshots (1), KINDS; exhaustive: -DNO=2 (0.8 M states, 1 s), -DNO=2 -DNCR=2
 *   (1.5 M, 3 s), -DNO=3 -DNK=1 (21.2 M, 52 s, 3.8 GB); -DNO=3 with -DBITSTATE -w34 or with KINDS=5 and -DHC4
 *   SYNCN       --sync N: committed means written; a power cut may lose what was told, but what is left is a prefix, and numbers do not
 *               come again (-DSYNCN -DNO=2 -DNCR=2: 7.2 M, 21 s)
 *   FSYNCFAIL   the server may end because fsync failed; the pages are clean and not on disk (-DNO=2 -DNCR=2)
 * Mutants, with -DNO=2 where nothing else is said; caught, but for the two that are marked:
 *   M_JUDGEPUB      judged against published state only          M_NOLOCK        judged, then appended, the lock not held over both
 *   M_RETRYJUDGE    a retry of a pending request is judged again
 *   M_REFUSEEARLY   a refusal does not wait at all
 *   M_REFUSECOMMIT  a refusal waits for the commit only: its client then reads older state one-sided (found here: wait for *publish*)
 *   M_PUBEARLY      publish before commit                        M_PUBORDER      not in version order for a key
 *   M_PUBFIRST      slot before OBSOLETE                         M_ACKEARLY      acknowledge before commit
 *   M_ACKBEFOREPUB  acknowledge at commit, before publish        M_ACKWRITE      commit when written, not when durable
 *   M_S0COMMIT      S0 at the committed position                 M_S0HIGH        S0 behind the highest published one
 *   M_S0SLOT        published = slot stored, reply not yet remembered            M_S0LATE        S0 noted after the walk
 *   M_NOREPSNAP     replies missing from the snapshot            M_NOREPLOG      replies not taken from the log
 *   M_ANYORDER      replay in any order                          M_NODEL         DEL not replayed
 *   M_REPLAYFORCE   PUT applied though not newer       -> NOT caught: redundant, as long as replay is in order and up to the log's end,
 *   M_DELBLIND      DEL removes newer ones too         -> NOT caught: which FOOTEREARLY's rule secures; move.pml needs "if newer"
 *   M_FSYNCRETRY    a failed fsync is tried again
 *   M_NORECSYNC     recovery publishes a tail that is only in the page cache (-DNCR=2: kill, then power cut; found here)
 *   M_RECFSYNC      recovery calls fsync on the old tail, does not write it again (-DFSYNCFAIL -DNCR=2; found here)
 *   M_SAMESEG       the log goes on in the cut segment (-DNO=3 -DNK=1 -DNCR=2 -DNSN=0)
 *   M_REUSE         versions without a life (-DSYNCN -DNO=3 -DNSN=0; with --sync always not caught: nobody saw what was lost)
 *   M_FOOTEREARLY   --sync N: the snapshot is complete before the log is durable up to what the walk may have seen (-DSYNCN; found here)
 * Not modelled: holes in the log, batches' durable positions and corrupt middles, expiry, acknowledged replies forgotten, splits. */
#ifndef NO
#define NO 3            /* operations, each of a client of its own */
#endif
#ifndef NK
#define NK 2            /* keys, each in a bucket of its own */
#endif
#ifndef NCR
#define NCR 1           /* crashes */
#endif
#ifndef NSN
#define NSN 1           /* snapshots */
#endif
#ifndef KINDS
#define KINDS 7         /* 1 PUT (and INCR, TOUCH), 2 conditional PUT, 4 DEL */
#endif
#define PUT 0
#define CAS 1
#define DEL 2
#define WALKED ((1<<(NK+2))-1)
#define N1 (NO+1)
#define ML (NO+2)

/* server-side state of an operation; all of it but what is on disk dies with the server */
#define NEW 0
#define PEND 1          /* appended, in the key's pending list */
#define OBSD 2          /* publishing, under the bucket's lock: old block OBSOLETE */
#define SLOT 3          /* slot stored */
#define DONE 4          /* reply remembered, lock released: published */
#define RWAIT 5         /* refused, waits for what it was judged against */
#define RDY 6           /* refused, may be told */
#define JUDGED 7        /* M_NOLOCK: judged, not yet appended */
#define PENDING(o) (sst[o]>=PEND && sst[o]<=SLOT)
#define PRES(o) ((o)!=0 && kind[o]!=DEL)
#define RANK(o) ((o)==0 -> 0 : pos[o])
#define BIT(o) (1<<(o))

byte log[ML], ln=0, wr=0, dur=0, com=0, life=1;      /* appended, written, on disk, committed as the server believes */
byte kind[N1], key[N1], exv[N1], exo[N1];              /* conditional PUT: version expected, and (ghost) whose it was */
byte pre[N1], pos[N1], ver[N1];                        /* judged against; position (from 1); version */
byte cst[N1], sst[N1], bf[N1];                         /* client: 0 not begun, 1 waits, 2 has its reply; floor when it began */
byte slot[NK]; bool obs[N1], lk[NK];                   /* a slot emptied by DEL o holds o (ghost) */
byte flr[NK], seen=0;                                  /* ghosts: newest position told to anyone; records whose version is known */
byte rst=0, rk=0, rf=0, rsl=0, hint=0;                 /* reader */
byte sn=0, wS0=0, wsl[NK], wrep=0, wend=0;             /* snapshot under way: parts left + 1 */
byte S0=0, ssl[NK], srep=0, nsn=0;                     /* newest complete snapshot */
byte crashes=0; bool pois=false;
#ifdef M_SAMESEG
byte stl[ML];
#endif
byte n_=0;                                              /* records found; not hidden: set and used in several steps */
hidden byte k, p, o_, nw, nv, x, cr[2], ok;

inline tell(q,r){ if :: (r)>flr[q] -> flr[q]=r :: else fi }
inline newest(q){                       /* what the server knows: last pending of that key, else published */
  nw=slot[q];
#ifndef M_JUDGEPUB
  p=0; do :: p<ln -> if :: key[log[p]]==q && PENDING(log[p]) -> nw=log[p] :: else fi; p++ :: else -> break od
#endif
}
inline append(o){                       /* ghost checks: at most once; judged against its real predecessor */
  x=0; p=0; do :: p<ln -> assert(log[p]!=o); if :: key[log[p]]==key[o] -> x=log[p] :: else fi; p++ :: else -> break od;
  assert(x==pre[o]);
  log[ln]=o; ln++; pos[o]=ln;
#ifdef M_REUSE
  ver[o]=8+ln;
#else
  ver[o]=life*8+ln;
#endif
  obs[o]=false; sst[o]=PEND }

proctype op(byte o){
end: do
  :: atomic{ cst[o]==0 && (o==1 || cst[o-1]>0) ->
       if :: (KINDS&1) -> kind[o]=PUT :: (KINDS&4) -> kind[o]=DEL
          :: (KINDS&2) -> kind[o]=CAS;
             if :: true :: (seen&BIT(1)) -> exo[o]=1 :: (seen&BIT(2)) -> exo[o]=2 :: NO>3 && (seen&BIT(3)) -> exo[o]=3 fi;
             exv[o]=(exo[o]==0 -> 0 : ver[exo[o]]) fi;
       if :: key[o]=0 :: NK>1 && o>1 -> key[o]=NK-1 fi;
       bf[o]=flr[key[o]]; cst[o]=1 }
  /* decide */
#ifdef M_RETRYJUDGE
  :: d_step{ cst[o]==1 && (sst[o]==NEW || sst[o]==PEND) && !lk[key[o]] ->
#else
  :: d_step{ cst[o]==1 && sst[o]==NEW && !lk[key[o]] ->
#endif
       newest(key[o]); nv=(PRES(nw) -> ver[nw] : 0);
       pre[o]=nw;
       if :: kind[o]==PUT || (kind[o]==CAS && exv[o]==nv) || (kind[o]==DEL && PRES(nw)) ->
             if :: kind[o]==CAS && nv>0 -> assert(nw==exo[o]) :: else fi;  /* not another record of that number */
#ifdef M_NOLOCK
             sst[o]=JUDGED
#else
             append(o)
#endif
          :: else ->
#ifdef M_REFUSEEARLY
             sst[o]=RDY
#else
             sst[o]=(PENDING(nw) -> RWAIT : RDY)
#endif
       fi; nw=0; nv=0 }
#ifdef M_NOLOCK
  :: d_step{ sst[o]==JUDGED -> append(o) }
#endif
#ifdef M_REFUSECOMMIT
  :: d_step{ sst[o]==RWAIT && pos[pre[o]]<=com -> sst[o]=RDY }
#else
  :: d_step{ sst[o]==RWAIT && sst[pre[o]]==DONE -> sst[o]=RDY }
#endif
  /* publish */
#ifdef M_PUBEARLY
  :: d_step{ sst[o]==PEND && !lk[key[o]] -> ok=1;
#else
  :: d_step{ sst[o]==PEND && !lk[key[o]] && pos[o]<=com -> ok=1;
#endif
#ifndef M_PUBORDER
       p=0; do :: p+1<pos[o] -> if :: key[log[p]]==key[o] && sst[log[p]]!=DONE -> ok=0 :: else fi; p++ :: else -> break od;
#endif
       if :: ok==1 -> lk[key[o]]=true; sst[o]=OBSD;
#ifdef M_PUBFIRST
             slot[key[o]]=o
#else
             if :: slot[key[o]]!=0 -> obs[slot[key[o]]]=true :: else fi
#endif
          :: else fi; ok=0 }
  :: d_step{ sst[o]==OBSD -> sst[o]=SLOT;
#ifdef M_PUBFIRST
       if :: pre[o]!=0 -> obs[pre[o]]=true :: else fi
#else
       slot[key[o]]=o
#endif
     }
  :: d_step{ sst[o]==SLOT -> sst[o]=DONE; lk[key[o]]=false }
  /* the reply, to the first try or to a retry */
#if defined(M_ACKEARLY)
  :: d_step{ cst[o]==1 && sst[o]>=PEND && sst[o]<=DONE ->
#elif defined(M_ACKBEFOREPUB)
  :: d_step{ cst[o]==1 && sst[o]>=PEND && sst[o]<=DONE && pos[o]<=com ->
#else
  :: d_step{ cst[o]==1 && sst[o]==DONE ->
#endif
       assert(pos[o]>bf[o]); cst[o]=2; tell(key[o],pos[o]); seen=seen|BIT(o) }
  :: d_step{ cst[o]==1 && sst[o]==RDY ->
       assert(RANK(pre[o])>=bf[o]); cst[o]=2; tell(key[o],RANK(pre[o])); seen=seen|BIT(pre[o]) }
  od }

proctype disk(){
end: do
  :: d_step{ wr<ln -> wr++;
#ifdef M_SAMESEG
       stl[wr-1]=0;
#endif
#if defined(SYNCN) || defined(M_ACKWRITE)
       com=wr
#endif
     }
#if defined(M_FSYNCRETRY)
  :: d_step{ dur<wr && com<wr -> com=wr; if :: !pois -> dur=wr :: else fi }
  :: d_step{ dur<wr && !pois -> pois=true }            /* fails; the pages are clean now, and not on disk */
#else
  :: d_step{ dur<wr && !pois -> dur=wr;
#if !defined(SYNCN) && !defined(M_ACKWRITE)
       com=dur
#endif
     }
#endif
  /* snapshot */
  :: d_step{ sn==0 && nsn<NSN && ln>0 -> sn=(1<<(NK+1)); 
#if defined(M_S0COMMIT)
       wS0=com
#elif defined(M_S0HIGH)
       wS0=0; p=0; do :: p<ln -> if :: sst[log[p]]==DONE -> wS0=p+1 :: else fi; p++ :: else -> break od
#elif defined(M_S0SLOT)
       wS0=0; do :: wS0<ln && (sst[log[wS0]]==DONE || sst[log[wS0]]==SLOT) -> wS0++ :: else -> break od
#else
       wS0=0; do :: wS0<ln && sst[log[wS0]]==DONE -> wS0++ :: else -> break od
#endif
       ; skip }
  :: d_step{ sn>0 && (sn&1)==0 -> sn=sn|1; wend=com; wsl[0]=(PRES(slot[0]) -> slot[0] : 0) }
#if NK>1
  :: d_step{ sn>0 && (sn&2)==0 -> sn=sn|2; wend=com; wsl[1]=(PRES(slot[1]) -> slot[1] : 0) }
#endif
  :: d_step{ sn>0 && (sn&(1<<NK))==0 -> sn=sn|(1<<NK); wend=com;      /* client table; bit NK+1 says under way */
       wrep=0; o_=1; do :: o_<=NO -> if :: sst[o_]==DONE -> wrep=wrep|BIT(o_) :: else fi; o_++ :: else -> break od; skip }
  #if defined(SYNCN) && !defined(M_FOOTEREARLY)
  :: d_step{ sn==WALKED && dur>=wend ->
#else
  :: d_step{ sn==WALKED ->
#endif
       S0=wS0; srep=wrep; k=0; do :: k<NK -> ssl[k]=wsl[k]; wsl[k]=0; k++ :: else -> break od;
#ifdef M_S0LATE
       S0=0; do :: S0<ln && sst[log[S0]]==DONE -> S0++ :: else -> break od;
#endif
#ifdef M_NOREPSNAP
       srep=0;
#endif
       sn=0; wS0=0; wrep=0; wend=0; nsn++ }
  /* the end of a life, n_ records found, and recovery (its own crash: one crash after the other) */
  :: atomic{ crashes<NCR -> crashes++; n_=wr;
       if :: true ->                                     /* killed: what was written is there */
             skip;
#ifdef FSYNCFAIL
             if :: dur<wr && !pois -> pois=true :: true fi;     /* it ended because fsync had failed */
#endif
          :: true -> n_=dur;                             /* power cut: any prefix of what was not synced */
             do :: n_<wr -> n_++ :: break od; skip;
             d_step{ pois=false;
#ifdef SYNCN
             k=0; do :: k<NK -> cr[k]=0; k++ :: else -> break od;
             p=0; do :: p<n_ -> cr[key[log[p]]]=p+1; p++ :: else -> break od;
             k=0; do :: k<NK -> if :: flr[k]>n_ -> flr[k]=cr[k] :: else fi; k++ :: else -> break od;
             o_=1; do :: o_<=NO -> if :: bf[o_]>n_ -> bf[o_]=cr[key[o_]] :: else fi; o_++ :: else -> break od;
#endif
#ifdef M_SAMESEG
             p=n_+1; do :: p<wr -> stl[p]=log[p]; p++ :: else -> break od;     /* n_ is bad, later sectors are there */
#endif
             skip }
       fi; skip;
       d_step{
#ifdef M_SAMESEG
       do :: n_<NO && stl[n_]!=0 -> log[n_]=stl[n_]; pos[log[n_]]=n_+1; stl[n_]=0; n_++ :: else -> break od;
#endif
       k=0; do :: k<NK -> assert(flr[k]<=n_); k++ :: else -> break od;         /* nothing told is lost */
       p=n_; do :: p<ML -> log[p]=0; p++ :: else -> break od;
       ln=n_; wr=n_; com=n_;
#if defined(M_NORECSYNC)
       if :: dur>n_ -> dur=n_ :: else fi;
#elif defined(M_RECFSYNC)
       if :: !pois -> dur=n_ :: else fi;
#else
       dur=n_; pois=false;                               /* the tail is written again and synced before anything is published */
#endif
       /* recover: snapshot, then replay from S0 */
       k=0; do :: k<NK -> cr[k]=ssl[k]; k++ :: else -> break od;
       x=0; o_=1; do :: o_<=NO -> sst[o_]=NEW; obs[o_]=false; o_++ :: else -> break od;
#ifdef M_ANYORDER
       p=n_; do :: p>S0 -> p--;
#else
       p=S0; do :: p<n_ ->
#endif
             o_=log[p]; k=key[o_];
#ifndef M_NOREPLOG
             sst[o_]=DONE;
#endif
             if :: kind[o_]!=DEL -> 
#ifdef M_REPLAYFORCE
                   cr[k]=o_
#else
                   if :: cr[k]==0 || ver[cr[k]]<ver[o_] -> cr[k]=o_ :: else fi
#endif
                :: else ->
#if defined(M_NODEL)
                   skip
#elif defined(M_DELBLIND)
                   cr[k]=0
#else
                   if :: cr[k]!=0 && ver[cr[k]]<ver[o_] -> cr[k]=0 :: else fi
#endif
             fi;
#ifndef M_ANYORDER
             p++
#endif
          :: else -> break od;
       o_=1; do :: o_<=NO -> if :: srep&BIT(o_) -> sst[o_]=DONE :: else fi; o_++ :: else -> break od;
       /* what it should be: the whole log, each record once, on the predecessor that it was judged against */
       k=0; do :: k<NK -> slot[k]=0; lk[k]=false; k++ :: else -> break od;
       p=0; do :: p<n_ -> o_=log[p]; assert(x!=(x|BIT(o_))); x=x|BIT(o_); assert(pre[o_]==slot[key[o_]]); slot[key[o_]]=o_; p++ :: else -> break od;
       k=0; do :: k<NK -> assert(cr[k]==(PRES(slot[k]) -> slot[k] : 0)); cr[k]=0; wsl[k]=0; k++ :: else -> break od;
       o_=1; do :: o_<=NO -> if :: cst[o_]==1 && !(x&BIT(o_)) -> pre[o_]=0; pos[o_]=0;
             if :: !(seen&BIT(o_)) -> ver[o_]=0 :: else fi :: else fi; o_++ :: else -> break od;
       sn=0; wS0=0; wrep=0; wend=0; rst=0; hint=0; rsl=0; rf=0; rk=0; life++; x=0; o_=0; n_=0; p=0; k=0 } }
  od }

proctype reader(){
end: do
  :: atomic{ rst==0 -> if :: rk=0 :: NK>1 -> rk=NK-1 fi; rf=flr[rk]; rst=1 }
  :: d_step{ rst==1 && hint!=0 && key[hint]==rk ->         /* block by the hint */
       if :: !obs[hint] -> assert(pos[hint]>=rf); tell(rk,pos[hint]); seen=seen|BIT(hint); rst=0; rf=0; rk=0
          :: else -> hint=0 fi }
  :: d_step{ rst==1 -> rsl=slot[rk];                       /* bucket */
       if :: PRES(rsl) -> rst=2
          :: else -> assert(RANK(rsl)>=rf); tell(rk,RANK(rsl)); rst=0; rf=0; rk=0; rsl=0 fi }
  :: d_step{ rst==2 ->                                     /* block */
       if :: !obs[rsl] -> assert(pos[rsl]>=rf); tell(rk,pos[rsl]); seen=seen|BIT(rsl); hint=rsl; rst=0; rf=0; rk=0
          :: else -> rst=1 fi; rsl=0 }
  od }

init{ atomic{ byte i=1; do :: i<=NO -> run op(i); i++ :: else -> break od; run disk(); run reader() } }
