/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int parse_digits(const char *text, char **end, uint64_t *out)
{
	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	*out = strtoull(text, end, 10);
	return errno ? -ERANGE : 0;
}

int parse_u64(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out,
	      struct error *err)
{
	uint64_t value;
	char *end;
	int rc = parse_digits(text, &end, &value);

	if (rc == -EINVAL || (rc == 0 && *end))
		return error_set(err, -EINVAL,
				 "%s: '%s' is not a number (give %" PRIu64 " to %" PRIu64 ")", what,
				 text, min, max);
	if (rc == -ERANGE || value < min || value > max)
		return error_set(err, -ERANGE,
				 "%s: %s is out of range (give %" PRIu64 " to %" PRIu64 ")", what,
				 text, min, max);
	*out = value;
	return 0;
}

int parse_size(const char *what, const char *text, uint64_t *out, struct error *err)
{
	static const char units[] = "KMGT";
	uint64_t value;
	unsigned shift = 0;
	char *end;
	int rc = parse_digits(text, &end, &value);

	if (rc == 0 && *end) {
		const char *unit = strchr(units, toupper((unsigned char)*end));

		if (!unit || end[1])
			rc = -EINVAL;
		else
			shift = 10 * (unsigned)(unit - units + 1);
	}
	if (rc == -EINVAL)
		return error_set(err, -EINVAL,
				 "%s: '%s' is not a size (give bytes, or a number "
				 "with K, M, G or T, such as 512M)",
				 what, text);
	if (rc == -ERANGE || (shift && value > (UINT64_MAX >> shift)))
		return error_set(err, -ERANGE, "%s: %s does not fit in 64 bits (give less)", what,
				 text);
	*out = value << shift;
	return 0;
}

int parse_host_port(const char *what, const char *text, char host[256], char port[8],
		    struct error *err)
{
	const char *colon, *host_start = text;
	size_t host_len;

	if (text[0] == '[') {
		const char *close = strchr(text, ']');

		if (!close || (close[1] && close[1] != ':'))
			goto bad;
		host_start = text + 1;
		host_len = (size_t)(close - host_start);
		colon = close[1] ? close + 1 : NULL;
	} else {
		colon = strrchr(text, ':');
		if (colon && strchr(text, ':') != colon)
			goto bad; /* an IPv6 address wants brackets */
		host_len = colon ? (size_t)(colon - text) : strlen(text);
	}
	if (host_len > 255)
		goto bad;
	if (colon) {
		uint64_t number;

		if (parse_u64(what, colon + 1, 0, 65535, &number, err) || strlen(colon + 1) > 5)
			goto bad;
		strcpy(port, colon + 1);
	}
	if (host_len) {
		memcpy(host, host_start, host_len);
		host[host_len] = '\0';
	}
	return 0;
bad:
	return error_set(err, -EINVAL,
			 "%s: '%s' is not HOST:PORT (an IPv6 address goes into "
			 "brackets, such as [::1]:7471; ports are 0 to 65535)",
			 what, text);
}
