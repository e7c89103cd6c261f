#!/bin/sh
# Enables the service when it is new, and starts it. A service that was disabled by hand stays so.
set -e
unit=llm_prober.service
case "$1" in
configure | abort-*) ;;
*) exit 0 ;;
esac
if deb-systemd-helper --quiet was-enabled $unit; then
	deb-systemd-helper enable $unit >/dev/null
else
	deb-systemd-helper update-state $unit >/dev/null
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ -n "$2" ]; then action=restart; else action=start; fi
	deb-systemd-invoke $action $unit >/dev/null || true
fi
