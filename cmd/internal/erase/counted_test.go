package erase_test

import (
	"testing"

	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// TestCounted: where the user counts, the id goes, and the day stays under another name until it is
// closed, also if the account of ε is dropped. The receipt tells that. To repeat it changes
// nothing.
func TestCounted(t *testing.T) {
	w := servicetest.NewWorld(t, 3)
	o := atwork.Options(w, "first")
	serve(t, w, o, 2)
	of := &erase.Counted{Cluster: o.Cluster.WithDefaults()}
	of.Group, of.Topics = "first-counts", servicetest.Topics("counted")
	asked := options(o, user)
	asked.Counted, asked.ResetBudget = of, true
	changelog, p := of.Topics.Changelog, servicetest.Murmur2Place([]byte(user))

	if r := run(t, asked).Receipts[0]; r.Counted.Code != "no_service" {
		t.Errorf("without its changelog: %+v", r.Counted)
	}
	servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
		admin.Topic{Name: changelog, Partitions: servicetest.Partitions}))
	day := "\x01\xa0\x9c\x01\x01\x00"
	mark := string(task.AppendMark(nil, task.Mark{Settings: []byte("any")}))
	w.Write(t, true, changelog, p, servicetest.Line{Key: user, Value: day},
		servicetest.Line{Key: task.MarkKey, Value: mark})
	serve(t, w, o, 1)
	for range 2 {
		if r := run(t, asked).Receipts[0]; r.Counted.Code != "removed" {
			t.Errorf("%+v", r.Counted)
		}
		v := w.View(t, changelog, false)
		v.Read(t)
		last := map[string]string{}
		for _, l := range v.Lines[p] {
			last[l.Key] = l.Value
		}
		kept := new(counting.Eraser).Kept([]byte(user))
		if last[user] != "" || last[string(kept)] != day || len(v.Lines[p]) != 5 {
			t.Errorf("the changelog holds %+v", v.Lines[p])
		}
	}
}
