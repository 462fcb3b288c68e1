/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/config/reload.h"

#include <string.h>

#include "common/base/log.h"

static bool changed(const struct setting_values *a, const struct setting_values *b,
		    enum setting_id id)
{
	return strcmp(settings_text(a, id), settings_text(b, id)) != 0;
}

/* Settings that can change do. Returns how many did. */
static unsigned take_over(struct setting_values *running, struct setting_values *now,
			  const struct config *config)
{
	unsigned count = 0;

	if (!log_enabled(LOG_INFO)) /* what is said here is seen where either level shows it */
		log_change(config->log_level, config->log_format);
	for (unsigned i = 0; i < SETTINGS_COUNT; i++) {
		if (settings[i].fixed || !changed(running, now, i))
			continue;
		log_info("config", "SIGHUP: %s is %s from now on, it was %s", settings[i].name,
			 settings_text(now, i), settings_text(running, i));
		settings_swap(running, now, i);
		count++;
	}
	log_change(config->log_level, config->log_format);
	return count;
}

/* Of the others it is said why they do not. Returns how many there are. */
static unsigned keep(const struct setting_values *running, const struct setting_values *now)
{
	unsigned count = 0;

	for (unsigned i = 0; i < SETTINGS_COUNT; i++) {
		const char *text = settings_text(running, i);

		if (!settings[i].fixed || !changed(running, now, i))
			continue;
		log_warn("config",
			 "SIGHUP: %s stays %s: %s (it changes when kv-server is started again%s)",
			 settings[i].name, text[0] ? text : "the default", settings[i].fixed,
			 settings_text(running, SET_DATA_DIR)[0]
				 ? ""
				 : ", and then all records are lost");
		count++;
	}
	return count;
}

void config_reload(struct setting_values *running, int argc, char **argv)
{
	struct setting_values now;
	enum config_next next;
	struct config config;
	struct error err;

	if (config_collect(&config, &now, argc, argv, &next, &err))
		log_error("config", "SIGHUP: nothing is reloaded: %s", err.text);
	else if (!now.config_file)
		log_info("config", "SIGHUP: there is no configuration file to reload (--config)");
	else if (take_over(running, &now, &config) + keep(running, &now) == 0)
		log_info("config", "SIGHUP: no setting has changed in %s", now.config_file);
	settings_free(&now);
}
