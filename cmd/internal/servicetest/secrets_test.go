package servicetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// TestPlantedLeaks shows that leaks finds each form of each secret in the midst
// of other bytes, and nothing where there is nothing.
func TestPlantedLeaks(t *testing.T) {
	fix := Sentinel()
	g := NeighbourModel(t, Town, 2000, 4).Grid
	secrets := CoordinateSecrets(fix, g)
	secrets = append(secrets, CellSecrets(fix, g)...)
	secrets = append(secrets, UserSecrets(fix.UserID)...)
	secrets = append(secrets, PayloadSecrets(Encode(t, schemas.JSON, fix), nil)...)
	clean := []byte(
		`time=2026-09-18T05:43:03.123 level=WARN msg="transaction dropped" ` +
			`partition=3 offset=1234567 took=53.40699s at=-2.98`)
	RequireNoLeak(t, "a clean line", clean, secrets)
	for _, s := range secrets {
		planted := append(append(bytes.Clone(clean), ' '), s.form...)
		planted = append(append(planted, ' '), clean...)
		found := Leaks(planted, secrets)
		if len(found) == 0 {
			t.Errorf("%s is not found where it was planted", s.name)
		}
	}
	for _, line := range []string{
		fmt.Sprintf("lat=%v", fix.Latitude), fmt.Sprintf("lat=%.5f", fix.Latitude),
		fmt.Sprintf("lon=%.6f", fix.Longitude),
		fmt.Sprintf("cell=%d", g.Locate(fix.Latitude, fix.Longitude)),
		fmt.Sprintf("%x", Encode(t, schemas.JSON, fix)),
	} {
		if len(Leaks([]byte(line), secrets)) == 0 {
			t.Errorf("a leak of %d bytes is not found", len(line))
		}
	}
}

// TestKeySecretsAreTheKeys: what the canaries look for is what the program derives.
func TestKeySecretsAreTheKeys(t *testing.T) {
	day := noise.DayAt(StartMS)
	part, err := Key.From(day)
	OK(t, err)
	text, found := part.Reveal(), 0
	for _, s := range KeySecrets(Key, day) {
		if s.in([]byte(text)) {
			found++
		}
		planted := append(append([]byte("a line with "), s.form...), " in it"...)
		if len(Leaks(planted, []Secret{s})) == 0 {
			t.Errorf("%s is not found where it was planted", s.name)
		}
	}
	// Two subkeys and the part of the tree that begins with the day.
	if found != 3 {
		t.Errorf("%d secrets of the key are in the file of its days from %v on, want 3", found, day)
	}
	if strings.Contains(text, Key.Reveal()) {
		t.Error("the file holds the whole key")
	}
}
