# make test is all that a change needs; the rest is told beside each target.
GO ?= go
PKG := github.com/prometheus/common/version
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w \
	-X $(PKG).Version=$(VERSION) \
	-X $(PKG).Revision=$(shell git rev-parse HEAD 2>/dev/null) \
	-X $(PKG).Branch=$(shell git rev-parse --abbrev-ref HEAD 2>/dev/null)
MODULES := . dashboards packaging e2e

.PHONY: all build release demo test race lint fmt dashboards e2e test-vllm bench clean

all: lint test build

build: ## bin/llm_prober and bin/probetool, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

release: ## dist/: archives, deb, rpm and image with their checksums, the same bytes for the same commit
	rm -rf dist
	cd packaging && $(GO) run .

demo: ## a simulated server, probed: http://localhost:9877
	$(GO) run ./cmd/llm_prober --demo

test: ## all tests that need Go alone
	cd dashboards && $(GO) test ./...
	$(GO) test ./...

race: ## the same under the race detector; needs a C compiler
	$(GO) test -race ./...

lint: ## vet, staticcheck and gofumpt over all modules, with the tests that need a vLLM
	@for module in $(MODULES); do (cd $$module && \
		$(GO) vet -tags vllm ./... && $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -tags vllm ./...) || exit 1; done
	@out=$$($(GO) run mvdan.cc/gofumpt@v0.12.0 -l .); if [ -n "$$out" ]; then echo "gofumpt: $$out"; exit 1; fi

fmt:
	$(GO) run mvdan.cc/gofumpt@v0.12.0 -w .

dashboards: ## write dashboards/*.json anew
	cd dashboards && $(GO) run ./generate

e2e: ## with a real Prometheus, promtool, Alertmanager (built here, 4 minutes once) and, if there is one, Chromium; of the benches' own code, and of what is in a release
	cd packaging && $(GO) test ./...
	LLM_PROBER_TOOLS=$$(e2e/tools.sh) && export LLM_PROBER_TOOLS && cd e2e && $(GO) test -timeout 20m ./...

test-vllm: ## with a real vLLM: installs 6 GB, takes half an hour
	e2e/vllm/setup.sh && cd e2e && $(GO) test -tags vllm -v -timeout 60m ./vllm

bench: ## docs/performance.md explains the figures
	cd e2e && $(GO) run ./bench -out ../docs/performance.md

clean:
	rm -rf bin dist
