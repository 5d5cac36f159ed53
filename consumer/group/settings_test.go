package group

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// TestInForce: the settings that count are those with the partitions, whichever member leads.
func TestInForce(t *testing.T) {
	claims := func(generation int32, settings string, partitions ...int32) said {
		s := said{claim: claim{generation: generation, partitions: partitions}}
		if settings != "" {
			s.settings = []byte(settings)
		}
		return s
	}
	for name, test := range map[string]struct {
		said   []said
		leader string
		want   string
	}{
		"nobody names any":      {[]said{claims(1, "", 0), claims(1, "", 1)}, "a", ""},
		"one does":              {[]said{claims(1, "", 0, 1), claims(-1, "S")}, "a", "S"},
		"a newcomer":            {[]said{claims(1, "S", 0, 1), claims(-1, "R")}, "a", "S"},
		"a newcomer that leads": {[]said{claims(1, "S", 0, 1), claims(-1, "R")}, "b", "S"},
		"several newcomers": {
			[]said{claims(1, "S", 0), claims(-1, "R"), claims(-1, "R")},
			"b", "S",
		},
		"a zombie's claim is older": {
			[]said{claims(1, "R", 0, 1), claims(3, "S", 0, 1)},
			"a",
			"S",
		},
		"all begin: the most": {
			[]said{claims(-1, "S"), claims(-1, "S"), claims(-1, "R")},
			"c", "S",
		},
		"all begin: the leader":      {[]said{claims(-1, "S"), claims(-1, "R")}, "a", "S"},
		"all begin: the other leads": {[]said{claims(-1, "S"), claims(-1, "R")}, "b", "R"},
		"the leader names none": {
			[]said{claims(-1, "S"), claims(-1, "R"), claims(-1, "")},
			"c", "R",
		},
		"a claim that cannot be": {
			[]said{claims(9, "R", -5, 1<<30), claims(1, "S", 0)},
			"a",
			"S",
		},
	} {
		for range 2 { // in either order of the members
			members := make([]joinedMember, len(test.said))
			for i := range members {
				members[i].id = string(rune('a' + i))
			}
			if got := inForce(members, test.said, test.leader); string(got) != test.want {
				t.Errorf("%s: %q, want %q", name, got, test.want)
			}
			slices.Reverse(test.said)
			test.leader = string(rune('a' + len(test.said) - 1 - int(test.leader[0]-'a')))
		}
	}
}

// refusedFor waits until a member has left for its settings.
func (p *process) refusedFor() *SettingsError {
	p.h.Helper()
	ctx, cancel := context.WithTimeout(p.h.Context(), wiretest.Patience)
	defer cancel()
	for {
		gen, err := p.Next(ctx)
		var other *SettingsError
		if errors.As(err, &other) {
			return other
		}
		if err != nil {
			p.h.Fatalf("Next answers %v, %v", gen, err)
		}
		if len(gen.Partitions) > 0 {
			p.h.Errorf("a member of other settings has partitions %v", gen.Partitions)
		}
	}
}

// TestOtherSettingsLeave: a member of other settings than those at work gets no
// partition, is told the others' settings, and leaves; also as the one that leads. The
// others go on with what they had. Members that say nothing fit.
func TestOtherSettingsLeave(t *testing.T) {
	for _, static := range []bool{false, true} {
		name := "dynamic"
		if static {
			name = "static"
		}
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, 6)
			start := func(name, settings string) *process {
				o := Options{Settings: []byte(settings)}
				if static {
					o.InstanceID = name
				}
				return h.start(o)
			}
			a, b := start("a", "S"), start("b", "S")
			two := byName("ab", h.settle(6, a, b))
			for range 2 {
				c := start("c", "R")
				done := make(chan *SettingsError, 1)
				go func() { done <- c.refusedFor() }()
				var other *SettingsError
				h.Within("the refusal", func() bool {
					h.settle(6, a, b) // they follow the group meanwhile
					select {
					case other = <-done:
						return true
					default:
						return false
					}
				})
				if string(other.Found) != "S" || string(other.Own) != "R" ||
					other.Group != h.group {
					t.Errorf("it is told %+v", other)
				}
				if after := byName("ab", h.settle(6, a, b)); moved(two, after) != 0 {
					t.Errorf("partitions have moved: %v, %v", two, after)
				}
				h.Within("it has left", func() bool {
					found, err := Settings(t.Context(), h.Client, wiretest.Quick, h.group, h.Topic)
					h.settle(6, a, b)
					return err == nil && len(found) == 1 && string(found[0]) == "S"
				})
			}
			h.settle(6, a, b, start("d", ""))
		})
	}
}

// TestStaticMemberChangesItsSettings: a static member that comes back alone under other
// settings is given its old assignment by the coordinator, with the old settings in it;
// there is nobody to differ from, and it goes on.
func TestStaticMemberChangesItsSettings(t *testing.T) {
	h := newHarness(t, 3)
	a := h.start(Options{InstanceID: "a", Settings: []byte("S")})
	h.settle(3, a)
	h.OK(a.Close())
	a = h.start(Options{InstanceID: "a", Settings: []byte("R"), SessionTimeout: time.Minute})
	h.settle(3, a)
	if found, err := Settings(t.Context(), h.Client, wiretest.Quick, h.group,
		h.Topic); err != nil || len(found) != 1 || string(found[0]) != "R" {
		t.Errorf("the group's settings are %q, %v", found, err)
	}
}
