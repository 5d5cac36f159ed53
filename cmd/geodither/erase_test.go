package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestErase: the receipt and what the command prints hold no id; wrong uses say what is wrong.
func TestErase(t *testing.T) {
	s := newTownService(t)
	c := []string{"erase", "-c", s.config}
	silent := func(r result) {
		t.Helper()
		if strings.Contains(r.out+r.err, "sim-0000") {
			t.Errorf("an id is printed: %s%s", r.out, r.err)
		}
	}
	r := succeed(t, append(c, "--user", "sim-000001", "--dry-run")...)
	silent(r)
	requireWords(t, r.out, "would erase 1 of 1 person")
	path := write(t, s.dir, "receipt.json", "an earlier one")
	requireMessage(t, call(t, append(c, "--user", "sim-000001", "--dry-run", "--receipt", path)...),
		cli.ExitUsage, "leave --receipt out")
	if call(t, append(c, "--user", "nobody", "--receipt", path)...).code == cli.ExitDone ||
		read(t, path) != "an earlier one" {
		t.Error("an earlier receipt is gone, or an unknown id is no error")
	}
	r = succeed(t, append(c, "--user", "sim-000001", "--receipt", path)...)
	silent(r)
	requireWords(t, r.out, "erased 1 of 1 person; 1 account kept", "gone from the disks")
	var receipt erase.Receipt
	text := read(t, path)
	if err := json.Unmarshal([]byte(text), &receipt); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "sim-0000") || receipt.Receipt != erase.ReceiptVersion ||
		len(receipt.Subject) != 64 || !receipt.Account.Kept || receipt.GoneBy == nil {
		t.Errorf("%s", text)
	}
	requireWords(t, text, "max.compaction.lag.ms", `"what":"raw"`, `"what":"downstream"`,
		`"local_store":"removed"`)
	requireMessage(t, call(t, "state", "inspect", "-c", s.config, "--user", "sim-000001"),
		cli.ExitFailed, "has no state", "was erased", "Σε 10")
	requireWords(t, succeed(t, "state", "verify", "-c", s.config).out,
		"verified: committed output")

	list := write(t, s.dir, "people.txt", "sim-000002\r\n\nnobody-1\nsim-000003\n")
	r = call(t, append(c, "--users", list, "--receipt", "-")...)
	silent(r)
	requireWords(t, r.err, "nothing is stored of 1 of 3 people (in the list: 2)", "erased 2 of 3")
	if r.code != cli.ExitFailed {
		t.Errorf("exit %d", r.code)
	}
	if n := strings.Count(r.out, `"receipt":1`); n != 2 {
		t.Errorf("%d receipts: %s", n, r.out)
	}
	requireMessage(t, call(t, append(c, "--user", "nobody")...), cli.ExitFailed,
		"nothing is stored of this person", "written otherwise")
	empty := write(t, s.dir, "empty.txt", "\n\n")
	requireMessage(t, call(t, append(c, "--users", empty)...), cli.ExitFailed, "names nobody")
	requireMessage(t, call(t, append(c, "--users", filepath.Join(s.dir, "gone"))...),
		cli.ExitFailed, "--users", "no such file")
	requireMessage(t, call(t, c...), cli.ExitUsage, "--user", "--users")
	requireMessage(t, call(t, append(c, "--user", "a", "--users", "-")...), cli.ExitUsage,
		"--users")
	requireMessage(t, call(t, append(c, "--user", "")...), cli.ExitUsage, "--user")
}

// TestEraseOtherKey: under another noise key, which finds no account of an erased person, a service
// does not start unless that was accepted, and then not again.
func TestEraseOtherKey(t *testing.T) {
	t.Parallel()
	s := newTownService(t)
	write(t, s.dir, "other.key", similarKey(t, filepath.Join(s.dir, "noise.key")).Reveal())
	other := s.edit(t, "noise.key", "other.key")
	const words = "run refuses to start where the changelog keeps accounts of erased users"
	succeed(t, "erase", "-c", s.config, "--user", "sim-000001")
	r := call(t, "run", "-c", other)
	requireWords(t, r.err, "erased users' accounts need the noise key of their erasure",
		"(erased-accounts)")
	if r.code != cli.ExitFailed {
		t.Errorf("exit %d", r.code)
	}
	requireWords(t, call(t, "doctor", "-c", other).out, words)

	for _, flags := range [][]string{{"--accept=lost-account"}, nil} {
		service := start(t, nil, append([]string{"run", "-c", other}, flags...)...)
		eventually(t, "all partitions are restored", func() bool {
			return strings.Count(service.log.String(), "state restored") == 3
		})
		time.Sleep(3 * time.Second) // the marks that accept the loss follow, and no line tells
		if code := service.stop(t); code != cli.ExitDone {
			t.Fatalf("%q: exit %d: %s", flags, code, service.log)
		}
	}
}

// similarKey returns a key that has the same byte in the settings' fingerprint as the key of a
// file. One key in 256 has.
func similarKey(t *testing.T, path string) noise.Key {
	t.Helper()
	own, err := files.ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	digest := func(key noise.Key) byte {
		fingerprint := engine.Settings{Key: key}.KeyFingerprint()
		return sha256.Sum256(fmt.Appendf(nil, "%q %q", "key_file", fmt.Sprintf("%x",
			fingerprint)))[0]
	}
	for {
		if key := noise.NewKey(); digest(key) == digest(own) {
			return key
		}
	}
}

// TestStateAccounts sums up the accounts before and after an erasure, and names nobody.
func TestStateAccounts(t *testing.T) {
	s := newTownService(t)
	report := func() (r account.Report) {
		t.Helper()
		out := succeed(t, "state", "inspect", "-c", s.config, "--json").out
		if err := json.Unmarshal([]byte(out), &r); err != nil || strings.Contains(out, "sim-") {
			t.Fatalf("%v: %s", err, out)
		}
		return r
	}
	before := report()
	if before.Users != 20 || before.Lifetime.P50 != 10 || before.Lifetime.Max < 10 ||
		before.Lifetime.Limit != nil || before.Settings == "" || before.ErasedAccounts != 0 {
		t.Errorf("%+v", before)
	}
	succeed(t, "erase", "-c", s.config, "--user", "sim-000001")
	if after := report(); after.Users != 19 || after.ErasedAccounts != 1 {
		t.Errorf("%+v", after)
	}
	requireWords(t, succeed(t, "state", "inspect", "-c", s.config).out, "19 users", "1 account of",
		"in all", "at the limit")
	limited := s.edit(t, "budget: none", "budget: {lifetime: 10}")
	out := succeed(t, "state", "inspect", "-c", limited, "--json").out
	var r account.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Lifetime.Limit == nil || *r.Lifetime.Limit != 10 || r.Lifetime.AtLimit != 19 ||
		len(r.OtherSettings) != 3 {
		t.Errorf("under a limit: %s", out)
	}
}
