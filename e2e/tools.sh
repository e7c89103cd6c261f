#!/bin/sh
# Builds prometheus, promtool and alertmanager for the tests under e2e/ and prints the folder that holds them.
# Sources come from the Go module proxy alone. A tool that is there in the right version is not built again:
#   tools=$(e2e/tools.sh)
# The folder is $LLM_PROBER_TOOLS, by default ~/.cache/llm_prober/tools. Cold: about four minutes of two cores.
set -eu

prometheus=v0.316.0 # the module's number for Prometheus 3.16
alertmanager=v0.35.0

tools=${LLM_PROBER_TOOLS:-$HOME/.cache/llm_prober/tools}
mkdir -p "$tools"

# Builds must not see the go.mod of the caller's folder, nor flags meant for it.
export CGO_ENABLED=0 GOWORK=off GOFLAGS= GOBIN="$tools"
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"

# A stamp beside a tool tells the version it was built from: a copy that is built carries none.
is() { [ -x "$tools/$1" ] && [ -e "$tools/$1-$2" ]; }
built() { rm -f "$tools/$1"-v* && : >"$tools/$1-$2"; }

# Without the service discoveries of the clouds, which are four fifths of the build; static and file discovery stay.
for name in prometheus promtool; do
	if ! is $name $prometheus; then
		go install -tags remove_all_sd,netgo -ldflags '-s -w' "github.com/prometheus/prometheus/cmd/$name@$prometheus" >&2
		built $name $prometheus
	fi
done

# Its module embeds a web interface that it does not contain: build a copy with an empty one. The API is whole.
if ! is alertmanager $alertmanager; then
	module=$(go mod download -json "github.com/prometheus/alertmanager@$alertmanager" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",$/\1/p')
	cp -r "$module" copy
	chmod -R u+w copy
	cd copy
	for ui in elm mantine; do
		mkdir -p ui/app/dist/$ui
		: >ui/app/dist/$ui/index.html
	done
	go build -ldflags '-s -w' -o "$tools/alertmanager" ./cmd/alertmanager >&2
	built alertmanager $alertmanager
fi

echo "$tools"
