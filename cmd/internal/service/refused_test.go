package service_test

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/producer"
)

// TestShortRunsWarn: what a report would warn of is said when the service stops, however
// short its run was, and the last line has the reasons of what was refused.
func TestShortRunsWarn(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	o := atwork.Options(w, "short")
	raw := servicetest.Forge(t, servicetest.Sentinel())
	outside := servicetest.Sentinel()
	outside.Latitude++
	var records []producer.Record
	for n := range 20 {
		value := raw
		if n%5 == 4 {
			value = servicetest.Forge(t, outside)
		}
		records = append(records,
			producer.Record{
				Key: []byte(servicetest.Sentinel().UserID), Value: value,
				Timestamp: servicetest.StartMS,
			})
	}
	w.Send(t, records...)
	r := atwork.Start(t, o)
	servicetest.Await(t, "all is read",
		func() bool { return o.Counters.Snapshot().RecordsIn >= w.Fed }, r)
	r.Stop(t)
	for _, part := range []string{
		`msg="more than a tenth of the records is refused`, `msg="many fixes lie outside the map"`,
		`msg=stopped reasons="outside_map 4" records_in=20 records_out=16 dead_letters=4 `,
	} {
		if n := strings.Count(r.Log.String(), part); n != 1 {
			t.Errorf("the log says %d times %s:\n%s", n, part, r.Log)
		}
	}
}
