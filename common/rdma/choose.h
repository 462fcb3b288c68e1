/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Which device and port are taken where no option names them. A NIC with two ports is two devices,
 * or one device with two ports, and each port is often a network of its own, a rail: where server
 * and client meet on different ones, they connect to nothing. TCP has just shown, or the person who
 * gave the listening address has said, which network is meant. So all triples of device, ACTIVE
 * port and GID are ranked:
 *
 *	1. a port that has a usable GID of the network device that holds the exchange's address, or
 *	   over which that device carries IP over InfiniBand;
 *	2. the rank of the best GID (gid.h): v1 on the right rail is better than v2 on another;
 *	3. the order of the devices and ports.
 *
 * Without an address, or where it means all addresses, only 3 counts. A port without a usable GID
 * is passed over. soft0 is looked at where no real device has an ACTIVE port.
 */
#include "common/rdma/device.h"

/*
 * rdma_device_choose - find and open what dev->options asks for: ops, context, attr, port,
 * port_attr, source, choice and what else says which it is. @address: as rdma_device_open(), and
 * its errors.
 */
int rdma_device_choose(struct rdma_device *dev, const char *address, struct error *err);
