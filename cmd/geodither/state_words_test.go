package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestStateFolderIsNotWorthless: a state folder may be the only copy of the users'
// accounts, so no text says that it can be deleted without a look.
func TestStateFolderIsNotWorthless(t *testing.T) {
	for file, words := range map[string][]string{
		"deploy/geodither.yml":             {"loses nothing"},
		"consumer/task/consume.go":         {"nothing is lost", "delete it"},
		"cmd/internal/engine/processor.go": {"delete the state folder"},
		"cmd/internal/account/reset.go":    {"nothing is lost"},
		"cmd/geodither/state_reset.go":     {"nothing is lost"},
		"state/store.go":                   {"nothing is lost"},
		"state/errors.go":                  {"nothing is lost"},
	} {
		text := read(t, filepath.Join(root, filepath.FromSlash(file)))
		for _, word := range words {
			if strings.Contains(text, word) {
				t.Errorf("%s says %q", file, word)
			}
		}
	}
	help := succeed(t, "broker", "--help").out
	requireWords(t, help, "gone when it ends", "--discard-account")
}
