#!/bin/sh
# The user of the service; the configuration belongs to its group, and is laid down next.
set -e
if ! getent passwd llm_prober >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin llm_prober
fi
