/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Rows of a table of options, and those that programs share. For the file that has the table: it
 * defines OPTION_BASE, the object whose fields receive the values. --help has @argument and @help.
 */
#include "tools/lib/program.h"

#define OPTION_ROW(name, letter, kind, field, min, max, words, argument, help)          \
	{                                                                               \
		name, letter, kind, &OPTION_BASE.field, min, max, words, argument, help \
	}
#define FLAG(name, letter, field, help) \
	OPTION_ROW(name, letter, PROGRAM_FLAG, field, 0, 0, NULL, NULL, help)
#define TEXT(name, letter, argument, field, help) \
	OPTION_ROW(name, letter, PROGRAM_TEXT, field, 0, 0, NULL, argument, help)
#define LIST(name, letter, field, help) \
	OPTION_ROW(name, letter, PROGRAM_LIST, field, 0, 0, NULL, "LIST", help)
#define CHOICE(name, letter, argument, field, words, help) \
	OPTION_ROW(name, letter, PROGRAM_CHOICE, field, 0, 0, words, argument, help)
#define NUMBER(name, letter, argument, field, min, max, help) \
	OPTION_ROW(name, letter, PROGRAM_NUMBER, field, min, max, NULL, argument, help)
#define SIZE(name, letter, field, min, max, help) \
	OPTION_ROW(name, letter, PROGRAM_SIZE, field, min, max, NULL, "SIZE", help)

#define OPTION_DEVICE(field) TEXT("device", 'd', "NAME", field, "RDMA device [auto]")
#define OPTION_PKEY_INDEX(name, field)        \
	NUMBER(name, 0, "N", field, 0, 65535, \
	       "of the port's P_Key table, as kv-cli doctor shows it [0]")
#define OPTION_SERVICE_LEVEL(name, letter, field) \
	NUMBER(name, letter, "N", field, 0, 15,   \
	       "service level; on Ethernet the priority, 0 to 7 [0]")
#define OPTION_TRAFFIC_CLASS(name, field) \
	NUMBER(name, 0, "N", field, 0, 255, "traffic class; on RoCE v2 four times the DSCP [0]")
#define OPTION_TIMEOUT(field, usual)                   \
	NUMBER("timeout", 0, "MS", field, 1, 86400000, \
	       "of one operation, reconnecting included [" usual "]")
#define OPTION_BINARY(field) \
	TEXT("binary", 'B', "FILE", field, "the kv-server to start [of the same build]")
#define OPTION_LISTEN(field) \
	TEXT("listen", 'l', "HOST", field, "address of the kv-server that it starts [127.0.0.1]")
#define OPTION_CONNECT(field) \
	CHOICE("connect", 'C', "tcp|cm", field, "tcp|cm", "how queue pairs are connected [tcp]")
#define OPTION_CHECK(field) FLAG("check", 'c', field, "exit with 1 where a promise is not kept")
#define OPTION_JSON(field) \
	FLAG("json", 'j', field, "print one JSON document; errors too, on stderr")
#define OPTION_REPORT(field)                 \
	TEXT("report", 'o', "FOLDER", field, \
	     "also write report.md, results.json and plots (SVG) there")
