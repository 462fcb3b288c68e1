/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* SIGINT, SIGTERM and SIGHUP: what runs comes to its end, and what there is by then is reported. */
#include <stdbool.h>

/* stop_listen - from now on; a second signal of the kind ends the program. */
void stop_listen(void);

/* stop_wanted - any thread. */
bool stop_wanted(void);
