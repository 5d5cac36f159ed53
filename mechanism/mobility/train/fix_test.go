package train

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestFixPrintsNothing(t *testing.T) {
	f := Fix{User: "alice", TimeMS: 1234567, Lat: 39.9, Lon: 116.4}
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%f", "%T"} {
		texts = append(texts, fmt.Sprintf(verb, f), fmt.Sprintf(verb, &f),
			fmt.Sprintf(verb, []Fix{f}))
	}
	encoded, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "fix", f, "pointer", &f)
	for _, text := range append(texts, string(encoded), log.String()) {
		for _, secret := range []string{"alice", "1234567", "39.9", "116.4"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q holds %s", text, secret)
			}
		}
	}
}
