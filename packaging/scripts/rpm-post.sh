#!/bin/sh
# $1 is how many versions are installed afterwards. Whether a new service is enabled is the distribution's policy.
if [ "$1" -eq 1 ]; then systemctl preset llm_prober.service >/dev/null 2>&1; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
exit 0
