package replay_test

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

// TestUpgradeOfRecords: what a service wrote before there were records of version 3 verifies, a
// replay gives the same releases as records of version 3 at no cost, and the upgraded service goes
// on from the same states and in the same topic.
func TestUpgradeOfRecords(t *testing.T) {
	w := servicetest.NewWorld(t, 10)
	o := atwork.Options(w, "first")
	o.Release.Mechanism = law.Lattice // the default of that time
	before := o
	before.Records = engine.RecordsBefore
	atwork.Serve(t, w, before, 5)
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("records of version 2 do not verify: %+v", report)
	}
	avro := servicetest.NewCodec(t, schemas.Avro)
	decoded := func(l servicetest.Line) schemas.Sanitized {
		record, err := avro.DecodeSanitized([]byte(l.Value))
		servicetest.OK(t, err)
		return record
	}

	// An altered record is found as well.
	altering := o
	altering.Topics.Sanitized = "altered.out"
	w.CopyTopic(t, "first.out", "altered.out", 1, func(l []servicetest.Line) []servicetest.Line {
		value := []byte(l[3].Value)
		value[len(value)-1] ^= 2
		l[3].Value = string(value)
		return l
	})
	if found := atwork.Verify(t, altering).Partitions[1]; len(found.Violations) != 1 ||
		found.Violations[0].Kind != "different" {
		t.Errorf("an altered record of version 2: %+v", found)
	}

	plan := atwork.Replay(t, o, replay.Options{Output: "again"})
	if !plan.Identical || plan.Cost != (replay.Cost{}) {
		t.Errorf("a replay of records of version 2 costs: %+v", plan)
	}
	first := w.Answers(t, "first")
	first.Read(t)
	for p, lines := range atwork.Replayed(t, w, plan).Out.Lines {
		for i, l := range lines {
			was, is := decoded(first.Out.Lines[p][i]), decoded(l)
			if !is.SigmaMajorM.Known || was.SigmaMajorM.Known {
				t.Fatalf("want an ellipse in version 3 alone: %+v, %+v", was, is)
			}
			is.SigmaMajorM, is.SigmaMinorM, is.AzimuthDeg = was.SigmaMajorM, was.SigmaMinorM,
				was.AzimuthDeg
			if is != was {
				t.Fatalf("the replay has %+v, want %+v", is, was)
			}
		}
	}

	atwork.Serve(t, w, o, 5)
	versions := map[bool]int{} // records by whether they have an ellipse
	releases := map[string]int64{}
	for _, l := range w.Records(t, "first.out") {
		record, err := avro.DecodeSanitized(l.Value)
		servicetest.OK(t, err)
		versions[record.SigmaMajorM.Known]++
		if record.Release < releases[record.UserID] {
			t.Errorf("the account of a user starts again: %+v", record)
		}
		releases[record.UserID] = record.Release
	}
	if versions[true] == 0 || versions[false] == 0 {
		t.Errorf("records with an ellipse: %v, want some of both versions", versions)
	}
	for _, p := range atwork.Verify(t, o).Partitions {
		if p.ViolationCount > 0 || len(p.NotVerified) != 1 ||
			!strings.Contains(p.NotVerified[0], "settings changed") {
			t.Errorf("partition %d after the upgrade: %+v", p.Partition, p)
		}
	}
}
