package ledger

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/internal/testcase"
)

// plainLedger keeps every release: what a Ledger is compared with.
type plainLedger []cost

func (p plainLedger) since(ms int64) Billionths {
	sum := Billionths(0)
	for _, c := range p {
		if c.end > ms {
			sum += c.amount
		}
	}
	return sum
}

// TestAgainstAList charges releases by many habits, with windows and costs that change, and encodes
// and decodes in between. The ledger never has less than the list does, and more only where it
// had to add up, and then as if the window were a 31st longer.
func TestAgainstAList(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(91, 1))
	exact, above, full, longest := 0, 0, 0, 0
	for i := range 150 {
		var l Ledger
		var list plainLedger
		stepMS := []int64{1, 1000, 60_000}[r.IntN(3)]
		window := []int64{1, 60, 2000, 5000}[r.IntN(4)]
		step, amount, changes := int64(r.IntN(1000)-500), CostOf(1), i%2 == 0
		kind := r.IntN(5)
		constant := true // the window so far
		for n := range 600 {
			if r.IntN(30) == 0 {
				kind = r.IntN(5)
			}
			if r.IntN(20) == 0 {
				amount = 1 + Billionths(r.Uint64N(3*billionth))
			}
			if changes && r.IntN(150) == 0 {
				window, constant = []int64{1, 60, 2000, 5000}[r.IntN(4)], false
			}
			step += testcase.Habit(r, kind)
			end := StepEnd(step, stepMS)
			l.Charge(end, amount, WindowStart(step, window, stepMS))
			list = append(list, cost{end, amount})
			if l.spent != list.since(math.MinInt64) || l.SpentSince(math.MinInt64) != l.spent ||
				len(l.runs) > MaxRuns {
				t.Fatalf("case %d, release %d: %d spent, want %d; %d runs", i, n, l.spent,
					list.since(math.MinInt64), len(l.runs))
			}
			if last, ok := l.Last(); !ok || last != end {
				t.Fatalf("case %d, release %d: the last ends at %d, want %d", i, n, last, end)
			}
			now := step + int64(r.IntN(3))
			from := WindowStart(now, window, stepMS)
			got, want := l.SpentSince(from), list.since(from)
			if got < want {
				t.Fatalf("case %d, release %d: the window holds %d, below %d", i, n, got, want)
			}
			if longer := list.since(from - window*stepMS/31 - 1); constant && got > longer {
				t.Fatalf("case %d, release %d: the window holds %d, and one a 31st longer %d", i, n,
					got, longer)
			}
			if got == want {
				exact++
			} else {
				above++
			}
			for range 3 {
				if at := end - r.Int64N(2*window*stepMS); l.SpentSince(at) < list.since(at) {
					t.Fatalf("case %d, release %d: too little since %d", i, n, at)
				}
			}
			if len(l.runs) == MaxRuns {
				full++
			}
			if r.IntN(10) == 0 {
				data := l.AppendBinary(nil, stepMS)
				longest = max(longest, len(data))
				var back Ledger
				rest, err := back.DecodeBinary(data, stepMS)
				if err != nil || len(rest) > 0 || !slices.Equal(back.runs, l.runs) ||
					back.older != l.older || back.spent != l.spent {
					t.Fatalf("case %d, release %d: %+v became %+v", i, n, l, back)
				}
				l = back
			}
		}
	}
	if exact < 10_000 || above < 1000 || full < 1000 {
		t.Errorf("poor cases: %d windows exact, %d above, %d full ledgers", exact, above, full)
	}
	// a new cost in every run: up to 5 bytes of gap, 2 of distance, 1 of count, 5 of cost
	if longest > 64*14 {
		t.Errorf("a ledger takes %d bytes", longest)
	}
}

// TestNoticesFaults plants the two faults that would let a budget be exceeded: what is added up
// counts as of its first release, and what leaves the window is forgotten.
func TestNoticesFaults(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(92, 1))
	early, forgotten := false, false
	var l Ledger
	var list plainLedger
	step := int64(0)
	for range 2000 {
		step += testcase.Habit(r, 3)
		l.Charge(StepEnd(step, 1), Billionths(1+r.IntN(5)), WindowStart(step, 3000, 1))
		list = append(list, cost{StepEnd(step, 1), 0})
		list[len(list)-1].amount = l.spent - list.since(math.MinInt64)
		at := WindowStart(step, 1+r.Int64N(3000), 1)
		wrong := Ledger{runs: slices.Clone(l.runs)}
		for i := range wrong.runs {
			if wrong.runs[i].count == 0 {
				wrong.runs[i].end = wrong.runs[i].first()
			}
		}
		early = early || wrong.SpentSince(at) < list.since(at)
		forgotten = forgotten ||
			(&Ledger{runs: l.runs}).SpentSince(math.MinInt64) < list.since(math.MinInt64)
	}
	if !early || !forgotten {
		t.Errorf("noticed: too early %t, forgotten %t", early, forgotten)
	}
}

// TestRegularUser is one run however long.
func TestRegularUser(t *testing.T) {
	t.Parallel()
	var l Ledger
	for step := int64(0); step < 100_000; step += 10 {
		l.Charge(StepEnd(step, 60_000), billionth, WindowStart(step, 60, 60_000))
	}
	if data := l.AppendBinary(nil, 60_000); len(l.runs) != 1 || len(data) > 16 {
		t.Errorf("%d runs in %d bytes", len(l.runs), len(data))
	}
	if got := l.SpentSince(WindowStart(99_995, 60, 60_000)); got.Epsilon() != 6 ||
		l.Spent().Epsilon() != 10_000 {
		t.Errorf("an hour holds ε %g, want 6; all %g, want 10000", got.Epsilon(),
			l.Spent().Epsilon())
	}
}

// TestNeverGoesBack charges a release before the latest one: it counts as of that, so that no
// window loses it early.
func TestNeverGoesBack(t *testing.T) {
	t.Parallel()
	var l Ledger
	l.Charge(1000, 5, 0)
	l.Charge(400, 5, 0)
	l.Charge(700, 3, 0)
	if last, _ := l.Last(); last != 1000 || l.SpentSince(999) != 13 || l.SpentSince(1000) != 0 ||
		l.spent != 13 {
		t.Errorf("after 999 ms %d, after 1000 ms %d, in all %d, the latest at %d",
			l.SpentSince(999), l.SpentSince(1000), l.spent, last)
	}
}

// TestAtTheEdges charges steps whose times leave int64: nothing wraps, and nothing at an edge
// leaves a window.
func TestAtTheEdges(t *testing.T) {
	t.Parallel()
	for _, step := range []int64{
		math.MinInt64, math.MinInt64 + 1, math.MinInt64 / 60_000,
		math.MaxInt64 / 60_000, math.MaxInt64 - 1, math.MaxInt64,
	} {
		for _, steps := range []int64{1, 1_000_000_000} {
			var l Ledger
			for range 3 {
				l.Charge(StepEnd(step, 60_000), 7, WindowStart(step, steps, 60_000))
			}
			if got := l.SpentSince(WindowStart(step, steps, 60_000)); got != 21 {
				t.Errorf("step %d, window of %d: %d", step, steps, got)
			}
			var back Ledger
			rest, err := back.DecodeBinary(l.AppendBinary(nil, 60_000), 60_000)
			if err != nil || len(rest) > 0 || back.SpentSince(math.MinInt64) != 21 {
				t.Errorf("step %d: %+v became %+v", step, l, back)
			}
		}
	}
	l := Ledger{spent: math.MaxUint64 - 1, older: cost{0, math.MaxUint64 - 1}}
	l.Charge(5, 7, 0)
	l.Charge(6, 7, 0)
	if l.spent != math.MaxUint64 || l.SpentSince(math.MinInt64) != math.MaxUint64 {
		t.Errorf("a sum beyond all numbers: %+v", l)
	}
}

func TestBillionths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		x        float64
		up, down Billionths
	}{
		{0, 0, 0},
		{-1, 0, 0},
		{math.NaN(), 0, 0},
		{math.Inf(1), 0, 0},
		{.1, 100_000_000, 100_000_000},
		{.3, 300_000_000, 300_000_000},
		{1.1, 1_100_000_000, 1_100_000_000},
		{1e-6, 1000, 1000},
		{1e-9, 1, 1},
		{1e-10, 1, 0},
		{math.Ln2, 693_147_181, 693_147_180},
		{.30000000000000004, 300_000_001, 300_000_000},
		{700, 700_000_000_000, 700_000_000_000},
		{1e9, 1_000_000_000_000_000_000, 1_000_000_000_000_000_000},
		{1e300, math.MaxUint64, math.MaxUint64},
		{5e-324, 1, 0},
	} {
		if up, down := CostOf(c.x), LimitOf(c.x); up != c.up || down != c.down {
			t.Errorf("%g: %d and %d billionths, want %d and %d", c.x, up, down, c.up, c.down)
		}
	}
	// The definition, in rationals of the shortest text.
	r := rand.New(rand.NewPCG(93, 1))
	for range 2000 {
		x := math.Exp(20*r.Float64() - 14)
		if r.IntN(2) == 0 {
			x = math.Round(x*1000) / 1000
		}
		text := fmt.Sprint(x)
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatal(text)
		}
		exact.Mul(exact, big.NewRat(billionth, 1))
		up, down := new(big.Rat).SetUint64(uint64(CostOf(x))),
			new(big.Rat).SetUint64(uint64(LimitOf(x)))
		if up.Cmp(exact) < 0 || down.Cmp(exact) > 0 ||
			new(big.Rat).Sub(up, down).Cmp(big.NewRat(1, 1)) > 0 || exact.IsInt() &&
			up.Cmp(down) != 0 {
			t.Fatalf("%s: %v and %v", text, up, down)
		}
	}
}

// FuzzDecode checks that any bytes are either refused or a ledger within its bounds, which encodes
// to what decodes to the same.
func FuzzDecode(f *testing.F) {
	var l Ledger
	f.Add(l.AppendBinary(nil, 60_000), int64(60_000))
	for step := range int64(100) {
		l.Charge(StepEnd(10+step*step, 60_000), CostOf(1), WindowStart(step, 60, 60_000))
	}
	f.Add(l.AppendBinary(nil, 60_000), int64(60_000))
	f.Add(l.AppendBinary(nil, 7), int64(7))
	f.Fuzz(func(t *testing.T, data []byte, stepMS int64) {
		if stepMS < 1 {
			return
		}
		var first, again Ledger
		if _, err := first.DecodeBinary(data, stepMS); err != nil {
			return
		}
		if len(first.runs) > MaxRuns {
			t.Fatalf("%d runs", len(first.runs))
		}
		encoded := first.AppendBinary(nil, stepMS)
		rest, err := again.DecodeBinary(encoded, stepMS)
		if err != nil || len(rest) > 0 || again.Spent() != first.Spent() ||
			!bytes.Equal(again.AppendBinary(nil, stepMS), encoded) {
			t.Fatalf("%+v became %+v: %v", first, again, err)
		}
	})
}
