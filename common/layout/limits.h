/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Limits that both ends share. Bytes unless the name says otherwise. */

#define KEY_MIN	  1u
#define KEY_MAX	  1024u
#define VALUE_MAX (16u << 20)

#define SLAB_BYTES	   (1u << 20)
#define EXTENT_BYTES_FIRST (4u << 20)
#define EXTENT_BYTES_MAX   (256u << 20)
#define EXTENTS_MAX	   4096u /* 12 bits of a slot */
#define OFFSET_UNIT	   64u /* unit of a slot's offset; 22 bits reach EXTENT_BYTES_MAX */

#define RPC_EAGER_MAX	    8192u /* values up to here travel inside the request */
#define RPC_SLOTS_MAX	    64u /* credits of one queue pair: requests in flight */
#define SESSION_HANDLES_MAX 64u
/* One more for the housekeeper: the last number. */
#define SESSION_QPS_MAX (SESSION_HANDLES_MAX + 1u)
#define HOUSEKEEPER_QP	SESSION_HANDLES_MAX
