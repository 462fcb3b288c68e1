/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* lin-client: one of the processes that the supervisor (../run.py) starts, stops and kills. */
#include <string.h>

#include "tests/linearizability/client/member.h"
#include "tools/lib/option_rows.h"

#define ROLES "actors|grow|press"

static struct member_options given = { .role = "actors", .threads = 2, .process = 1 };

#define OPTION_BASE given

static const struct program_option options[] = {
	TEXT("server", 's', "HOST:PORT", server, ""),
	OPTION_DEVICE(device),
	TEXT("board", 'b', "FILE", board, "made by the supervisor"),
	TEXT("folder", 'f', "DIR", folder, "for the history: history.PROCESS.THREAD"),
	CHOICE("role", 'r', "WHAT", role, ROLES, ROLES " [actors]"),
	NUMBER("seed", 'S', "N", seed, 0, UINT64_MAX, "of all choices [0]"),
	NUMBER("process", 'p', "N", process, 1, 1000000,
	       "number of this process, which no other had in DIR [1]"),
	NUMBER("threads", 't', "N", threads, 1, MEMBER_THREADS_MAX, "[2]"),
	NUMBER("pace", 'P', "US", pace_us, 0, 1000000,
	       "a pause of so many microseconds, on the average, between eight operations [0]"),
	{ NULL },
};

static const struct program program = {
	.name = "lin-client",
	.usage = "Usage: lin-client --server HOST:PORT --board FILE --folder DIR [OPTIONS]\n\n"
		 "A client process of tests/linearizability, as its supervisor run.py starts it: "
		 "makes\n"
		 "operations on the keys that the board names and records them in DIR.\n\n",
	.notes = "\n"
		 "Exit status: 0 it was told to stop; 1 an answer that cannot be, on stderr as "
		 "WRONG;\n"
		 "2 wrong usage; 3 it could not run.\n",
	.options = options,
};

int main(int argc, char **argv)
{
	struct board *board;
	struct error err;
	int status;

	if (program_options(&program, argc, argv, &status))
		return status;
	if (!given.board || (!given.folder && strcmp(given.role, "actors") == 0))
		return program_failed(&program, "--board and --folder", "are both needed");
	if (board_map(given.board, &board, &err))
		return program_failed(&program, "the board", err.text);
	if (strcmp(given.role, "grow") == 0)
		return ballast_grow(&given, board);
	if (strcmp(given.role, "press") == 0)
		return ballast_press(&given, board);
	return member_run(&given, board);
}
