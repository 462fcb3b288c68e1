/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/mailbox.h"

#include <errno.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mailbox_create(struct mailbox *box)
{
	atomic_init(&box->newest, NULL);
	box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return box->fd < 0 ? -errno : 0;
}

void mailbox_destroy(struct mailbox *box)
{
	if (box->fd >= 0)
		close(box->fd);
	box->fd = -1;
}

void mailbox_post(struct mailbox *box, struct mail *mail)
{
	mailbox_post_all(box, mail, mail);
}

void mailbox_post_all(struct mailbox *box, struct mail *last, struct mail *first)
{
	struct mail *newest = atomic_load_explicit(&box->newest, memory_order_relaxed);

	do
		first->next = newest;
	/* release: pairs with mailbox_take(): the mail's content and its link */
	while (!atomic_compare_exchange_weak_explicit(&box->newest, &newest, last,
						      memory_order_release, memory_order_relaxed));
	if (!newest) /* it fails only where the counter is full, hence readable */
		eventfd_write(box->fd, 1);
}

struct mail *mailbox_take(struct mailbox *box)
{
	struct mail *mail, *older, *oldest = NULL;
	eventfd_t posts;

	eventfd_read(box->fd, &posts);
	/* acquire: pairs with mailbox_post() of all of them, since each continues the release */
	mail = atomic_exchange_explicit(&box->newest, NULL, memory_order_acquire);
	for (; mail; mail = older) {
		older = mail->next;
		mail->next = oldest;
		oldest = mail;
	}
	return oldest;
}
