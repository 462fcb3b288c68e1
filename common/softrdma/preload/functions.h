/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The functions of libibverbs that this library stands in front of, each with the version node
 * that is its default in libibverbs. The one list: real.c looks the real functions up by it, and
 * version_script.py makes of it what the library exports.
 *
 * PRIVATE: the node of what libibverbs shares with its drivers; its name changes with releases.
 *
 * Missing on purpose: name@IBVERBS_1.0, the functions of 2006 with structs of another layout.
 * libibverbs keeps them as wrappers that call the functions of today by name, so that they too come
 * here, with soft0 in the list. tests/unit/softrdma/preload/not_interposed.txt has all others.
 */
#define SOFT_INTERPOSED(F)                            \
	F(ibv_create_comp_channel, "IBVERBS_1.0")     \
	F(ibv_destroy_comp_channel, "IBVERBS_1.0")    \
	F(ibv_read_sysfs_file, "IBVERBS_1.0")         \
	F(ibv_ack_async_event, "IBVERBS_1.1")         \
	F(ibv_ack_cq_events, "IBVERBS_1.1")           \
	F(ibv_alloc_pd, "IBVERBS_1.1")                \
	F(ibv_attach_mcast, "IBVERBS_1.1")            \
	F(ibv_close_device, "IBVERBS_1.1")            \
	F(ibv_create_ah, "IBVERBS_1.1")               \
	F(ibv_create_ah_from_wc, "IBVERBS_1.1")       \
	F(ibv_create_cq, "IBVERBS_1.1")               \
	F(ibv_create_qp, "IBVERBS_1.1")               \
	F(ibv_create_srq, "IBVERBS_1.1")              \
	F(ibv_dealloc_pd, "IBVERBS_1.1")              \
	F(ibv_dereg_mr, "IBVERBS_1.1")                \
	F(ibv_destroy_ah, "IBVERBS_1.1")              \
	F(ibv_destroy_cq, "IBVERBS_1.1")              \
	F(ibv_destroy_qp, "IBVERBS_1.1")              \
	F(ibv_destroy_srq, "IBVERBS_1.1")             \
	F(ibv_detach_mcast, "IBVERBS_1.1")            \
	F(ibv_free_device_list, "IBVERBS_1.1")        \
	F(ibv_get_async_event, "IBVERBS_1.1")         \
	F(ibv_get_cq_event, "IBVERBS_1.1")            \
	F(ibv_get_device_guid, "IBVERBS_1.1")         \
	F(ibv_get_device_list, "IBVERBS_1.1")         \
	F(ibv_get_device_name, "IBVERBS_1.1")         \
	F(ibv_init_ah_from_wc, "IBVERBS_1.1")         \
	F(ibv_modify_qp, "IBVERBS_1.1")               \
	F(ibv_modify_srq, "IBVERBS_1.1")              \
	F(ibv_open_device, "IBVERBS_1.1")             \
	F(ibv_query_device, "IBVERBS_1.1")            \
	F(ibv_query_gid, "IBVERBS_1.1")               \
	F(ibv_query_pkey, "IBVERBS_1.1")              \
	F(ibv_query_port, "IBVERBS_1.1")              \
	F(ibv_query_qp, "IBVERBS_1.1")                \
	F(ibv_query_srq, "IBVERBS_1.1")               \
	F(ibv_reg_mr, "IBVERBS_1.1")                  \
	F(ibv_rereg_mr, "IBVERBS_1.1")                \
	F(ibv_resize_cq, "IBVERBS_1.1")               \
	F(ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1") \
	F(ibv_get_pkey_index, "IBVERBS_1.5")          \
	F(ibv_qp_to_qp_ex, "IBVERBS_1.6")             \
	F(ibv_reg_mr_iova, "IBVERBS_1.7")             \
	F(ibv_reg_mr_iova2, "IBVERBS_1.8")            \
	F(ibv_get_device_index, "IBVERBS_1.9")        \
	F(ibv_import_device, "IBVERBS_1.10")          \
	F(ibv_import_mr, "IBVERBS_1.10")              \
	F(ibv_import_pd, "IBVERBS_1.10")              \
	F(ibv_query_ece, "IBVERBS_1.10")              \
	F(ibv_set_ece, "IBVERBS_1.10")                \
	F(ibv_unimport_mr, "IBVERBS_1.10")            \
	F(ibv_unimport_pd, "IBVERBS_1.10")            \
	F(_ibv_query_gid_ex, "IBVERBS_1.11")          \
	F(_ibv_query_gid_table, "IBVERBS_1.11")       \
	F(ibv_reg_dmabuf_mr, "IBVERBS_1.12")          \
	F(ibv_import_dm, "IBVERBS_1.13")              \
	F(ibv_unimport_dm, "IBVERBS_1.13")            \
	F(ibv_query_qp_data_in_order, "IBVERBS_1.14") \
	F(ibv_query_gid_type, PRIVATE)

/* Of librdmacm, which need not be there. In this order, and after those of libibverbs. */
#define SOFT_INTERPOSED_CM(F)                      \
	F(rdma_create_event_channel, "RDMACM_1.0") \
	F(rdma_create_id, "RDMACM_1.0")            \
	F(rdma_create_ep, "RDMACM_1.0")
