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
	const char *host_start = text, *port_start = NULL, *end;
	size_t host_len = strlen(text);
	uint64_t number;

	for (const char *c = text; *c; c++) {
		if (!isgraph((unsigned char)*c)) /* the words below are shown on a terminal */
			return error_set(err, -EINVAL,
					 "%s: byte 0x%02x stands in no host's name or address "
					 "(give HOST:PORT in ASCII)",
					 what, (unsigned char)*c);
	}
	if (text[0] == '[') { /* an IPv6 address */
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			goto bad;
		host_start = text + 1;
		host_len = (size_t)(end - host_start);
		port_start = end[1] ? end + 2 : NULL;
	} else if (text[0] && strspn(text, "0123456789") == host_len) { /* a port alone */
		port_start = text;
		host_len = 0;
	} else if ((end = strchr(text, ':'))) {
		if (strchr(end + 1, ':'))
			goto bad; /* an IPv6 address without brackets */
		host_len = (size_t)(end - text);
		port_start = end + 1;
	}
	if (host_len > 255)
		goto bad;
	if (port_start) {
		if (strlen(port_start) > 5 || parse_u64(what, port_start, 0, 65535, &number, err))
			goto bad;
		strcpy(port, port_start);
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
