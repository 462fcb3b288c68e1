/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* DIR/meta on a disk that crashes, fails and turns bits. */
#include <errno.h>
#include <string.h>

#include "server/log/meta.h"
#include "tests/lib/sim_disk.h"
#include "tests/lib/unit.h"

static struct error err;

static struct data_meta meta_of(uint64_t life)
{
	return (struct data_meta){ .store = { 1, 2 }, .hash_seed = 3, .life = life, .clock_ms = 4 };
}

UNIT_TEST(written_and_read)
{
	struct sim_disk *d = sim_disk_create(512);
	struct data_meta m = meta_of(7), got;

	assert_int_equal(meta_read(sim_disk_io(d), &got, &err), -ENOENT);
	assert_ok(meta_write(sim_disk_io(d), &m, &err));
	assert_int_equal(sim_disk_loose(d), 0);
	assert_ok(meta_read(sim_disk_io(d), &got, &err));
	assert_memory_equal(&m, &got, sizeof(m));
	sim_disk_destroy(d);
}

UNIT_TEST(every_bit_and_every_length)
{
	struct sim_disk *d = sim_disk_create(512);
	struct data_meta m = meta_of(7), got;
	uint8_t *bytes = (uint8_t *)&m;

	assert_ok(meta_write(sim_disk_io(d), &m, &err));
	for (unsigned bit = 0; bit < 8 * sizeof(m); bit++) {
		uint8_t turned = bytes[bit / 8] ^ (uint8_t)(1u << bit % 8);

		sim_disk_set(d, "meta", &turned, 1, bit / 8);
		assert_int_equal(meta_read(sim_disk_io(d), &got, &err), -EUCLEAN);
		sim_disk_set(d, "meta", &bytes[bit / 8], 1, bit / 8);
	}
	assert_ok(meta_read(sim_disk_io(d), &got, &err));
	for (unsigned len = 0; len < sizeof(m); len++) {
		sim_disk_make(d, "meta");
		sim_disk_set(d, "meta", &m, len, 0);
		assert_int_equal(meta_read(sim_disk_io(d), &got, &err), -EUCLEAN);
	}
	m.format++;
	m.checksum = meta_checksum(&m);
	sim_disk_set(d, "meta", &m, sizeof(m), 0);
	assert_int_equal(meta_read(sim_disk_io(d), &got, &err), -EPROTO);
	sim_disk_destroy(d);
}

static bool by_mask(void *ctx, unsigned i)
{
	return *(const unsigned *)ctx >> i & 1;
}

/* After a crash at any point: the old one or the new one; once written: the new one. */
UNIT_TEST(every_crash)
{
	struct sim_disk *d = sim_disk_create(512);
	struct data_meta old = meta_of(7), new = meta_of(8), got;
	struct sim_disk *step;
	unsigned crashes = 0, olds = 0;

	assert_ok(meta_write(sim_disk_io(d), &old, &err));
	step = sim_disk_fork(d);
	for (unsigned before = sim_disk_ops(d), op = before; op <= sim_disk_ops(d); op++) {
		unsigned loose;

		if (op == before)
			assert_ok(meta_write(sim_disk_io(d), &new, &err));
		loose = sim_disk_loose(step);
		assert_true(loose < 10);
		for (unsigned mask = 0; mask < 1u << loose; mask++, crashes++) {
			struct sim_disk *after = sim_disk_crash(step, by_mask, &mask);

			assert_ok(meta_read(sim_disk_io(after), &got, &err));
			assert_true(got.life == 8 || (got.life == 7 && op < sim_disk_ops(d)));
			olds += got.life == 7;
			sim_disk_destroy(after);
		}
		if (op < sim_disk_ops(d))
			sim_disk_apply(step, d, op);
	}
	assert_true(olds > 0 && olds < crashes);
	print_message("%u crashes, %u of them before it was replaced\n", crashes, olds);
	sim_disk_destroy(step);
	sim_disk_destroy(d);
}

UNIT_TEST(every_fault)
{
	static const enum sim_call calls[] = { SIM_OPEN, SIM_WRITE, SIM_SYNC, SIM_RENAME,
					       SIM_SYNC_DIR };

	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct sim_disk *d = sim_disk_create(512);
		struct data_meta old = meta_of(7), new = meta_of(8), got;

		assert_ok(meta_write(sim_disk_io(d), &old, &err));
		sim_disk_fail(d, calls[i], 0, -EIO);
		assert_int_equal(meta_write(sim_disk_io(d), &new, &err), -EIO);
		assert_ok(meta_read(sim_disk_io(d), &got, &err));
		assert_int_equal(got.life, calls[i] == SIM_SYNC_DIR ? 8 : 7);
		sim_disk_destroy(d);
	}
}
