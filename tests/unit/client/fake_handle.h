/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A handle over memory made by hand. It sends no requests: what asks the server crashes. */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/link/handle.h"
#include "fake_store.h"

/* fake_handle_begin - @f's reader is the handle's from here on. */
static inline void fake_handle_begin(struct gkv *h, struct fake *f)
{
	memset(h, 0, sizeof(*h));
	h->session = aligned_alloc(alignof(struct gkv_session), sizeof(*h->session));
	memset(h->session, 0, sizeof(*h->session));
	h->session->settings.timeout_ms = 20000;
	epochs_init(&h->session->epochs, NULL);
	epochs_reset(&h->session->epochs, 1, 1, false);
	h->link.session = h->session;
	h->link.live = true;
	h->reader = f->reader;
	h->reader.err = &h->error;
}

static inline void fake_handle_end(struct gkv *h, struct fake *f)
{
	f->reader = h->reader; /* its arena may be another one */
	epochs_destroy(&h->session->epochs);
	free(h->session);
}
