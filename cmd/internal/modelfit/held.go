package modelfit

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// held is who is held out, in words that name nobody and as a test.
type held struct {
	words string
	held  func(user string) bool
}

// holding returns who is held out: a share of the users, a number of them, or those that a file
// lists.
func holding(who string, trainer *train.Trainer) (held, error) {
	users := usersOf(trainer)
	number := 0
	switch v, err := strconv.ParseFloat(who, 64); {
	case err != nil:
		return holdingOf(who, users)
	case v > 0 && v < 1:
		number = int(math.Round(v * float64(len(users))))
	case v == math.Trunc(v) && v > 0 && v < 1e9:
		number = int(v)
	default:
		return held{},
			cli.Usagef("--held-out %s is neither a share below 1 nor a number of users nor a file",
				who)
	}
	set := map[string]bool{}
	for i, user := range users {
		set[user] = i < number
	}
	return someHeld(who, fmt.Sprintf("%d of %d users held out", number, len(users)), set, users)
}

// holdingOf reads users from a file, one in each line.
func holdingOf(path string, users []string) (held, error) {
	file, err := os.Open(path)
	if err != nil {
		return held{}, fmt.Errorf("--held-out: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	set := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		set[strings.TrimSpace(lines.Text())] = true
	}
	if err := lines.Err(); err != nil {
		return held{}, fmt.Errorf("--held-out: %w", err)
	}
	delete(set, "")
	return someHeld(path, "users of a list held out", set, users)
}

// someHeld refuses to hold out nobody, or everybody.
func someHeld(who, words string, set map[string]bool, users []string) (held, error) {
	number := 0
	for _, user := range users {
		if set[user] {
			number++
		}
	}
	if number < 1 || number >= len(users) {
		return held{}, cli.Usagef("--held-out %s: of the traces' %d users %d would be held out; "+
			"there must be one at least to try the model on, and one to train it on", who,
			len(users), number)
	}
	return held{words, func(user string) bool { return set[user] }}, nil
}

// usersOf returns the users with a fix, ordered by a hash of their ids: the first of them are a
// sample that depends on nothing else.
func usersOf(trainer *train.Trainer) []string {
	return slices.SortedFunc(trainer.Users(), func(a, b string) int {
		return cmp.Or(cmp.Compare(fit.Unit(a, 0), fit.Unit(b, 0)), cmp.Compare(a, b))
	})
}
