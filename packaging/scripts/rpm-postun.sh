#!/bin/sh
# $1 is how many versions are left: after an upgrade, the new one.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ "$1" -ge 1 ]; then systemctl try-restart llm_prober.service; fi
fi
exit 0
