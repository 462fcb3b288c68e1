/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A process that sits in a slot and answers nonsense: connecting to it fails in time, and leaves
 * nothing behind. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/softrdma/shared/shared.h"
#include "common/softrdma/process/wire.h"
#include "ends.h"
#include "tests/lib/own_process.h"

enum answer {
	ANSWER_NOTHING,
	ANSWER_CLOSE,
	ANSWER_SHORT,
	ANSWER_LONG,
	ANSWER_EMPTY_WITH_FILES,
	ANSWER_ERROR_WITH_FILES,
	ANSWER_POSITIVE_ERROR,
	ANSWER_OTHER_SEQUENCE,
	ANSWER_NO_FILES,
	ANSWER_NO_ARENA,
	ANSWER_UNSEALED,
	ANSWERS,
};

static void answer(int fd, enum answer how)
{
	struct wire_request request = { 0 };
	struct {
		struct wire_reply reply;
		char more[64];
	} message = { .reply.incarnation = 1 };
	int fds[WIRE_FDS_MAX], memory = memfd_create("squatter", MFD_CLOEXEC);
	size_t size = sizeof(message.reply);
	struct pollfd look = { .fd = fd, .events = POLLIN };
	unsigned count = 2;

	if (poll(&look, 1, 1000) != 1 || soft_wire_receive(fd, &request, sizeof(request), fds) < 0)
		return;
	fds[0] = memory;
	fds[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	message.reply.sequence = request.sequence;
	switch (how) {
	case ANSWER_CLOSE:
		return;
	case ANSWER_SHORT:
		size--;
		break;
	case ANSWER_LONG:
		size = sizeof(message);
		break;
	case ANSWER_EMPTY_WITH_FILES:
		size = 0;
		break;
	case ANSWER_ERROR_WITH_FILES:
		message.reply.error = -EAGAIN;
		break;
	case ANSWER_POSITIVE_ERROR:
		message.reply.error = 1;
		break;
	case ANSWER_OTHER_SEQUENCE:
		message.reply.sequence++;
		break;
	case ANSWER_NO_FILES:
		count = 0;
		break;
	case ANSWER_UNSEALED:
		if (ftruncate(memory, (off_t)SHARED_BYTES) < 0)
			return;
		break;
	default:
		break;
	}
	if (how != ANSWER_NOTHING)
		soft_wire_send(fd, &message, size, fds, count);
	/* until it has given up */
	poll(&look, 1, 5000);
}

static void squat(int to)
{
	uint32_t slot;
	int fd = soft_wire_claim(&slot);
	struct pollfd look = { .fd = fd, .events = POLLIN };

	if (fd < 0 || write(to, &slot, sizeof(slot)) != sizeof(slot))
		_exit(1);
	for (int how = 0; how < ANSWERS; how++) {
		int connection;

		if (poll(&look, 1, 10000) != 1)
			_exit(2);
		connection = accept(fd, NULL, NULL);
		answer(connection, (enum answer)how);
		close(connection);
	}
	_exit(0);
}

UNIT_TEST(test_strange_answers_leave_no_descriptors)
{
	struct end_options options = { 0 };
	int pipes[2], status = 0;
	struct end end;
	uint32_t slot;
	pid_t pid;

	assert_ok(pipe(pipes));
	pid = fork();
	if (pid == 0)
		squat(pipes[1]);
	assert_int_equal(read(pipes[0], &slot, sizeof(slot)), sizeof(slot));
	end_open(&end, &options);
	for (int how = 0; how < ANSWERS; how++) {
		unsigned before = own_descriptors();
		uint64_t began = time_now_ns();

		assert_ok(end_init(&end));
		assert_ok(end_rtr(&end, qpn_make(slot, 0, 5)));
		assert_true(time_now_ns() - began < 3 * NS_PER_S);
		if (own_descriptors() != before)
			print_error("answer %d\n", how);
		assert_int_equal(own_descriptors(), before);
		assert_ok(end_to(&end, IBV_QPS_RESET));
	}
	end_close(&end);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pipes[0]);
	close(pipes[1]);
}
