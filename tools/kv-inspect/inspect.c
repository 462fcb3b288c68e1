/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Looking into a running server from the outside.
 *
 * All that is shown was fetched by one-sided READs on a handle of the client library, and nothing
 * is written but the session's epoch slot, by its housekeeper. No request is sent, so no thread of
 * the server knows, but for the connection itself.
 *
 * SECTIONS. A look is a function that READs what belongs together, in one section (DESIGN 5.2;
 * epochs.c proves it). The section's pin, a full fence, and only then the first READ is posted; the
 * section ends when the last completion was polled (acquire). Hence, of what a look finds:
 *  1. A block that is reached in a section, through a slot of a bucket whose header fits, was
 *     linked when the bucket was READ, so its batch's r is an E of that moment or a later one. What
 *     we announce while the section is open is at most an E from before its first READ (epochs.c,
 *     1): not above r, so the block is not reused. Its copy is of one life, LIVE or OBSOLETE: a
 *     checksum that does not fit, or a state of neither, is an error of the server's, and is called
 *     one at first sight.
 *  2. The same holds for a segment whose headers fit the directory's entry, not MOVED: it was not
 *     retired when they were READ. The entry itself may be of any age. What else it leads to
 *     (MOVED, another incarnation, another prefix) is a stale directory until the opposite is
 *     shown: the entry is READ again, with root's descriptor beside it, and the look is made again.
 *  3. The block READ is posted after the poll of the bucket that names it: block before slot,
 *     pairs with index_publish().
 *  4. Nothing found in one section is followed in another. Results are copied out of registered
 *     memory; they are decoded, judged and printed with the section closed, so that memory of the
 *     server waits for no terminal.
 *  5. `block EXTENT:OFFSET` comes by no slot: no grace period protects what stands there, as with a
 *     hint. It READs the extent's entry in the same section, and relies on the block's own words.
 *     Should the extent be given up in between, its rkey is dead: the queue pair breaks, which is
 *     seen, and the look is made again over another one.
 *
 * BOUNDS. A READ out of bounds breaks the queue pair, so what was READ is checked before it leads
 * to the next READ: an extent by its entry's checksum, kind and length; a segment, slot or
 * directory against its extent by the functions that look-ups use (segment_place(), slot_place(),
 * directory_fetch()); a number of an overflow bucket against SEGMENT_OVERFLOW; lengths in a block
 * against what was fetched of it. Texts are escaped before they are printed.
 *
 * TIME. While a section is open the server can reuse nothing that was unlinked since. So each READs
 * a bounded number of bytes (one block, where that is larger) and waits for nothing but READs:
 * pauses are between sections. One that lasts longer than a lease while memory is short is fenced:
 * its READs fail, and the look is made again over a new connection.
 *
 * A LOST CONNECTION ends the section, and its look starts over in another one. What it had judged
 * before stands: those READs had ended well, before the server can have fenced us. Another life of
 * the server is another store: that ends the program (-ESTALE).
 *
 * Progress: LOST_MAX connections for a section, INSPECT_LOOKS sections for a thing to be settled.
 */
#include "tools/kv-inspect/inspect.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define LOST_MAX     4u
#define PAUSE_MS_MAX 50u

int inspect_failed(struct inspect *in, int code, const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return error_set(in->r->err, code, "%s", text);
}

static int same_life(struct inspect *in)
{
	uint64_t met = in->r->world->incarnation;

	if (!in->incarnation)
		in->incarnation = met;
	if (in->incarnation == met)
		return 0;
	return inspect_failed(in, -ESTALE,
			      "the server restarted meanwhile (incarnation %016llx, it was "
			      "%016llx; begin again)",
			      (unsigned long long)met, (unsigned long long)in->incarnation);
}

int inspect_section(struct inspect *in, inspect_look look, void *arg)
{
	for (unsigned lost = 0;; lost++) {
		int rc = in->ops->begin(in->ctx);

		if (rc)
			return rc;
		rc = same_life(in);
		if (rc == 0)
			rc = look(in, arg);
		in->ops->end(in->ctx);
		if (rc != -ECONNRESET || lost == LOST_MAX)
			return rc;
	}
}

void inspect_pause(struct inspect *in, unsigned ms)
{
	in->waited_ms += ms;
	in->ops->pause(in->ctx, ms);
}

int inspect_settle(struct inspect *in, inspect_look look, void *arg)
{
	unsigned pause_ms = 1;
	int rc = inspect_section(in, look, arg);

	for (unsigned looks = 1; rc == INSPECT_AGAIN && looks < INSPECT_LOOKS; looks++) {
		inspect_pause(in, pause_ms);
		pause_ms = 2 * pause_ms < PAUSE_MS_MAX ? 2 * pause_ms : PAUSE_MS_MAX;
		rc = inspect_section(in, look, arg);
	}
	return rc;
}
