# Everything a developer runs. Go, make and git are enough for all but the race
# detector, which also needs a C compiler.

GO       ?= go
FUZZTIME ?= 20s
BENCH    ?= .
# Arguments of "make run", such as ARGS='--vehicles 1000'.
ARGS     ?=

# Built and run by the go command, so that everybody lints with the same version.
GOLANGCI := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Packages with goroutines of their own.
CONCURRENT := ./consumer/... ./producer/... ./state/... \
	./cmd/geodither/... ./cmd/internal/devbroker/... ./cmd/internal/pipeline/...

.DEFAULT_GOAL := help
.PHONY: help build run test race fuzz bench fmt fmt-check vet lint arch verify check clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' Makefile

build: ## Build bin/geodither
	@echo "building bin/geodither (a minute or more the first time)"
	@$(GO) build -trimpath -o bin/geodither ./cmd/geodither

run: build ## Run the demo: the whole pipeline, live on the terminal (ARGS='--vehicles 1000')
	@./bin/geodither demo $(ARGS)

test: ## Run the whole test suite
	$(GO) test ./...

race: ## Run the tests of the concurrent packages under the race detector
	$(GO) test -race $(CONCURRENT)

fuzz: ## Run every fuzz target for FUZZTIME (20s) each
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u | while read -r dir; do \
		for target in $$($(GO) test -list '^Fuzz' "$$dir" | grep '^Fuzz'); do \
			echo "$$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir" || exit 1; \
		done; \
	done

bench: ## Run the benchmarks whose name matches BENCH (all)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

fmt: ## Format the code
	$(GOLANGCI) fmt

fmt-check: ## Fail if "make fmt" would change anything
	$(GOLANGCI) fmt --diff

vet: ## Run go vet
	$(GO) vet ./...

lint: ## Run the linters of .golangci.yml
	$(GOLANGCI) run

arch: ## Check who imports what, and the top level
	$(GO) test ./cmd/internal/archtest

verify: fmt-check vet lint arch race ## All of check but the test suite

check: verify test ## Everything that must pass before a change goes in

clean: ## Remove what was built
	rm -rf bin
