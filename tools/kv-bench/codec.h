/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Three protocols over the same stream: requests to bytes, bytes to what came of an operation.
 * Replies come in the order of requests. Bytes of a server are not trusted. Pure.
 */
#include <stdint.h>
#include <sys/types.h>

#include "tools/kv-bench/driver.h"

#define CODEC_MORE    192u /* bytes of a request or a reply besides its value, at most */
#define CODEC_LINE    512u /* a line of a reply is not longer */
#define CODEC_WHY_MAX 160u

struct codec {
	/* The request, into @out, which has CODEC_MORE bytes and those of the value. Its length. */
	size_t (*request)(const struct kv_op *op, char *out);
	/*
	 * The reply to @op stands at @in, with @len bytes of it come. Returns how many bytes it is;
	 * 0: more have to come; -EPROTO: it is no reply; -EIO: the server refuses; with @why.
	 */
	ssize_t (*reply)(struct kv_op *op, const char *in, size_t len, char why[CODEC_WHY_MAX]);
};

extern const struct codec codec_resp; /* of Redis */
extern const struct codec codec_memcached; /* its text */
extern const struct codec codec_frame; /* of the floor server, see floor.h */

/* For the protocols of lines. */

/* codec_line - the length of the line at @in with its \r\n; 0: more has to come; or -EPROTO. */
ssize_t codec_line(const char *in, size_t len, char why[CODEC_WHY_MAX]);

/* codec_number - digits from *@at on, before @end; moves *@at. Returns 0 or -EPROTO. */
int codec_number(const char **at, const char *end, uint64_t *out);

/* codec_refused - the line at @in, without its end, as words. Returns @code. */
int codec_refused(int code, const char *in, size_t len, char why[CODEC_WHY_MAX]);

/*
 * codec_value - a value of @bytes and what stands behind it: @end, of @end_len bytes. It begins
 * @head bytes after @in. As codec.reply().
 */
ssize_t codec_value(struct kv_op *op, const char *in, size_t len, size_t head, uint64_t bytes,
		    const char *end, char why[CODEC_WHY_MAX]);
