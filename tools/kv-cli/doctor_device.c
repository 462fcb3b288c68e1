/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* doctor: one RDMA device, its ports, GIDs and limits, and a READ on it from itself. */
#include <endian.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/table.h"
#include "common/layout/limits.h"
#include "common/rdma/loopback.h"
#include "tools/kv-cli/doctor.h"

#define LOOPBACK_TIMEOUT_MS 2000u
#define LARGEST_RECORD	    (VALUE_MAX + (2u << 20)) /* with key and header, in whole hugepages */
#define READ_DEPTH_WISH	    16 /* READs in flight on one queue pair that a batch can use */

static const char *link_words(unsigned layer)
{
	return layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
}

static const char *atomic_words(enum ibv_atomic_cap cap)
{
	return cap == IBV_ATOMIC_GLOB  ? "with the CPU's too"
	       : cap == IBV_ATOMIC_HCA ? "among the device's own"
				       : "none";
}

unsigned doctor_device_active(const struct survey_device *d, const struct rdma_options *options)
{
	for (unsigned i = 0; i < d->port_count; i++) {
		const struct survey_port *p = &d->ports[i];

		if ((!options->ib_port || options->ib_port == p->number) && !p->error.code &&
		    p->attr.state == IBV_PORT_ACTIVE)
			return p->number;
	}
	return 0;
}

json_t *doctor_limits(const struct ibv_device_attr *attr, json_t *findings)
{
	const struct {
		const char *name;
		uint64_t needed, wished, there;
		const char *why;
	} limits[] = {
		{ "max_mr_size", LARGEST_RECORD, EXTENT_BYTES_MAX, attr->max_mr_size,
		  "the largest record, the largest extent" },
		{ "max_qp", 2, 2 * SESSION_QPS_MAX, (uint64_t)attr->max_qp,
		  "one for each handle of each client" },
		{ "max_qp_wr", 128, 512, (uint64_t)attr->max_qp_wr, "a batch of READs, requests" },
		{ "max_cqe", 1024, 4096, (uint64_t)attr->max_cqe, "completions of a worker" },
		{ "max_srq_wr", 256, 4096, (uint64_t)attr->max_srq_wr, "requests of a worker" },
		{ "max_qp_rd_atom", 1, READ_DEPTH_WISH, (uint64_t)attr->max_qp_rd_atom,
		  "READs answered at once" },
		{ "max_qp_init_rd_atom", 1, READ_DEPTH_WISH, (uint64_t)attr->max_qp_init_rd_atom,
		  "READs in flight at once" },
	};
	json_t *table = json_array();

	for (unsigned i = 0; table && i < sizeof(limits) / sizeof(limits[0]); i++) {
		uint64_t there = limits[i].there;
		enum finding level = there < limits[i].needed	? FINDING_PROBLEM
				     : there < limits[i].wished ? FINDING_NOTE
								: FINDING_OK;

		json_array_append_new(
			table, json_pack("{s:s, s:I, s:I, s:I, s:s, s:s}", "name", limits[i].name,
					 "needed", (json_int_t)limits[i].needed, "wished",
					 (json_int_t)limits[i].wished, "there",
					 (json_int_t)(there > INT64_MAX ? INT64_MAX : there), "for",
					 limits[i].why, "level", finding_word(level)));
		if (level != FINDING_OK)
			finding_add(findings, level, limits[i].name,
				    level == FINDING_PROBLEM
					    ? "this device cannot serve GraceKV; take another"
					    : "it works, with less at once",
				    "%" PRIu64 " there, %" PRIu64 " needed, %" PRIu64
				    " wished (%s)",
				    there, limits[i].needed, limits[i].wished, limits[i].why);
	}
	return table;
}

static json_t *gids_of(const struct survey_port *p)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < p->gid_count; i++) {
		const struct survey_gid *g = &p->gids[i];

		json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s, s:b, s:s}", "index",
						      (int)g->entry.gid_index, "type",
						      gid_type_words(g->entry.gid_type), "gid",
						      g->text, "netdev", g->netdev, "taken",
						      (int)g->taken, "verdict", g->why));
	}
	return list;
}

static json_t *pkeys_of(const struct survey_port *p)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < p->pkey_count; i++) {
		char value[8];

		snprintf(value, sizeof(value), "0x%04x", p->pkeys[i].value);
		json_array_append_new(list,
				      json_pack("{s:i, s:s, s:b}", "index", (int)p->pkeys[i].index,
						"value", value, "full_member",
						(p->pkeys[i].value & RDMA_PKEY_FULL) != 0));
	}
	return list;
}

static json_t *port_of(const struct survey_device *d, const struct survey_port *p, json_t *findings)
{
	const struct ibv_port_attr *a = &p->attr;
	char about[32];

	snprintf(about, sizeof(about), "port %u", p->number);
	if (p->error.code) {
		finding_add(findings, FINDING_PROBLEM, about, "dmesg and the driver may say more",
			    "%s", p->error.text);
		return json_pack("{s:i, s:s}", "port", (int)p->number, "state", "unknown");
	}
	if (a->state != IBV_PORT_ACTIVE)
		finding_add(findings, FINDING_NOTE, about,
			    a->link_layer == IBV_LINK_LAYER_ETHERNET
				    ? "bring its network device up: ip link set NETDEV up"
				    : "is the cable in, and does a subnet manager run?",
			    "it is %s: nothing passes", ibv_port_state_str(a->state));
	if (p->gid_error.code)
		finding_add(findings, a->state == IBV_PORT_ACTIVE ? FINDING_PROBLEM : FINDING_NOTE,
			    about, "", "%s", p->gid_error.text);
	else if (p->choice.warn)
		finding_add(findings, FINDING_NOTE, about,
			    "give its network device an IP address, on both sides",
			    "the best GID there is may well not connect: %s", p->choice.why);
	return json_pack(
		"{s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:o, s:o}", "port", (int)p->number,
		"state", ibv_port_state_str(a->state), "link_layer", link_words(a->link_layer),
		"lid", (int)a->lid, "active_mtu", (int)rdma_mtu_bytes(a->active_mtu), "max_mtu",
		(int)rdma_mtu_bytes(a->max_mtu), "speed_mbps",
		d->software ? 0 : (int)survey_speed_mbps(a), "choice",
		p->gid_error.code ? "" : p->choice.why, "gids", gids_of(p), "pkeys", pkeys_of(p));
}

/* A READ on each ACTIVE port, or on the one asked for. */
static void loopback(const struct survey_device *d, const struct rdma_options *options,
		     json_t *findings)
{
	for (unsigned i = 0; i < d->port_count; i++) {
		struct rdma_options o = *options;
		struct rdma_device *dev;
		struct error err = { 0 };
		char about[32], traffic[128];
		int rc;

		if (d->ports[i].error.code || d->ports[i].attr.state != IBV_PORT_ACTIVE ||
		    (options->ib_port && options->ib_port != i + 1))
			continue;
		o.device = d->name;
		o.ib_port = i + 1;
		snprintf(about, sizeof(about), "loopback port %u", i + 1);
		rc = rdma_device_open(&dev, &o, NULL, &err);
		if (rc == 0) {
			rc = rdma_loopback_read(dev, LOOPBACK_TIMEOUT_MS, &err);
			rdma_traffic_words(dev, traffic, sizeof(traffic));
			rdma_device_close(dev);
		}
		if (rc)
			finding_add(findings, FINDING_PROBLEM, about, "", "%s", err.text);
		else
			finding_add(findings, FINDING_OK, about, "",
				    "a READ of %u bytes brought what it should%s", LOOPBACK_BYTES,
				    traffic);
	}
}

static void vet(const struct survey_device *d, const struct rdma_options *options, json_t *findings)
{
	struct error err = { 0 };

	if (d->error.code) {
		finding_add(findings, FINDING_PROBLEM, "opening it", "", "%s", d->error.text);
		return;
	}
	if (rdma_port_check(d->name, d->port_count, options->ib_port, &err))
		finding_add(findings, FINDING_PROBLEM, "port", "give another --ib-port", "%s",
			    err.text);
	loopback(d, options, findings);
}

json_t *doctor_device(const struct survey_device *d, const struct rdma_options *options)
{
	const struct ibv_device_attr *a = &d->attr;
	json_t *findings = json_array(), *ports = json_array(), *limits = NULL;
	char guid[24];

	if (d->error.code == 0) {
		for (unsigned i = 0; i < d->port_count; i++)
			json_array_append_new(ports, port_of(d, &d->ports[i], findings));
		limits = doctor_limits(a, findings);
	}
	vet(d, options, findings);
	snprintf(guid, sizeof(guid), "%016" PRIx64, be64toh(a->node_guid));
	return json_pack(
		"{s:s, s:b, s:s, s:s, s:s, s:i, s:i, s:s, s:o*, s:o, s:b, s:o}", "name", d->name,
		"software", (int)d->software, "node_type", ibv_node_type_str(d->node_type),
		"node_guid", guid, "firmware", a->fw_ver, "vendor_id", (int)a->vendor_id,
		"vendor_part_id", (int)a->vendor_part_id, "atomics", atomic_words(a->atomic_cap),
		"limits", limits, "ports", ports, "works",
		doctor_device_active(d, options) && finding_count(findings, FINDING_PROBLEM) == 0,
		"findings", findings);
}

static const char *text_of(const json_t *o, const char *name)
{
	const char *text = json_string_value(json_object_get(o, name));

	return text ? text : "";
}

static json_int_t number_of(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

static unsigned widest(const json_t *list, const char *name, unsigned least)
{
	json_t *o;
	size_t i;

	json_array_foreach (list, i, o) {
		unsigned len = (unsigned)strlen(text_of(o, name));

		least = len > least ? len : least;
	}
	return least;
}

/* By hand, not as a table: verdicts are long, and folded under their column. */
static void print_gids(const json_t *gids, FILE *out)
{
	unsigned gid = widest(gids, "gid", 3), netdev = widest(gids, "netdev", 6);
	unsigned indent = 5 + 5 + 2 + 10 + 2 + gid + 2 + netdev + 2;
	json_t *g;
	size_t i;

	if (json_array_size(gids))
		fprintf(out, "     %5s  %-10s  %-*s  %-*s  %s\n", "index", "type", (int)gid, "GID",
			(int)netdev, "netdev", "verdict");
	json_array_foreach (gids, i, g) {
		fprintf(out, "     %5d  %-10s  %-*s  %-*s  ", (int)number_of(g, "index"),
			text_of(g, "type"), (int)gid, text_of(g, "gid"), (int)netdev,
			text_of(g, "netdev"));
		text_folded(out, text_of(g, "verdict"), indent, indent);
	}
}

static void print_pkeys(const json_t *pkeys, FILE *out)
{
	char text[SURVEY_PKEYS_MAX * 24] = "";
	size_t used = 0, i;
	json_t *p;

	json_array_foreach (pkeys, i, p)
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%s%d: %s%s", i ? ", " : "",
			(int)number_of(p, "index"), text_of(p, "value"),
			json_is_true(json_object_get(p, "full_member")) ? "" : " (limited)");
	if (!used)
		return;
	fputs("     P_Keys  ", out);
	text_folded(out, text, 13, 13);
}

static void print_port(const json_t *port, FILE *out)
{
	const json_t *gids = json_object_get(port, "gids");
	json_int_t speed = number_of(port, "speed_mbps");

	fprintf(out, "  port %d    %s", (int)number_of(port, "port"), text_of(port, "state"));
	if (!gids) {
		fputc('\n', out);
		return;
	}
	fprintf(out, ", %s, LID %d, MTU %d (at most %d)", text_of(port, "link_layer"),
		(int)number_of(port, "lid"), (int)number_of(port, "active_mtu"),
		(int)number_of(port, "max_mtu"));
	if (speed)
		fprintf(out, ", %.1f Gb/s", (double)speed / 1000);
	fputc('\n', out);
	print_gids(gids, out);
	print_pkeys(json_object_get(port, "pkeys"), out);
}

static void print_limits(const json_t *limits, FILE *out)
{
	static const char *const headings[] = { "   ",	  "limit", ">needed", ">wished",
						">there", "for",   NULL };
	struct table *t = limits ? table_new(headings) : NULL;
	json_t *l;
	size_t i;

	json_array_foreach (limits, i, l) {
		json_int_t there = number_of(l, "there");

		table_cell(t, " ");
		table_cell(t, "%s", text_of(l, "name"));
		table_cell(t, "%" PRId64, (int64_t)number_of(l, "needed"));
		table_cell(t, "%" PRId64, (int64_t)number_of(l, "wished"));
		if (there == INT64_MAX)
			table_cell(t, "no limit");
		else
			table_cell(t, "%" PRId64, (int64_t)there);
		table_cell(t, "%s", text_of(l, "for"));
	}
	table_print(t, out);
}

void doctor_device_print(const json_t *device, FILE *out)
{
	const json_t *ports = json_object_get(device, "ports");
	json_t *p;
	char node[256];
	size_t i;

	fprintf(out, "Device %s%s\n", text_of(device, "name"),
		json_is_true(json_object_get(device, "software"))
			? " (software, processes of this machine only)"
			: "");
	snprintf(node, sizeof(node), "%s %s, firmware %s, vendor 0x%04x part %d, atomics: %s",
		 text_of(device, "node_type"), text_of(device, "node_guid"),
		 text_of(device, "firmware"), (unsigned)number_of(device, "vendor_id"),
		 (int)number_of(device, "vendor_part_id"), text_of(device, "atomics"));
	if (json_array_size(ports)) {
		fputs("  node      ", out);
		text_folded(out, node, 12, 12);
	}
	json_array_foreach (ports, i, p)
		print_port(p, out);
	print_limits(json_object_get(device, "limits"), out);
	findings_print(json_object_get(device, "findings"), out);
}
