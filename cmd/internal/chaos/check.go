package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// check reads all topics, with the instances stopped, and fills the report.
func (h *harness) check(ctx context.Context, r *report, w *witness) error {
	l, err := newLedger(h.Partitions)
	if err != nil {
		return err
	}
	r.ledger = l
	if err := h.settle(ctx, l); err != nil {
		return err
	}
	if h.Plant != "" {
		h.note("planting: %s", h.Plant)
		if err := plants[h.Plant](ctx, h, w); err != nil {
			return fmt.Errorf("plant %s: %w", h.Plant, err)
		}
	}
	h.note("reading all topics")
	if err := h.read(ctx, r, w); err != nil {
		return err
	}
	r.Violations = append(r.Violations, l.violations()...)
	if fed := h.fed.all(); fed != l.Raw {
		r.Violations = append(r.Violations, fmt.Sprintf("%d records were fed, the raw topic holds %d", fed, l.Raw))
	}
	if h.fed.second > 0 && l.Misplaced == 0 && h.Partitions > 1 {
		r.Violations = append(r.Violations, "the second producer has misplaced no record, "+
			"so that budgets were not tried: give more --vehicles or another number of --partitions")
	}
	r.Violations = append(r.Violations, l.untried()...)
	if r.IdleFaults > 0 {
		r.Violations = append(r.Violations, fmt.Sprintf("%d hard faults came after the feed had ended and show nothing: give more --duration", r.IdleFaults))
	}
	h.note("recomputing everything from the raw topic")
	return h.verify(ctx, r)
}

// settle waits until no transaction is open: one of a dead instance that has no
// successor is ended by its timeout.
func (h *harness) settle(ctx context.Context, l *ledger) error {
	client, err := newClient(h.brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	deadline := time.Now().Add(2*transactionTimeout + 10*time.Second)
	for {
		l.OpenTransactions = 0
		for _, topic := range []string{sanitizedTopic, deadTopic, changelogTopic} {
			stable, err := ends(ctx, client, topic, h.Partitions, false)
			if err != nil {
				return err
			}
			high, err := ends(ctx, client, topic, h.Partitions, true)
			if err != nil {
				return err
			}
			for p := range stable {
				if stable[p] != high[p] {
					l.OpenTransactions++
				}
			}
		}
		if l.OpenTransactions == 0 || time.Now().After(deadline) {
			return nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// read fills the ledger.
func (h *harness) read(ctx context.Context, r *report, w *witness) error {
	l := r.ledger
	now := map[string][][]seen{
		sanitizedTopic: make([][]seen, h.Partitions),
		deadTopic:      make([][]seen, h.Partitions),
	}
	committed := func(record *kgo.Record) {
		l.addCommitted(record)
		if !record.Attrs.IsControl() {
			now[record.Topic][record.Partition] = append(now[record.Topic][record.Partition], seen{record.Offset, hashRecord(record)})
		}
	}
	for _, s := range []struct {
		topic       string
		uncommitted bool
		each        func(*kgo.Record)
	}{
		{rawTopic, true, l.addRaw},
		{sanitizedTopic, false, committed},
		{deadTopic, false, committed},
		{sanitizedTopic, true, l.addUncommitted},
		{changelogTopic, true, l.addChangelog},
	} {
		if err := scan(ctx, h.brokers, s.topic, h.Partitions, s.uncommitted, s.each); err != nil {
			return err
		}
	}
	l.count()
	for _, topic := range []string{sanitizedTopic, deadTopic} {
		r.Violations = append(r.Violations, l.compare(topic, w.saw[topic], now[topic])...)
	}
	for _, err := range w.errs {
		r.Violations = append(r.Violations, "the concurrent reader: "+err)
	}
	r.Gap, r.Delay, r.Late = w.gap.Round(time.Millisecond), w.delay.Round(time.Millisecond), w.late
	return nil
}

// verify lets the product recompute everything offline and compare.
func (h *harness) verify(ctx context.Context, r *report) error {
	config, _, err := h.config("verify", "")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, h.binary, "state", "verify", "-c", config, "--json")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	failed := cmd.Run()
	if json.Valid(out.Bytes()) {
		r.Verified = slices.Clone(out.Bytes())
	}
	var exit *exec.ExitError
	if errors.As(failed, &exit) && exit.ExitCode() == 1 {
		r.Violations = append(r.Violations, fmt.Sprintf("geodither state verify: %s", bytes.TrimSpace(said.Bytes())))
		return nil
	}
	if failed != nil {
		return fmt.Errorf("geodither state verify: %w\n%s", failed, bytes.TrimSpace(said.Bytes()))
	}
	r.StateEqual = true
	return nil
}
