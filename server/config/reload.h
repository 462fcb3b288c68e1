/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* SIGHUP: the settings are collected again, and what can change while the server runs does. */
#include "server/config/config.h"
#include "server/config/settings.h"

/*
 * config_reload - from the same command line and its file. The log tells of each setting that has
 * changed, and why where it does not take effect. With an error in the file nothing changes.
 * @running: the settings in force, which are kept in step. The main thread's.
 */
void config_reload(struct setting_values *running, int argc, char **argv);
