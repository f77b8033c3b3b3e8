# reckon: each target is one command that you could type. `make help` lists them.

# Go asks git for the commit; where git does not answer (no .git, another owner) it is left out.
BUILDVCS := $(shell git status --porcelain >/dev/null 2>&1 && echo auto || echo false)
BUILD    := CGO_ENABLED=0 go build -trimpath -buildvcs=$(BUILDVCS) -ldflags '-s -w'
# NVIDIA's library is opened where the C library is glibc, by a program that needs it. Elsewhere
# (musl) and in images programs are static: the tag is left out.
NVML     := $(shell getconf GNU_LIBC_VERSION >/dev/null 2>&1 && echo -tags nvml)
FUZZTIME ?= 10s

# what images are built for
ARCH ?= amd64,arm64

.PHONY: help up build build-static build-nvml test-nvml test lint ui ui-test gen bench churn e2e e2e-k8s e2e-operator damage e2e-kernels stops fuzz images release packages size clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 10

up: build ## build, then measure this machine at http://127.0.0.1:9870
	./bin/reckon up

build: ## build ./bin/reckon and ./bin/reckon-agent for this machine, with NVIDIA's library where there is glibc
	$(BUILD) $(NVML) -o bin/ ./cmd/reckon ./cmd/reckon-agent

build-static: ## the same without NVIDIA's library: programs that run anywhere
	$(BUILD) -o bin/ ./cmd/reckon ./cmd/reckon-agent

build-nvml: ## the same with it for machines with glibc, built anywhere (no compiler needed)
	$(BUILD) -tags nvml -o bin/ ./cmd/reckon ./cmd/reckon-agent

test-nvml: ## the calls into NVIDIA's library, against one of our own and the GPUs of this machine
	cc -Wall -shared -fPIC -o sensor/nvml/testdata/libfakenvml.so sensor/nvml/testdata/fakenvml.c
	cc -Wall -shared -fPIC -o lab/stress/testdata/libfakecuda.so lab/stress/testdata/fakecuda.c
	CGO_ENABLED=0 go test -count=1 -tags nvml ./sensor/nvml ./lab/stress

test: ## everything that must hold before a commit; installs what it needs and says so
	@script/setup
	@script/lint
	@script/ui build
	go test -count=1 -timeout 20m ./...
	go -C kubernetes/operator test -count=1 ./...
	go -C kubernetes/scheduler test ./...
	go -C deploy/release test ./...

lint: ## format, go vet, staticcheck and the architecture
	@script/lint
	go test -count=1 ./internal/archtest

messages: ## print every message that programs and pages can show, by file, to read them aloud
	@RECKON_MESSAGES=1 go test -count=1 -v -run TestMessages ./internal/archtest

ui: ## build the pages (needs npm; go build does not): web/ui/dist.zip, which is committed
	npm --prefix web/ui ci --no-audit --no-fund
	cd web/ui && npx --no prettier -- --write --log-level warn src test e2e && npx --no tsc
	go run ./web/ui/build

ui-test: ## the pages: types, logic, and every page in Chromium with screenshots in bin/shots
	@script/ui

gen: ## write what is generated: doc/metrics.md and the files behind go:generate
	go generate ./...

bench: build ## measure AREA beside its peers, by default all areas but churn, and the hot paths (`go run ./test/bench` lists them; SHORT=1 for a small load)
	@script/setup bench
	@for area in $(or $(AREA),node stress energy power findings catalogue fleet pages graph foresight); do \
		go run ./test/bench $(if $(SHORT),-short) -markdown bin/benchmarks.md $$area || exit 1; done
	$(if $(AREA),,go test -run '^$$' -bench . -benchmem ./metric/... ./account/... ./sensor/...)

churn: build ## reckon up beside RATE (5) new process groups a second for LENGTH (1h): processor time, memory, bytes written
	go run ./test/bench churn -rate $(or $(RATE),5) -time $(or $(LENGTH),1h) bin/reckon

e2e: build ## whole programs against the real machine (minutes)
	@script/setup e2e
	go test -tags e2e -count=1 -timeout 90m -v ./test/e2e/...
	go test -count=1 -run RabbitMQ -v ./interop/waggle
	@script/ui

e2e-k8s: build-static ## install by the chart on a real Kubernetes (root; K8SBED_CACHE with its programs, see test/e2e/beds/k8s)
	go test -tags e2e_k8s -count=1 -timeout 60m -v ./test/e2e/k8s

e2e-operator: ## the operator against a real API server, and on the bed of K8SBED_STATE if one runs (K8SBED_CACHE: see test/e2e/beds/k8s)
	KUBEBUILDER_ASSETS=$(K8SBED_CACHE)/k8s-1.34 go -C kubernetes/operator test -count=1 -timeout 20m -v ./cmd/reckon-operator ./graphfeed

damage: ## two hundred random damages of each store and of the files of a stopped server (minutes; SEEDS=1000-1199 tries others)
	RECKON_DAMAGES=$(or $(SEEDS),200) go test -count=1 -timeout 60m -v -run 'Damage|ChangedWhileClosed' ./store/tsdb ./store/hourly ./catalogue/database ./access/auth ./agent ./server

e2e-kernels: ## the accuracy cases of every source on Debian's kernels, emulated by QEMU one after the other (an hour and more; ONLY='bookworm amd64' runs some)
	go run ./test/kernels $(if $(ONLY),-only '$(ONLY)') $(KERNELS_FLAGS)

stops: ## end a server at 200 of its writes, syncs and renames and hold usage against the counters (minutes)
	RECKON_STOPS=200 go test -count=1 -timeout 30m -run 'TestStops$$' -v ./catalogue

fuzz: ## run every fuzz test for FUZZTIME (10s)
	@script/fuzz $(FUZZTIME)

images: ## container images with the version of the Helm chart, for ARCH, in dist/
	go run -C deploy/release . -root ../.. -out dist -images -arch $(ARCH) -version $(shell cat internal/buildinfo/VERSION)

release: ## binaries, packages, bills of materials and checksums for amd64 and arm64, in dist/
	go run -C deploy/release . -root ../.. -out dist

packages: ## deb and rpm for amd64 and arm64, in dist/
	go run -C deploy/release . -root ../.. -out dist -packages

size: build ## bytes of the binaries, lines of hand-written code, and the difference to BASE (ad0587d9)
	@script/size $(BASE)

clean: ## remove what was built; the data directory stays
	rm -rf bin dist
