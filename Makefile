# Everything a contributor needs: make test. See CONTRIBUTING in the README.
GO ?= go
PKG := github.com/prometheus/common/version
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w \
	-X $(PKG).Version=$(VERSION) \
	-X $(PKG).Revision=$(shell git rev-parse HEAD 2>/dev/null) \
	-X $(PKG).Branch=$(shell git rev-parse --abbrev-ref HEAD 2>/dev/null)

.PHONY: all build demo test race lint fmt clean

all: lint test build

build: ## bin/llm_prober and bin/probetool
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

demo: ## a simulated server, probed; http://localhost:9877
	$(GO) run ./cmd/llm_prober --demo

test: ## all tests; needs Go alone
	$(GO) test ./...

race: ## the same under the race detector; needs a C compiler
	$(GO) test -race ./...

lint: ## what CI checks beside the tests
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	@out=$$($(GO) run mvdan.cc/gofumpt@v0.12.0 -l .); if [ -n "$$out" ]; then echo "gofumpt: $$out"; exit 1; fi

fmt:
	$(GO) run mvdan.cc/gofumpt@v0.12.0 -w .

clean:
	rm -rf bin
