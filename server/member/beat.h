/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The thread of leases, gkv-beat: on a primary it sends beats, and says until when the server may
 * answer; on a backup it answers them, and finds that its promise is over. beat.c has the argument.
 *
 * One other thread, the group's, calls all functions here. Those that say so wait for a round of
 * the thread; the thread waits for nobody. Times are nanoseconds of CLOCK_BOOTTIME.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "server/group/lease.h"
#include "server/replica/pulse.h"

struct beat;

struct beat_config {
	struct lease_terms terms;
	_Atomic uint64_t *until, *clock; /* words of the root page: lease_word.h */
	int wake_fd; /* eventfd, readable when a promise is over */
};

/* beat_start - neither leads nor follows yet. Returns 0 or a negative errno with @err.
 * beat_stop - waits for the thread. NULL: nothing. */
int beat_start(struct beat **out, const struct beat_config *config, struct error *err);
void beat_stop(struct beat *b);

/*
 * Of a primary. beat_lead - from now on it renews the two words, and sends beats; until
 * beat_rest(), which returns when it does not any more: what stands in the words then is the last.
 * beat_peer - @pulse, which is connected, in place of what peer @peer had; NULL: none. It is used
 * until the next call, and what was there before is not when this returns. Both wait for a round.
 * -ENOMEM: nothing has changed.
 * beat_granted - until when @peer does not take over; 0: it has granted nothing.
 * beat_count - the server may answer for no longer than peer @peer has granted; or it need not ask
 * that one any more. To be called before the peer may take over, and after it cannot.
 */
void beat_lead(struct beat *b);
void beat_rest(struct beat *b);
int beat_peer(struct beat *b, unsigned peer, struct pulse *pulse);
uint64_t beat_granted(const struct beat *b, unsigned peer);
void beat_count(struct beat *b, unsigned peer, bool counts);

/*
 * Of a backup. beat_follow - the server has learned of @term, in which it is one; beats come by
 * @pulse, NULL: by none yet. As beat_peer().
 * beat_is_over - the promise of @term was over, a moment ago.
 * beat_revoke - take over from the primary of @term: true: the promise is over, and no beat of the
 * term is answered from now on. False: a beat has come meanwhile, or the term is another one; it
 * goes on. Waits for a round.
 */
int beat_follow(struct beat *b, uint64_t term, struct pulse *pulse);
bool beat_is_over(const struct beat *b, uint64_t term);
bool beat_revoke(struct beat *b, uint64_t term);
