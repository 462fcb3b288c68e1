/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Faults on request, for tests: SOFTRDMA_FAULT="reg_mr=ENOMEM@3,create_qp=ENOMEM@1" lets the third
 * reg_mr of the process and all after it fail, and every create_qp. Read once, at the first call.
 */
enum fault_point { FAULT_REG_MR, FAULT_CREATE_QP, FAULT_POINTS };

/* soft_fault - count a call at @point. Returns 0, or the errno to fail with. Any thread. */
int soft_fault(enum fault_point point);
