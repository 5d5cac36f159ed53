package explore

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/geodither/geodither/cmd/internal/monitor"
)

// TestStatus asks an instance that answers and one that does not.
func TestStatus(t *testing.T) {
	lag := int64(7)
	watched := []Watched{
		{"well", func(context.Context) (monitor.Status, error) {
			return monitor.Status{
				EpsilonSpent: 3, Service: monitor.Service{Group: "g"},
				Partitions: map[string]monitor.PartitionStatus{"4": {LagRecords: &lag}},
			}, nil
		}},
		{"here", func(context.Context) (monitor.Status, error) {
			return monitor.Status{}, errors.New("it sleeps")
		}},
	}
	h := handler(Options{Watched: watched, Logger: quiet()})
	var found Instances
	ask(t, h, "/api/status", &found)
	for i, want := range []string{"", "it sleeps"} {
		one := found.Instances[i]
		if one.Name != watched[i].Name || (one.Status == nil) != (want != "") ||
			one.Trouble != want {
			t.Errorf("instance %d: %+v, want %q", i, one, want)
		}
	}
	if s := found.Instances[0].Status; s.EpsilonSpent != 3 || *s.Partitions["4"].LagRecords != 7 {
		t.Errorf("the status is %+v", s)
	}
	var about About
	if ask(t, h, "/api/about", &about); !about.Status || about.Truth || about.Public {
		t.Errorf("about: %+v", about)
	}
	if status, _ := ask(t, sampleHandler(t), "/api/status", nil); status != http.StatusNotFound {
		t.Errorf("a page that watches nothing answers %d", status)
	}
}
