/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include <stdint.h>

#include "common/layout/fields.h"

/*
 * What one side offers for a queue pair, 64 B. In QP_OPEN and QP_OPENED; between members of
 * a group handle, credits and ask are 0.
 *     0  gid 16   16 qpn 4   20 psn 4   24 lid 2   26 link_layer 1 (IBV_LINK_LAYER_*)
 *    27  mtu 1 (enum ibv_mtu)   28 rd_initiator 1   29 rd_responder 1   30 ib_port 1
 *    31  has_gid 1 (1: gid and gid_type are set)   32 handle 4 (number of the client's handle)
 *    36  credits 4 (asked for, granted; HOUSEKEEPER_QP: 0, it carries no requests)   40 gid_type 1
 *        (enum ibv_gid_type)   41 reserved0 3   44 ask 4 (not 0)   48 reserved 16
 */
struct wire_qp {
	uint8_t gid[16];
	uint32_t qpn;
	uint32_t psn;
	uint16_t lid;
	uint8_t link_layer;
	uint8_t mtu;
	uint8_t rd_initiator;
	uint8_t rd_responder;
	uint8_t ib_port;
	uint8_t has_gid;
	uint32_t handle;
	uint32_t credits;
	uint8_t gid_type;
	uint8_t reserved0[3];
	uint32_t ask;
	uint8_t reserved[16];
};

LAYOUT(struct wire_qp, 64, gid, 0, qpn, 16, psn, 20, lid, 24, link_layer, 26, mtu, 27, rd_initiator,
       28, rd_responder, 29, ib_port, 30, has_gid, 31, handle, 32, credits, 36, gid_type, 40,
       reserved0, 41, ask, 44, reserved, 48);
