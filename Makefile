# Drover. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/drover-run/drover/internal/version.version=$(VERSION)
GO      ?= go
TOOL    := $(GO) tool -modfile=tools/go.mod
# The same setting for every build: a different one would compile the embedded
# server again.
export CGO_ENABLED := 0

# TESTFLAGS are flags for `go test`. The tests download nothing but Go modules.
# DROVER_SUITES lists the services that `make test` may use if they are available.
export TESTFLAGS ?=

##@ Start here
.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Build Drover and run a graph of tasks on an embedded Temporal server
	@examples/demo.sh

.PHONY: dev
dev: build ## Run all of Drover in one process until Ctrl-C
	bin/drover dev

##@ Build
.PHONY: build
build: bin/drover bin/drover-shim ## Build bin/drover and bin/drover-shim (the first time takes minutes: it links a Temporal server)

.PHONY: bin/drover bin/drover-agent bin/drover-shim
bin/drover bin/drover-agent bin/drover-shim:
	tools/progress.sh $(GO) build -v -ldflags '$(LDFLAGS)' -o $@ ./cmd/$(@F)

# bin/server/drover is drover without the embedded Temporal server.
.PHONY: bin/server/drover
bin/server/drover:
	$(GO) build -tags noembedded -ldflags '$(LDFLAGS)' -o $@ ./cmd/drover

.PHONY: binaries
binaries: build bin/drover-agent bin/server/drover ## Build also the smaller binaries: bin/drover-agent for executors, bin/server/drover without the Temporal server

# SIZES are the largest permitted sizes of the binaries, in MB.
SIZES := bin/drover=191 bin/server/drover=103 bin/drover-agent=42 bin/drover-shim=7

.PHONY: sizes
sizes: binaries ## Print the sizes of the binaries, and fail if one is too large
	@failed=0; for entry in $(SIZES); do file=$${entry%=*} limit=$${entry#*=}; size=$$(wc -c < $$file); \
	printf '%-20s %6d kB of at most %3d MB\n' $$file $$((size / 1000)) $$limit; [ $$size -le $$((limit * 1000000)) ] || failed=1; done; \
	[ $$failed = 0 ] || { echo 'sizes: a binary is too large; see go tool nm -size -sort size' >&2; exit 1; }

# Separate modules: Drover's plugins and the example plugins.
PLUGIN_MODULES := plugins $(patsubst %/go.mod,%,$(wildcard examples/fleets/*/go.mod))
PLUGINS        := $(addprefix bin/,$(notdir $(wildcard plugins/cmd/*)))

.PHONY: plugins
plugins: $(PLUGINS) ## Build the fleeting plugins to bin/

.PHONY: $(PLUGINS)
$(PLUGINS):
	cd plugins && $(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o ../$@ ./cmd/$(@F)

.PHONY: generate
generate: ## Generate code from api/openapi.yaml, from the rules for roles, and from the protocol of fleeting plugins
	$(GO) generate ./api/... ./gateway/... ./fleeting/wire
	$(GO) test -vet=off -count=1 -run TestRules_web ./gateway/access -update

.PHONY: reference
reference: ## Write docs/cli.md from the commands and their flags
	$(GO) test -count=1 -run TestPage_commands ./cmd/drover -update

.PHONY: busybox-image
busybox-image: ## Build the local image of examples/service.yaml from the host's static busybox
	examples/busybox-image.sh

.PHONY: bin/ca-certificates.crt
bin/ca-certificates.crt:
	$(GO) run ./deploy/certificates -out $@

.PHONY: image
image: build bin/drover-agent plugins bin/ca-certificates.crt ## Build the Drover image FROM scratch, tagged with the version and as latest
	docker build -t drover:$(VERSION) -t drover:latest .

# The web UI. Its built files are committed, so that no other target needs Node.js.
WEB_MODULES := web/node_modules/.package-lock.json
WEB_SOURCES := $(shell find web -name node_modules -prune -o -name e2e -prune -o -type f -print) api/openapi.yaml $(wildcard examples/*.yaml examples/tutorial/*.yaml)

$(WEB_MODULES): web/package.json web/package-lock.json
	@tools/node.sh
	cd web && npm ci
	@touch $@

# The built files are a prerequisite of the stamp: those of another commit are older
# or newer than the sources by chance.
gateway/ui/dist/index.html:
.bin/web: $(WEB_SOURCES) $(WEB_MODULES) gateway/ui/dist/index.html
	cd web && npm run --silent api && npm run --silent build
	@mkdir -p $(@D) && touch $@

.PHONY: web
web: .bin/web ## Build the web UI to gateway/ui/dist, which is committed (needs Node.js)

.PHONY: web-dev
web-dev: $(WEB_MODULES) ## Serve the web UI with hot reload, for the gateway at DROVER_SERVER (by default that of make dev)
	cd web && npm run --silent dev

##@ Check
.PHONY: test
test: build ## Run all tests that need only Go, git and make, and list the others with what they need
	@GO=$(GO) tools/test.sh unit || code=$$?; $(GO) run ./internal/testenv/stages left; exit $${code:-0}

.PHONY: check
check: lint workflowcheck check-clean replay web-check ## Run all checks that start nothing: linters, structure, generated code, stored histories, the web UI (needs Node.js)

.PHONY: smoke
smoke: build plugins smoke-tests smoke-web demo smoke-containers image-check ## Run one real thing of each kind: containers, PostgreSQL, a kill, a fleet, a browser, the demo, the image

.PHONY: smoke-tests
smoke-tests: build
	@GO=$(GO) tools/test.sh smoke

.PHONY: smoke-web
smoke-web: .bin/web
	@$(MAKE) --no-print-directory build plugins
	cd web && DROVER_REQUIRE=browser npm run --silent e2e -- e2e/journey.e2e.ts

.PHONY: smoke-containers
smoke-containers: build busybox-image
	@set -e; for example in service helper; do examples/with-dev.sh docker bin/drover run examples/$$example.yaml --follow; done

.PHONY: image-check
image-check:
	.ci/image

.PHONY: test-stage
test-stage: build
	@GO=$(GO) tools/test.sh $(STAGE)

.PHONY: tests
tests: ## List every test function with the stage that runs it
	@$(GO) run ./internal/testenv/stages list

# The race detector skips SQLite, which is C code translated to Go. Its exit delay
# of a second is shortened, because scripts start many processes.
.PHONY: test-race
test-race: ## Run the unit tests under the race detector (needs cgo)
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=50 $(GO) test -count=1 -race -gcflags='modernc.org/...=-race=false' -shuffle=on -short -timeout 20m $$($(GO) list ./... | grep -v -e internal/temporalite -e cmd/drover$$ -e drover/test)
	cd plugins && CGO_ENABLED=1 GORACE=atexit_sleep_ms=50 $(GO) test -race -shuffle=on -timeout 10m -run 'TestGroup|TestInit' ./...

# A cluster of one node, compiled from the requirements of the module test/cluster.
CLUSTER      := .bin/kubernetes
KUBERNETES   := $(addprefix $(CLUSTER)/,kube-apiserver kube-controller-manager kube-scheduler kubelet)
KUBE_VERSION := v1.34.2
KUBE_LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION) -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34
# The modules with suites that need a cluster.
CLUSTER_MODULES  := $(filter-out test/objectstore,$(patsubst %/go.mod,%,$(wildcard test/*/go.mod)))

ifdef KUBECONFIG
IN_CLUSTER := DROVER_TEST_KUBECONFIG=$(KUBECONFIG)
else
AND_CLUSTER := cluster
IN_CLUSTER  := $(CLUSTER)/cluster up --bin $(CLUSTER) --image $(CLUSTER)/images/busybox.tar --image $(CLUSTER)/images/git.tar --image $(CLUSTER)/images/drover.tar --
endif

.PHONY: test-k8s
test-k8s: build $(AND_CLUSTER) ## Run the Kubernetes suites as root in a temporary cluster (the first time compiles it for minutes), or in the cluster of KUBECONFIG
	$(IN_CLUSTER) $(MAKE) --no-print-directory test-k8s-suites

.PHONY: test-k8s-suites
test-k8s-suites: export DROVER_TEST_CLUSTER := $(CURDIR)/$(CLUSTER)
test-k8s-suites: # one package after the other: one node runs the pods of all tests
	@GO=$(GO) TESTFLAGS="-p 1 $(TESTFLAGS)" tools/test.sh kubernetes

.PHONY: cluster
cluster: $(KUBERNETES) $(CLUSTER)/cluster $(CLUSTER)/images/busybox.tar ## Build the Kubernetes programs and the images for test-k8s

# Builds one program after the other, each with all processors. In parallel, they
# would need more memory than a small machine has.
.NOTPARALLEL: cluster $(KUBERNETES)
$(KUBERNETES): test/cluster/go.mod test/cluster/go.sum
	@mkdir -p $(@D)
	cd test/cluster && $(GO) build -ldflags '$(KUBE_LDFLAGS)' -o ../../$@ k8s.io/kubernetes/cmd/$(@F)

.PHONY: $(CLUSTER)/cluster
$(CLUSTER)/cluster:
	@mkdir -p $(@D)
	cd test/cluster && $(GO) build -o ../../$@ .

.PHONY: $(CLUSTER)/images/busybox.tar
$(CLUSTER)/images/busybox.tar: build
	$(GO) run ./internal/testenv/images -bin bin -out $(@D)

.PHONY: structure
structure: ## Print the sizes of packages and receivers, and check them with the import layers
	$(GO) test -count=1 -v -run TestStructure ./internal/archtest

# The browser tests run bin/drover, so the built files are part of it.
.PHONY: web-test
web-test: .bin/web ## Test the web UI: its logic, and its pages in Chromium on a drover dev (needs Node.js)
	@$(MAKE) --no-print-directory build plugins
	cd web && npm test

.PHONY: web-check
web-check: ## Lint the web UI, test its logic, and fail if its built files or its types of the API differ from its sources (needs Node.js)
	@tools/node.sh
	tools/web-check.sh

.PHONY: web-screenshots
web-screenshots: .bin/web ## Take the pictures of the web UI in docs/images/ui (needs Node.js and Chromium)
	@$(MAKE) --no-print-directory build plugins VERSION=devel
	cd web && npm run --silent screenshots

.PHONY: lint
lint: structure ## Run the linters, gofumpt, the checks of the structure and of go.mod
	$(TOOL) golangci-lint run ./...
	$(TOOL) golangci-lint run --build-tags chaos,noembedded ./cmd/drover ./cmd/internal/executorrole
	$(GO) run ./internal/words
	$(GO) mod tidy -diff
	@set -e; for module in $(CLUSTER_MODULES) $(PLUGIN_MODULES); do \
		echo "linting $$module"; (cd $$module && $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint run ./... && $(GO) mod tidy -diff); done
	cd test/objectstore && $(GO) mod tidy -diff

# The check is skipped only if the vulnerability database cannot be fetched. The
# probe of one small package detects that before the whole program is analyzed.
.PHONY: vulncheck
vulncheck: ## Check the code that Drover calls for known vulnerabilities (skipped if their database cannot be reached)
	@if probe=$$($(TOOL) govulncheck ./internal/version 2>&1) || ! grep -q 'fetching vulnerabilities' <<< "$$probe"; then \
		$(TOOL) govulncheck ./... && cd plugins && $(GO) tool -modfile=../tools/go.mod govulncheck ./...; \
	else echo "vulncheck: skipped, the vulnerability database cannot be reached: $$probe"; fi

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) golangci-lint fmt ./...

.PHONY: workflowcheck
workflowcheck: ## Check the workflows for non-determinism
	$(TOOL) workflowcheck -config workflows/workflowcheck.config.yaml ./workflows/...

.PHONY: replay
replay: ## Replay every stored history on the current workflows, and check that no history or migration was changed
	@tools/compat.sh
	$(GO) test -vet=off -count=1 -run 'Replay' ./workflows/... # the linter vets

.PHONY: histories
histories: build ## Record the histories that the replay tests lack, on an embedded server
	$(GO) run ./workflows/histories

.PHONY: check-clean
check-clean: generate ## Fail if generated code or go.mod differs from the commit, or a new file was generated
	git diff --exit-code -- api gateway fleeting web/src/lib/operations.json go.mod go.sum
	@new=$$(git ls-files --others --exclude-standard -- api gateway fleeting web/src/lib); [ -z "$$new" ] || \
	{ printf 'check-clean: these files are new; commit them, or remove them:\n%s\n' "$$new" >&2; exit 1; }

# FUZZ is how much to fuzz each parser: 1 takes about 20 seconds each on two cores.
# The limit is a number of executions, because in Go 1.26 a time limit can fail a
# fuzz test that found nothing with "context deadline exceeded" (go.dev/issue/75804).
# The minimization is short, because some inputs create files.
FUZZ ?= 1
fuzz_one = $(GO) test -run '^$$' -fuzz $(1) -fuzztime $$(($(2) * $(FUZZ)))x -fuzzminimizetime 10x $(3)
.PHONY: fuzz
fuzz: ## Fuzz the parsers of specifications, test reports and archives, FUZZ times about 20 seconds each
	$(call fuzz_one,FuzzRead,30000,./spec/)
	$(call fuzz_one,FuzzCost,2000,./spec/)
	$(call fuzz_one,FuzzReport,30000,./engine/archives/)
	$(call fuzz_one,FuzzUnpack,25000,./internal/archive/)

# STAGES are stages of make verify, all if there are none.
STAGES ?=
.PHONY: verify
verify: ## Run the checks that decide no landing, as stages; STAGES="..." runs only these, STAGES=list lists them
	.ci/verify $(STAGES)

.PHONY: flakes
flakes: ## List the tests that were flaky in the gates and verifications of the last 90 days on this machine
	@.ci/flakes

.PHONY: soak
soak: build $(AND_CLUSTER) ## Run the long tests: kills, chaos (also in a cluster, as test-k8s), fuzzing, the full self-build
	$(IN_CLUSTER) env DROVER_SOAK=1 DROVER_TEST_PATIENCE=10 $(GO) test -count=1 -v -timeout 3h ./test/...
	$(MAKE) large-checkout
	$(MAKE) fuzz FUZZ=30
	examples/with-dev.sh shell bin/drover run examples/full-build.yaml --env SOURCE="$$PWD" --follow

.PHONY: large-checkout
large-checkout: ## Check out a repository of one GiB on a host and on Docker; the first run makes it, in the cache directory
	DROVER_SOAK=1 DROVER_REQUIRE=docker $(GO) test -count=1 -v -run large_checkout ./executor/shell ./executor/docker

.PHONY: bench
bench: build plugins ## Measure Drover and compare it with a plain Temporal workflow on the same server
	$(GO) run ./test/bench
	$(if $(DROVER_TEST_KUBECONFIG),$(GO) test -run '^$$' -bench Task -benchtime 20x ./executor/kubernetes)

.PHONY: bench-million
bench-million: ## Measure lists, counts and reads with a million runs, in SQLite and, if installed, PostgreSQL (3 GB in /tmp)
	$(GO) run ./test/bench/million

.PHONY: clean
clean: ## Remove build output
	rm -rf bin .bin web/node_modules
