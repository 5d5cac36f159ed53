package admin

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// TestFeatures: the answers of a broker with features, of one that does not know the version, and
// of ones that end too soon.
func TestFeatures(t *testing.T) {
	h := wiretest.OwnTopic(t)
	found, err := Features(t.Context(), h.Client, wiretest.Quick)
	h.OK(err)
	if found["transaction.version"] < 1 {
		t.Errorf("features %v", found)
	}
	answer := kmsg.NewPtrApiVersionsResponse()
	answer.Version = 3
	key := kmsg.NewApiVersionsResponseApiKey()
	key.MaxVersion = 9
	answer.ApiKeys = append(answer.ApiKeys, key, key)
	for level, name := range []string{"a", "b"} {
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MaxVersionLevel, f.MinVersionLevel = name, int16(level), int16(level)
		answer.FinalizedFeatures = append(answer.FinalizedFeatures, f)
	}
	whole := answer.AppendTo(nil)
	found, err = readFeatures("test", whole)
	if err != nil || len(found) != 2 || found["b"] != 1 {
		t.Errorf("features %v, %v", found, err)
	}
	for size := range whole {
		if _, err := readFeatures("test", whole[:size]); !errors.Is(err, wire.ErrTemporary) {
			t.Errorf("%d of %d bytes: %v", size, len(whole), err)
		}
	}
	if found, err := readFeatures("test", []byte{0, 35, 0, 0, 0, 0}); err != nil || found != nil {
		t.Errorf("an unknown version: %v, %v", found, err)
	}
	if _, err := readFeatures("test", []byte{0, 41}); err == nil {
		t.Error("a refusal is no error")
	}
}
