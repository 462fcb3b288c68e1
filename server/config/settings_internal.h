/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the files of settings share. */
#include "server/config/settings.h"

/*
 * settings_give - the value of setting @id, which came @from there, unless a source with precedence
 * gave one. Both texts are copied. Returns 0 or -ENOMEM.
 */
int settings_give(struct setting_values *v, unsigned id, const char *text, const char *from);

/* settings_give_file - the configuration file's name, copied. Returns 0 or -ENOMEM. */
int settings_give_file(struct setting_values *v, const char *path);

/* settings_from_environment - those of GRACEKV_ variables, and --config. Returns 0 or -ENOMEM. */
int settings_from_environment(struct setting_values *v);

/* settings_from_file - those of v->config_file; NULL: none. Returns 0 or a negative errno. */
int settings_from_file(struct setting_values *v, struct error *err);
