/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A mailbox: any thread posts, one thread takes what has come, in the order of its coming, and may
 * sleep on the descriptor meanwhile. No lock, no allocation: a piece of mail is part of what it is
 * about, and in one mailbox at a time.
 *
 * What was written before mailbox_post() is seen after mailbox_take(). A post to an empty mailbox
 * writes the descriptor after the mail stands in it, and the owner reads the descriptor before it
 * takes: so mail that is left finds the descriptor readable. An owner that takes without having
 * seen that may find it readable later, and the box empty: it takes again. Posting is lock-free, as
 * is taking.
 */
#include <stdatomic.h>
#include <stdbool.h>

struct mail {
	struct mail *next;
};

struct mailbox {
	_Atomic(struct mail *) newest;
	int fd; /* eventfd: readable while there is mail */
};

/* mailbox_create - returns 0 or a negative errno. mailbox_destroy - it is empty. */
int mailbox_create(struct mailbox *box);
void mailbox_destroy(struct mailbox *box);

/* mailbox_post - any thread. @mail is the owner's from now on. */
void mailbox_post(struct mailbox *box, struct mail *mail);

/* mailbox_post_all - several pieces, which come out together: from @last, which is to come out as
 * the last of them, linked by `next` to @first. */
void mailbox_post_all(struct mailbox *box, struct mail *last, struct mail *first);

/* mailbox_take - the owner: all that has come, oldest first, linked by `next`; NULL: nothing. */
struct mail *mailbox_take(struct mailbox *box);

/* mailbox_any - the owner: whether something has come. A relaxed load. */
static inline bool mailbox_any(const struct mailbox *box)
{
	return atomic_load_explicit(&box->newest, memory_order_relaxed);
}
