/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The file that registered memory lies in is found, whatever else the process has open. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/softrdma/process/file.h"
#include "ends.h"

#define BYTES  8192u
#define OTHERS 200 /* descriptors */

static struct end end;

static int set_up(void **state)
{
	end_open(&end, &(struct end_options){ .mapped = true }); /* the process has an arena */
	return 0;
}

static int tear_down(void **state)
{
	end_close(&end);
	return 0;
}

UNIT_GROUP(set_up, tear_down);

static void is_found(void *memory, int fd, bool wanted)
{
	struct soft_file_ref ref;
	struct stat a, b;
	int copy;

	assert_ok(soft_file_find((uintptr_t)memory + 4096, 4096, true, &ref));
	assert_int_equal(ref.id != 0, wanted);
	if (!wanted)
		return;
	assert_int_equal(ref.offset, 4096);
	copy = soft_file_dup(ref.id);
	assert_ok(fstat(copy, &a));
	assert_ok(fstat(fd, &b));
	assert_int_equal(a.st_ino, b.st_ino);
	close(copy);
	soft_file_put(&ref);
}

static void *map(int *fd)
{
	void *memory;

	*fd = memfd_create("file", MFD_CLOEXEC);
	assert_true(*fd >= 0);
	assert_ok(ftruncate(*fd, BYTES));
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

UNIT_TEST(a_file_is_found_among_newer_ones_and_older_ones)
{
	int other[OTHERS], fd[3];
	void *memory[3];

	memory[0] = map(&fd[0]);
	for (unsigned i = 0; i < OTHERS; i++) {
		other[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(other[i] >= 0);
	}
	memory[1] = map(&fd[1]);
	close(other[OTHERS / 2]);
	memory[2] = map(&fd[2]); /* takes the number that is free */
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 3; i++)
			is_found(memory[i], fd[i], true);
	}
	for (unsigned i = 0; i < OTHERS; i++) {
		if (i != OTHERS / 2)
			close(other[i]);
	}
	for (unsigned i = 0; i < 3; i++) {
		close(fd[i]);
		is_found(memory[i], -1, false); /* nobody has it open any more */
		munmap(memory[i], BYTES);
	}
}
