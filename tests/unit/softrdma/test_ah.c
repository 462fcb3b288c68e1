/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Address handles: which paths are one, and the way back to the sender of a datagram. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "ends.h"

#include "common/softrdma/objects/ah.h"

#define IBA	0x1b
#define UDP	17
#define FLOW	0x12345u
#define CLASS	0xa7u
#define VERSION 6u

struct world {
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid[4]; /* the table */
};

static int world_open(void **state)
{
	static struct world w;

	w.context = softrdma_open_device(softrdma_device());
	assert_non_null(w.context);
	w.pd = softrdma_alloc_pd(w.context);
	assert_non_null(w.pd);
	for (int i = 0; i < 4; i++)
		assert_ok(softrdma_query_gid(w.context, 1, i, &w.gid[i]));
	*state = &w;
	return 0;
}

static int world_close(void **state)
{
	struct world *w = *state;

	assert_ok(softrdma_dealloc_pd(w->pd));
	assert_ok(softrdma_close_device(w->context));
	return 0;
}

static void refused(struct world *w, struct ibv_ah_attr *attr)
{
	errno = 0;
	assert_null(softrdma_create_ah(w->pd, attr));
	assert_int_equal(errno, EINVAL);
}

UNIT_TEST(test_create)
{
	struct world *w = *state;
	struct ibv_ah_attr good = end_path(w->context), bad;
	struct ibv_ah *ah, *other;

	good.sl = 3;
	ah = softrdma_create_ah(w->pd, &good);
	assert_non_null(ah);
	assert_ptr_equal(ah->context, w->context);
	assert_ptr_equal(ah->pd, w->pd);
	assert_memory_equal(&soft_ah(ah)->attr, &good, sizeof(good));
	/* the caller's struct is free again */
	bad = good;
	memset(&good, 0xff, sizeof(good));
	assert_memory_equal(&soft_ah(ah)->attr, &bad, sizeof(bad));
	good = bad;
	bad.port_num = 0;
	refused(w, &bad);
	bad.port_num = 2;
	refused(w, &bad);
	bad = good;
	bad.is_global = 0;
	refused(w, &bad);
	bad = good;
	bad.grh.sgid_index = 4;
	refused(w, &bad);
	bad = good;
	bad.grh.dgid.raw[15] = 2; /* the GID of SOFTRDMA_LINK=ib */
	refused(w, &bad);
	for (int i = 0; i < 4; i++) {
		good.grh.sgid_index = (uint8_t)i;
		good.grh.dgid = w->gid[i];
		other = softrdma_create_ah(w->pd, &good);
		assert_non_null(other);
		assert_int_not_equal(other->handle, ah->handle);
		assert_ok(softrdma_destroy_ah(other));
	}
	assert_ok(softrdma_destroy_ah(ah));
}

UNIT_TEST(test_holds_pd)
{
	struct world *w = *state;
	struct ibv_pd *pd = softrdma_alloc_pd(w->context);
	struct ibv_ah_attr attr = end_path(w->context);
	struct ibv_ah *ah = softrdma_create_ah(pd, &attr);

	assert_non_null(ah);
	assert_int_equal(softrdma_dealloc_pd(pd), EBUSY);
	attr.is_global = 0;
	assert_null(softrdma_create_ah(pd, &attr)); /* holds nothing */
	assert_ok(softrdma_destroy_ah(ah));
	assert_ok(softrdma_dealloc_pd(pd));
}

/* As soft0 writes it in front of a datagram from GID @from to GID @to. */
static struct ibv_grh header(struct world *w, int from, int to)
{
	struct ibv_grh grh = { .version_tclass_flow = htonl(VERSION << 28 | CLASS << 20 | FLOW),
			       .paylen = htons(64),
			       .next_hdr = IBA,
			       .hop_limit = 1,
			       .sgid = w->gid[from],
			       .dgid = w->gid[to] };

	return grh;
}

UNIT_TEST(test_reply)
{
	struct world *w = *state;
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .slid = 9, .sl = 5, .dlid_path_bits = 2 };
	struct ibv_grh grh = header(w, 0, 3), bad;
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	memset(&attr, 0xff, sizeof(attr));
	assert_ok(softrdma_init_ah_from_wc(w->context, 1, &wc, &grh, &attr));
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.dlid, 9);
	assert_int_equal(attr.sl, 5);
	assert_int_equal(attr.src_path_bits, 2);
	assert_int_equal(attr.static_rate, 0);
	assert_memory_equal(&attr.grh.dgid, &w->gid[0], sizeof(union ibv_gid));
	assert_int_equal(attr.grh.sgid_index, 3); /* of 2 and 3, which are one address */
	assert_int_equal(attr.grh.flow_label, FLOW);
	assert_int_equal(attr.grh.traffic_class, CLASS);
	assert_int_equal(attr.grh.hop_limit, 255);
	ah = softrdma_create_ah_from_wc(w->pd, &wc, &grh, 1);
	assert_non_null(ah);
	assert_memory_equal(&soft_ah(ah)->attr, &attr, sizeof(attr));
	assert_ok(softrdma_destroy_ah(ah));
	grh = header(w, 3, 0);
	assert_ok(softrdma_init_ah_from_wc(w->context, 1, &wc, &grh, &attr));
	assert_int_equal(attr.grh.sgid_index, 1);
	assert_memory_equal(&attr.grh.dgid, &w->gid[3], sizeof(union ibv_gid));

	bad = grh;
	bad.next_hdr = UDP;
	assert_int_equal(softrdma_init_ah_from_wc(w->context, 1, &wc, &bad, &attr), -1);
	assert_int_equal(errno, EINVAL);
	bad = grh;
	bad.version_tclass_flow = htonl(4u << 28);
	assert_int_equal(softrdma_init_ah_from_wc(w->context, 1, &wc, &bad, &attr), -1);
	bad = grh;
	bad.dgid.raw[0] ^= 1; /* to somebody else */
	assert_int_equal(softrdma_init_ah_from_wc(w->context, 1, &wc, &bad, &attr), -1);
	assert_null(softrdma_create_ah_from_wc(w->pd, &wc, &bad, 1));
	bad = grh;
	bad.sgid.raw[0] ^= 1; /* from a sender that is not here: a reply has no path */
	assert_ok(softrdma_init_ah_from_wc(w->context, 1, &wc, &bad, &attr));
	assert_null(softrdma_create_ah_from_wc(w->pd, &wc, &bad, 1));
	assert_int_equal(softrdma_init_ah_from_wc(w->context, 2, &wc, &grh, &attr), -1);
	/* without the flag the header is not looked at */
	wc.wc_flags = 0;
	assert_ok(softrdma_init_ah_from_wc(w->context, 1, &wc, NULL, &attr));
	assert_int_equal(attr.is_global, 0);
	assert_null(softrdma_create_ah_from_wc(w->pd, &wc, NULL, 1));
}

UNIT_GROUP(world_open, world_close);
