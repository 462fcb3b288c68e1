/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Rules of the protocol that tests break on purpose, to see that they notice, in a build made for
 * it (meson setup -Dmutants=true), chosen by name in $GRACEKV_MUTANT: one, or several with commas
 * between them, as `no_grace,no_checksum` where one rule guards what another one does. In every
 * other build MUTANT() is the constant false, and nothing of this is compiled.
 *
 * docs/internals/correctness.md says which test notices which.
 */
#include <stdbool.h>

/* Name, and how the rule is broken. */
#define MUTANTS(X)                                                                               \
	X(announce_newest,                                                                       \
	  "the housekeeper announces the newest epoch, whatever sections are open")              \
	X(scan_first, "it looks at the pins before its READ of the epoch has completed")         \
	X(no_pin_fence, "no full fence between the pin of a section and its READs")              \
	X(carry_section, "a section goes on over a connection that is made again")               \
	X(expire_unfenced,                                                                       \
	  "a session whose lease is over is left out of the wait, and not fenced")               \
	X(no_grace, "nothing waits for remote sessions")                                         \
	X(no_segment_grace, "segments do not wait for remote sessions")                          \
	X(publish_first, "a slot is published before the block it named is OBSOLETE")            \
	X(acknowledge_first, "a write is acknowledged before the block it replaced is OBSOLETE") \
	X(no_incarnation, "a reader does not compare incarnations")                              \
	X(moved_late, "a segment is marked MOVED after writes were applied in its successors")   \
	X(recut_early, "a slab is recut without waiting for hints")                              \
	X(ignore_floor, "a client keeps its hints and says that it dropped them")                \
	X(tell_early, "it says so while sections that were open then may use some")              \
	X(trust_hint, "what a hint leads to is taken as it is")                                  \
	X(no_checksum, "a reader does not compare the checksums of blocks")                      \
	X(obsolete_absent, "a block that is OBSOLETE is taken for a record that is absent")      \
	X(forget_reply, "no reply is remembered: a request that comes again is applied again")   \
	X(retry_as_new, "a write whose connection was lost is sent again as another request")    \
	X(late_answer, "an answer about a queue pair is taken for the attempt that waits")       \
	X(ack_unapplied, "one write in 1000 is acknowledged and not applied")                    \
	X(resurrect, "the block of a record that is deleted stays LIVE until it is free")        \
	X(linger, "nothing is broken: a write rests between LIVE and OBSOLETE")                  \
	X(split_forgets, "a split of a segment leaves out one record in 64")                     \
	X(no_second_look, "soft0 completes a WRITE that its target did not wait for, unseen")    \
	X(leave_early, "what is over is not waited for while its queue pairs are taken apart")   \
	X(lease_untold, "an epoch slot goes, and the clock thread, which has it, is not told")   \
	X(foreign_beat, "a beat counts in a slot that names another session's generation")       \
	X(snapshot_s0_committed, "a snapshot starts from the committed position")                \
	X(replies_not_in_snapshot, "a snapshot has no remembered replies")                       \
	X(reuse_version, "a life after recovery has the number of the one before it")            \
	X(no_rewrite, "what may not be durable is not written again by recovery")                \
	X(judge_published, "a write is judged against what is published, whatever is pending")   \
	X(publish_order, "a write is published before an earlier one of its key")                \
	X(ack_before_commit, "a write is acknowledged when it is appended to the log")           \
	X(publish_before_commit, "it is published before the log has committed it")              \
	X(refuse_early, "a refusal does not wait for the write that it was judged against")      \
	X(cut_corrupt_middle, "what is corrupt below the durable position ends the log")         \
	X(read_past_cut, "a segment is read to its end, wherever the next one begins")           \
	X(zero_behind, "zeroes ahead of the log's writer begin where it has written")            \
	X(change_twice,                                                                          \
	  "a transaction goes over a connection that was kept, which may send it twice")         \
	X(ring_no_flow, "a ring is written on, whatever was taken out of it")                    \
	X(ring_free_early, "a batch is said to be taken before it was copied out of the ring")   \
	X(ring_no_place, "a batch of an earlier lap of a ring is taken")                         \
	X(ring_no_key, "a ring's checksums have no seed")                                        \
	X(ring_head_only, "a batch is taken when its header has come")                           \
	X(commit_alone, "the log commits what its mirrors do not hold")                          \
	X(look_away, "what was sent to a backup last completes, and nobody takes that up")       \
	X(leave_quietly, "who stops looking at a log leaves what is under way to nobody")        \
	X(same_term, "a configuration is changed within its term")                               \
	X(join_in_sync, "a member that comes counts as one in sync")                             \
	X(take_over_unsynced, "a member takes over that is not in sync")                         \
	X(read_proves, "a read that shows the old configuration ends a proposal")                \
	X(unknown_is_no, "a proposal whose outcome is not known is given up")                    \
	X(any_nonce, "another one's configuration of the next term is taken for ours")           \
	X(believe_older, "a configuration that is older than one before is believed")            \
	X(keep_beyond_end, "a member keeps what lies beyond the end of its new primary's log")   \
	X(apply_held, "a member applies what it holds, committed or not")                        \
	X(bring_nothing, "who takes over does not send the others what they may lack")           \
	X(use_unknown_life, "a life of versions is used that may not have been drawn")           \
	X(read_deposed, "what was READ of a server that may have been deposed is believed")      \
	X(lease_no_drift, "a backup waits for as long as it has promised, by whatever clock")    \
	X(lease_keeps_time, "a term that is learned does not begin a backup's time once more")   \
	X(lease_same_beat, "a beat that was seen before is promised again")                      \
	X(lease_answers_on, "a backup that takes over answers beats")                            \
	X(lease_any_answer, "an answer is taken for a later beat's")                             \
	X(lease_most, "a primary relies on the latest promise, not on the first to end")         \
	X(walk_early, "a learner walks before what was written earlier is published")            \
	X(promote_uncounted, "a member is put in sync before its promise counts")                \
	X(yield_at_once, "a primary gives way before its sessions have ended")                   \
	X(take_over_early, "a backup takes over before its promise is over")                     \
	X(beat_counts_first, "a primary looks who counts before it reads its clock")             \
	X(fresh_one_change, "a client trusts a clock that has changed once")                     \
	X(fresh_no_drift, "a client takes the server's clock to be as fast as its own")          \
	X(revoke_nothing, "a backup looks what it has, and leaves the primary its rights")       \
	X(hold_when_posted, "a peer holds what was posted to it")                                \
	X(walk_resurrects, "what a walk brings is applied, whether it was deleted since or not") \
	X(vouch_early, "a member vouches for its log before that is durable")                    \
	X(give_back_all, "a server gives back what it has answered as primary")                  \
	X(forget_late, "what an earlier life has proposed may come when that is forgotten")      \
	X(fast_clock, "nothing is broken: the clock of leases runs a tenth faster")              \
	X(slow_clock, "nothing is broken: the clock of leases runs a tenth slower")              \
	X(any_boot, "what the kernel had is believed to be there after another start")           \
	X(any_place, "a copy of a member's directory vouches as the original did")               \
	X(aside_meta_last, "a directory's files are set aside before its meta is")               \
	X(retry_fsync, "the log syncs again where a sync has failed, and goes on")               \
	X(replay_any_order, "recovery applies a deletion without regard to what came before it")

enum mutant {
#define MUTANT_ENUM(name, words) MUTANT_##name,
	MUTANTS(MUTANT_ENUM)
#undef MUTANT_ENUM
		MUTANT_COUNT
};

#define MUTANT_LINGER_US 300u

#ifdef GRACEKV_MUTANTS
/* mutant_on - whether $GRACEKV_MUTANT names it; an unknown name there ends the program. Any
 * thread; a load and a test. */
bool mutant_on(enum mutant m);

/* mutant_linger - makes the window that a broken rule opens wide enough to be met: @us. */
void mutant_linger(unsigned us);
#define MUTANT(name) __builtin_expect(mutant_on(MUTANT_##name), 0)
#else
#define MUTANT(name) false
static inline void mutant_linger(unsigned us)
{
	(void)us;
}
#endif
