/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * SIGINT, SIGTERM and SIGHUP of programs that take long: what runs comes to its end, what there is
 * by then is reported, and what was made is put away.
 */

/*
 * stop_listen - from now on these signals are only noted, SIGHUP where nobody has said that it is
 * to be ignored (nohup); and writing to a pipe that nobody reads is an error. Some senders send
 * twice at once; one that comes a second later ends the program as it stands.
 */
void stop_listen(void);

/* stop_wanted - the signal that came, or 0. Any thread. */
int stop_wanted(void);
