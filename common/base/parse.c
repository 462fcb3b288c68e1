/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DIGITS "0123456789"

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

		if (unit && strcasecmp(end + 1, "B") == 0)
			return error_set(err, -EINVAL,
					 "%s: '%s': sizes are powers of two here (give %.*s or "
					 "%.*siB)",
					 what, text, (int)(end + 1 - text), text,
					 (int)(end + 1 - text), text);
		if (!unit || (end[1] && strcasecmp(end + 1, "iB") != 0))
			rc = -EINVAL;
		else
			shift = 10 * (unsigned)(unit - units + 1);
	}
	if (rc == -EINVAL)
		return error_set(err, -EINVAL,
				 "%s: '%s' is not a size (give bytes, or a whole number "
				 "with K, M, G or T, such as 512M or 512MiB)",
				 what, text);
	if (rc == -ERANGE || (shift && value > (UINT64_MAX >> shift)))
		return error_set(err, -ERANGE, "%s: %s does not fit in 64 bits (give less)", what,
				 text);
	*out = value << shift;
	return 0;
}

struct duration_unit {
	const char *name;
	uint64_t ms;
};

static const struct duration_unit duration_units[] = {
	{ "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
};

/* The unit at @text, or @usual where there is none; NULL: it is none. */
static const struct duration_unit *duration_unit(const char *text, const char *usual)
{
	for (size_t i = 0; i < sizeof(duration_units) / sizeof(duration_units[0]); i++) {
		if (strcasecmp(*text ? text : usual, duration_units[i].name) == 0)
			return &duration_units[i];
	}
	return NULL;
}

/* "90 s", "250 ms": the largest unit that says it in a whole number. */
static const char *duration_text(char out[32], uint64_t ms)
{
	size_t i = sizeof(duration_units) / sizeof(duration_units[0]) - 1;

	while (i > 0 && (!ms || ms % duration_units[i].ms))
		i--;
	snprintf(out, 32, "%" PRIu64 "%s", ms / duration_units[i].ms, duration_units[i].name);
	return out;
}

/* The digits after the point, as milliseconds of @unit_ms. Returns 0 or -ERANGE: it is finer. */
static int duration_fraction(const char *digits, size_t len, uint64_t unit_ms, uint64_t *ms)
{
	uint64_t part = 0, scale = 1;

	while (len && digits[len - 1] == '0')
		len--;
	if (len > 9)
		return -ERANGE;
	for (size_t i = 0; i < len; i++) {
		part = part * 10 + (uint64_t)(digits[i] - '0');
		scale *= 10;
	}
	*ms = part * unit_ms / scale;
	return part * unit_ms % scale ? -ERANGE : 0;
}

int parse_duration(const char *what, const char *text, const char *unit, uint64_t min_ms,
		   uint64_t max_ms, uint64_t *ms, struct error *err)
{
	const size_t whole_len = strspn(text, DIGITS);
	const char *point = text + whole_len, *rest = point + (*point == '.');
	const size_t part_len = rest > point ? strspn(rest, DIGITS) : 0;
	const struct duration_unit *u = duration_unit(rest + part_len, unit);
	char low[32], high[32];
	uint64_t whole = 0, part;

	if (!u || !(whole_len + part_len) || (rest > point && !part_len))
		return error_set(err, -EINVAL,
				 "%s: '%.40s' is not a duration (give a number with ms, s, m, h or "
				 "d, such as 30s; without a unit it is in %s)",
				 what, text, unit);
	errno = 0;
	if (whole_len)
		whole = strtoull(text, NULL, 10);
	if (duration_fraction(rest, part_len, u->ms, &part))
		return error_set(err, -ERANGE,
				 "%s: %.40s is finer than a millisecond (give whole milliseconds)",
				 what, text);
	if (errno || __builtin_mul_overflow(whole, u->ms, &whole) ||
	    __builtin_add_overflow(whole, part, &whole) || whole < min_ms || whole > max_ms)
		return error_set(err, -ERANGE, "%s: %.40s is out of range (give %s to %s)", what,
				 text, duration_text(low, min_ms), duration_text(high, max_ms));
	*ms = whole;
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
	} else if (text[0] && strspn(text, DIGITS) == host_len) { /* a port alone */
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
