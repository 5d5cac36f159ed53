package erase

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/ledger"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/state"
)

func eraserAt(now int64) *eraser {
	return &eraser{
		names: engine.NewEraser(servicetest.Key), settings: engine.Settings{},
		wanted: map[string]string{},
		now:    func() time.Time { return time.UnixMilli(now) },
	}
}

// TestEraseIn: the folder gets the kept account with the removal, and what it did is said of each
// user.
func TestEraseIn(t *testing.T) {
	e := eraserAt(7)
	store, err := state.Open("state", state.Options{FS: vfs.NewMem()})
	servicetest.OK(t, err)
	defer func() { servicetest.OK(t, store.Close()) }()
	p := store.Partition(0)
	var states []state.Change
	for _, user := range []string{"zoe", "ann", "bob"} {
		states = append(states, state.Change{Key: []byte(user), Value: []byte("1")})
	}
	servicetest.OK(t, p.Apply(states, state.Positions{Input: 3}))
	said, err := folder{e}.eraseIn(p, map[string]*userFound{
		"zoe": {kept: []byte("account")}, "ann": {state: []byte("2")}, "bob": {pending: true},
	})
	servicetest.OK(t, err)
	for user, want := range map[string]string{"zoe": "", "ann": "1", "bob": "1"} {
		got, err := p.Get([]byte(user))
		servicetest.OK(t, err)
		if string(got) != want {
			t.Errorf("the state of %s is %q", user, got)
		}
	}
	if got, err := p.Get(e.names.Kept([]byte("zoe"))); err != nil || string(got) != "account" {
		t.Errorf("the kept account is %q, %v", got, err)
	}
	if a, z := said.about("ann"), said.about("zoe"); a != "came_back" || z != "removed" {
		t.Errorf("it says %q and %q", a, z)
	}
}

// TestResetStays: a request to drop the account is not taken back by a later erasure that would
// keep it.
func TestResetStays(t *testing.T) {
	e := eraserAt(7)
	e.o.Users = []string{"zoe"}
	key := []byte("zoe")
	s := mechanism.State{
		Started: true, StepMS: 60_000, Releases: 3,
		Posterior: mobility.Distribution{Cells: []grid.Cell{7}, P: []float64{1}},
	}
	s.Ledger.Charge(60_000, ledger.CostOf(3), 0)
	look := func() *looking {
		return &looking{found: map[string]*userFound{"zoe": {
			state:   s.AppendBinary(nil),
			request: task.AppendRequest(nil, task.Request{Key: key, Reset: true, TimeMS: 5}),
		}}}
	}
	if records, err := e.records(look(), false); err != nil || len(records) > 0 {
		t.Errorf("the waiting request is replaced: %d records, %v", len(records), err)
	}
	records, err := e.records(look(), true)
	servicetest.OK(t, err)
	for _, r := range records {
		if !bytes.HasPrefix(r.Key, []byte(task.KeptKey)) {
			continue
		}
		kept, err := engine.DecodeKept(r.Value)
		servicetest.OK(t, err)
		spent, err := kept.Spent()
		if err != nil || spent > 0 || !kept.Erasures[0].Reset {
			t.Errorf("the account stays: %+v, %v", kept, err)
		}
		return
	}
	t.Errorf("nothing remains in %d records", len(records))
}

// TestUnknownKey: under another key than the service's, nobody would find the account.
func TestUnknownKey(t *testing.T) {
	for _, settings := range [][]byte{nil, []byte("another key's")} {
		at := &looking{marks: 1, mark: task.Mark{Settings: settings}}
		_, err := eraserAt(7).nothingShown(t.Context(), 0, at)
		if err == nil || !strings.Contains(err.Error(), "last under other settings") {
			t.Errorf("a mark of the settings %q: %v", settings, err)
		}
	}
}
