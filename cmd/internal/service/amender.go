package service

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
)

// amender is task.Amender for one partition: it proposes the versions of the model that
// the schedule has and the partition has not adopted.
type amender struct {
	timeline  *timeline
	processor Processor
	counters  *engine.Counters
	log       *slog.Logger     // has the partition
	list      []engine.Amended // in force
	restored  bool
}

// Amended implements task.Amender. What is missing here is waited for: it may be on
// its way to this machine.
func (a *amender) Amended(list []task.Amendment) error {
	found, err := a.timeline.resolve(list)
	if err != nil {
		return task.WithRemedy(err, task.Rebuild)
	}
	a.processor.Use(found)
	if len(found) > len(a.list) {
		last := found[len(found)-1]
		a.log.Info("model versions", "adopted", len(found), "newest_from_offset", last.From,
			"newest", last.Version.ID.String())
	}
	if a.restored && len(found) > len(a.list) {
		a.adopted(found[len(a.list):])
	}
	a.list, a.restored = found, true
	return nil
}

// adopted counts what is new, and says where it comes late. That is no fault: the offset
// decides, and is written down.
func (a *amender) adopted(added []engine.Amended) {
	a.counters.Book(engine.Tally{Adopted: int64(len(added))})
	released, ok := a.processor.(releasing)
	if !ok {
		return
	}
	for _, x := range added {
		if released.LatestMS() >= x.Version.ID.StartMS {
			a.log.Warn("a model version came after its start: fixes of its time, before its "+
				"offset, were released under the version before",
				"from_offset", x.From, "version", x.Version.ID.String())
		}
	}
}

// Propose implements task.Amender.
func (a *amender) Propose() (names [][]byte) {
	for _, v := range replaced(a.timeline.current()) {
		if slices.ContainsFunc(a.list, func(x engine.Amended) bool {
			return x.Version.ID == v.ID
		}) {
			continue
		}
		if len(a.list)+len(names) == task.MaxAmendments {
			if a.timeline.once(fmt.Sprint("full ", v.ID)) {
				a.log.Error("no further version of the model can be adopted, the changelog's "+
					"mark is full: stop every instance cleanly and make the newest version the "+
					"first of the schedule", "version", v.ID.String(), "versions",
					task.MaxAmendments)
			}
			break
		}
		names = append(names, v.ID.Name())
	}
	return names
}
