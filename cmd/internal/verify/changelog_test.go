package verify

import (
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// TestLaterWhileCleaned: what there is of an erased user is not missed, whether the cleaner removes
// it for the sake of a newer one behind the end, or it was deleted.
func TestLaterWhileCleaned(t *testing.T) {
	w := servicetest.NewCompacted(t)
	const key = task.KeptKey + "ann"
	once := engine.Kept{Erasures: []engine.Erasure{{Offset: 7}}}
	twice := engine.Kept{Erasures: []engine.Erasure{{Offset: 7}, {Offset: 9}}}
	r, err := topics.Open(t.Context(), w.Client, "log", 0, consumer.FetcherOptions{})
	servicetest.OK(t, err)
	before, err := ReadChangelog(t.Context(), r, nil)
	servicetest.OK(t, err)
	w.Put(t, "log", key, once.AppendBinary(nil))
	client := w.Cleaned(t, "log", key, twice.AppendBinary(nil))
	cleaned, err := topics.Open(t.Context(), client, "log", 0, consumer.FetcherOptions{})
	servicetest.OK(t, err)
	first := before
	first.log = cleaned
	later, err := first.Later(t.Context())
	if err != nil || len(later.Erased[key].Erasures) != 2 || len(before.Erased) != 0 {
		t.Errorf("later there is %+v, before %+v, %v", later.Erased, before.Erased, err)
	}
	end := cleaned.End
	w.DeleteRecords(t, "log", 0, end)
	if later, err := before.Later(t.Context()); err == nil {
		t.Errorf("records up to %d were deleted: %+v", end, later.Erased)
	}
}
