package audit

import (
	"testing"
	"time"
)

func TestSoundServicePasses(t *testing.T) {
	s := townSettings(t)
	began := time.Now()
	r, err := Run(Engine, s, Options{Seed: 1, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(began), r.Records, r.Tests, r.Bound, r.Hits, r.Misses, r.Passed)
	for _, c := range r.Checks {
		t.Logf("%+v", *c)
	}
}
