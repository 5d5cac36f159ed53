package engine

import (
	"bytes"
	"math"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/ledger"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestEraser: the account outlives the state once, and what remains says where.
func TestEraser(t *testing.T) {
	e := NewEraser(servicetest.Key)
	s := mechanism.State{
		Started: true, Step: 5, StepMS: 60_000, Releases: 3, Rho: 1.5,
		Posterior: mobility.Distribution{Cells: []grid.Cell{7}, P: []float64{1}},
	}
	for n := range int64(3) { // in two windows
		s.Ledger.Charge(600_000*(1+n*n), ledger.CostOf(1), math.MinInt64)
	}
	state := s.AppendBinary(nil)
	user := []byte("zoe")
	erase := func(offset int64, reset bool, state, kept []byte) []byte {
		t.Helper()
		got, err := e.Erase(task.Request{Key: user, Reset: reset, TimeMS: 42}, offset, state, kept)
		servicetest.OK(t, err)
		return bytes.Clone(got)
	}
	recall := func(kept []byte) (back mechanism.State, remains []byte) {
		t.Helper()
		state, remains, err := e.Recall(kept)
		servicetest.OK(t, err)
		servicetest.OK(t, back.DecodeBinary(state))
		return back, bytes.Clone(remains)
	}
	if got := erase(9, false, nil, nil); got != nil {
		t.Errorf("of a user who was never known there remains %x", got)
	}
	kept := erase(10, false, state, nil)
	if owes, err := e.Owes(kept); !owes || err != nil {
		t.Errorf("nothing is owed: %v", err)
	}
	back, remains := recall(kept)
	if back.Releases != 3 || back.EpsilonSpent != 3 || back.Step != 5 || back.HasRelease ||
		!bytes.Equal(back.Ledger.AppendBinary(nil, 60_000), s.Ledger.AppendBinary(nil, 60_000)) {
		t.Errorf("recalled: %+v", back)
	}
	if again, rest := recall(remains); again.Started || rest != nil {
		t.Errorf("recalled twice: %+v", again)
	}
	if back, _ := recall(erase(11, false, nil, kept)); back.Releases != 3 {
		t.Error("an erasure of a user who did not come back loses the account")
	}
	for name, kept := range map[string][]byte{
		"a state": erase(12, true, state, nil), "an account": erase(12, true, nil, kept),
	} {
		if owes, err := e.Owes(kept); owes || err != nil {
			t.Errorf("a reset of %s leaves an account: %v", name, err)
		}
		if back, _ := recall(kept); back.EpsilonSpent != 0 || back.Rho != 0 || back.Releases != 3 ||
			back.Step != 5 {
			t.Errorf("a reset of %s leaves %+v, want its number of releases and step", name, back)
		}
	}
	for n := range int64(20) {
		kept = erase(20+n, n%2 == 0, state, kept)
	}
	k, err := DecodeKept(kept)
	servicetest.OK(t, err)
	if len(k.Erasures) != maxErasures || !k.Partial || k.TimeMS != 42 ||
		k.Erasures[15] != (Erasure{Offset: 39}) || k.Erasures[0] != (Erasure{24, true}) {
		t.Errorf("%+v", k)
	}
	if name := e.Kept(user); bytes.Contains(name, user) ||
		bytes.Equal(name[len(task.KeptKey):], e.Subject(nil, []byte("zoé"))) {
		t.Errorf("the name is %q", name)
	}
}

// FuzzDecodeKept: any bytes give an error or a record that is written the same way.
func FuzzDecodeKept(f *testing.F) {
	f.Add(Kept{TimeMS: 7, Erasures: []Erasure{{3, true}, {4, false}}, Account: []byte("a")}.
		AppendBinary(nil))
	f.Add([]byte{keptVersion, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := DecodeKept(data)
		if err != nil || len(data) == 0 {
			return
		}
		if got := k.AppendBinary(nil); !bytes.Equal(got, data) {
			t.Errorf("%x became %x", data, got)
		}
	})
}
