/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * For the tests of lists of READs: an end with private memory, a list, and the system call that
 * copies, which is wrapped: counted, cut short, and preceded or followed by what the peer may do at
 * that moment.
 */
#include "ends.h"

#define LIST	  256
#define PAGE	  4096
#define SGES	  16
#define CUT_NEVER SIZE_MAX

struct wrap {
	unsigned calls;
	size_t cut; /* bytes that a call copies at most */
	void (*before)(void), (*after)(void); /* once */
};

/* What the far end does when called. From PAGE on: unmap that page. */
enum deed { DEED_FILL, DEED_UNREADABLE, DEED_MAPPED, DEED_QP_ACCESS };

/* A list of requests; by default READs of 64 bytes from places far from each other. */
struct list {
	struct ibv_send_wr wr[LIST];
	struct ibv_sge sge[LIST];
};

extern struct wrap wrap;
extern struct far far;
extern struct end a;
extern struct list list;

/* The far memory is filled with a pattern and has been read once; @send_wr: of the near end. */
void open_both(bool mapped, uint32_t send_wr);
void close_both(void);

/* READ until the device has mapped what is there: the peer may be slow to hand over its file. */
void read_until_mapped(uint64_t addr, uint32_t rkey);

/* What the byte at @at of the far memory holds. */
unsigned char pattern(size_t at);

/* Where request @i of a list reads. */
size_t place(unsigned i);

void list_make(unsigned count, unsigned flags);
/* Post what was made; returns the number of system calls. */
unsigned list_post(int expected, struct ibv_send_wr **bad);
/* Has request @i brought its data, or touched nothing? */
void list_check(unsigned i, bool filled);
