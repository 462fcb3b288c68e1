/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/linearizability/client/board.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int board_map(const char *path, struct board **out, struct error *err)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), code = errno;
	struct stat st;
	struct board *b;

	if (fd < 0)
		return error_set(err, -code, "%s cannot be opened: %s (the supervisor makes it)",
				 path, error_name(code));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof(*b)) {
		close(fd);
		return error_set(
			err, -EPROTO,
			"%s is no board: not a file of %zu bytes (the supervisor makes it)", path,
			sizeof(*b));
	}
	b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	code = errno;
	close(fd);
	if (b == MAP_FAILED)
		return error_set(err, -code, "%s cannot be mapped: %s", path, error_name(code));
	if (b->magic != BOARD_MAGIC || b->slots < 1 || b->slots > BOARD_SLOTS_MAX) {
		munmap(b, sizeof(*b));
		return error_set(
			err, -EPROTO,
			"%s is no board that this program knows (run.py and lin-client are "
			"of different versions? Build again)",
			path);
	}
	*out = b;
	return 0;
}

uint64_t board_key(const struct board *b, uint32_t slot)
{
	/* relaxed: the word is all that there is to a key */
	return atomic_load_explicit(&b->slot[slot].key, memory_order_relaxed);
}

bool board_key_worn(struct board *b, uint32_t slot, uint64_t key, bool open)
{
	struct board_slot *s = &b->slot[slot];
	uint32_t n, unknown;

	if (board_key(b, slot) != key)
		return false;
	/* relaxed: about as many as were asked for is enough */
	n = atomic_fetch_add_explicit(&s->operations, 1, memory_order_relaxed) + 1;
	unknown = atomic_fetch_add_explicit(&s->open, open, memory_order_relaxed) + open;
	return n >= b->operations_max || unknown >= b->open_max;
}

void board_key_replace(struct board *b, uint32_t slot, uint64_t key, uint32_t salt)
{
	struct board_slot *s = &b->slot[slot];
	uint64_t next = ((key >> 32) + 1) << 32 | salt;

	if (!atomic_compare_exchange_strong_explicit(&s->key, &key, next, memory_order_relaxed,
						     memory_order_relaxed))
		return;
	atomic_store_explicit(&s->operations, 0, memory_order_relaxed);
	atomic_store_explicit(&s->open, 0, memory_order_relaxed);
}
