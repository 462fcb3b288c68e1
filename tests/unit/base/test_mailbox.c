/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Mail of several threads arrives, each thread's in its order, and wakes the one that sleeps. */
#include "tests/lib/unit.h"

#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/base/mailbox.h"

#define WRITERS 4u
#define LETTERS 20000u /* of each */
#define PARCEL	3u /* of them, that are posted together */

struct letter {
	struct mail mail;
	unsigned writer, number;
};

static struct mailbox box;

static void *write_letters(void *arg)
{
	struct letter *letters = arg;

	unsigned i = 0;

	for (; i + PARCEL < LETTERS; i += PARCEL + 1) {
		mailbox_post(&box, &letters[i].mail);
		for (unsigned n = 2; n <= PARCEL; n++)
			letters[i + n].mail.next = &letters[i + n - 1].mail;
		mailbox_post_all(&box, &letters[i + PARCEL].mail, &letters[i + 1].mail);
	}
	for (; i < LETTERS; i++)
		mailbox_post(&box, &letters[i].mail);
	return NULL;
}

UNIT_TEST(mail_of_several_threads)
{
	struct letter *letters = calloc((size_t)WRITERS * LETTERS, sizeof(*letters));
	unsigned next[WRITERS] = { 0 }, got = 0;
	pthread_t thread[WRITERS];

	assert_non_null(letters);
	assert_int_equal(mailbox_create(&box), 0);
	assert_null(mailbox_take(&box));
	for (unsigned w = 0; w < WRITERS; w++) {
		for (unsigned i = 0; i < LETTERS; i++)
			letters[w * LETTERS + i] = (struct letter){ .writer = w, .number = i };
		assert_int_equal(
			pthread_create(&thread[w], NULL, write_letters, &letters[w * LETTERS]), 0);
	}
	while (got < WRITERS * LETTERS) {
		struct pollfd p = { .fd = box.fd, .events = POLLIN };

		assert_int_equal(poll(&p, 1, 30000), 1); /* a wake-up that is lost ends here */
		for (struct mail *m = mailbox_take(&box), *after; m; m = after, got++) {
			const struct letter *l = (struct letter *)m;

			after = m->next;
			assert_int_equal(l->number, next[l->writer]++);
		}
	}
	for (unsigned w = 0; w < WRITERS; w++)
		pthread_join(thread[w], NULL);
	assert_false(mailbox_any(&box));
	mailbox_destroy(&box);
	free(letters);
}
