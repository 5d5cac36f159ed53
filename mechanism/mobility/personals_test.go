package mobility

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func personalsFileOf(t testing.TB, popular *Model, users map[string]PersonalCounts) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WritePersonals(&b, popular, users); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// someUsers have counts of their own on a popular model's map.
func someUsers(popular *Model) map[string]PersonalCounts {
	return map[string]PersonalCounts{
		"secret-a": ownCounts(popular.Grid, 5, 1), "secret-b": ownCounts(popular.Grid, 9, 2),
	}
}

func TestPersonalsRoundTrip(t *testing.T) {
	popular := neighbourModel(t, 6, 5, 1, true, 1)
	users := someUsers(popular)
	data := personalsFileOf(t, popular, users)
	p, err := ReadPersonals(bytes.NewReader(data), popular)
	if err != nil {
		t.Fatal(err)
	}
	for user, counts := range users {
		if got := p.Of(user).Counts(); !reflect.DeepEqual(got, counts) {
			t.Errorf("%s: other counts", user)
		}
	}
	if p.Of("somebody else") != nil {
		t.Error("a user without a model has one")
	}
	if !bytes.Equal(personalsFileOf(t, popular, users), data) {
		t.Error("the same models are other bytes")
	}
	// The id depends on the models and on who has them.
	ids := []string{p.ID()}
	for _, other := range []map[string]PersonalCounts{
		{},
		{"secret-a": users["secret-a"]},
		{"secret-a": users["secret-b"], "secret-b": users["secret-a"]},
	} {
		q, err := newPersonals(popular, other)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, q.ID())
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 4 || len(p.ID()) != 16 {
		t.Errorf("two sets of models share an id: %v", ids)
	}
}

// TestPersonalsRefuse: what is no whole file of this popular model is refused, and no error names a
// user.
func TestPersonalsRefuse(t *testing.T) {
	popular := neighbourModel(t, 6, 5, 1, true, 1)
	data := personalsFileOf(t, popular, someUsers(popular))
	for at := range bytes.TrimSpace(data) {
		if _, err := ReadPersonals(bytes.NewReader(data[:at]), popular); err == nil {
			t.Fatalf("cut at %d: it is read", at)
		}
	}
	for what, text := range map[string]string{
		"another file": `{"name": "x"}`,
		"a bad cell":   strings.Replace(string(data), `"from":`, `"from":9`, 1),
		"no count":     strings.Replace(string(data), `"n":`, `"n":-`, 1),
	} {
		if _, err := ReadPersonals(strings.NewReader(text), popular); err == nil ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := neighbourModel(t, 6, 5, 1, true, 2)
	if _, err := ReadPersonals(bytes.NewReader(data), other); !errors.Is(err, ErrForeignPersonal) {
		t.Errorf("another popular model: %v", err)
	}
	bad := map[string]PersonalCounts{"secret": {Visits: []Count{{99, 99, 1}}}}
	if err := WritePersonals(new(bytes.Buffer), popular, bad); err == nil {
		t.Error("counts that make no model are written")
	}
}
