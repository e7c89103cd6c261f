#!/bin/sh
# A purge leaves nothing: not the state of the service, not its user, who owns no file.
set -e
if [ "$1" = purge ]; then
	deb-systemd-helper purge llm_prober.service >/dev/null
	if getent passwd llm_prober >/dev/null; then userdel llm_prober; fi
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
