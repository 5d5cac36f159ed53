package engine

import (
	"encoding/binary"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/registry"
)

// header is one header of a record.
type header struct {
	name  string
	value []byte
}

// Last implements task.Headers.
func (h header) Last(name string) ([]byte, bool) { return h.value, name == h.name }

// TestRegistryFraming: records in a registry's framing are released as others are. While the
// registry is away the record waits: it is no dead letter.
func TestRegistryFraming(t *testing.T) {
	r := srfake.New()
	defer r.Close()
	r.SeedSchema("raw-value", 1, 7, sr.Schema{Schema: schemas.RawSchema()})
	away := false
	r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if away {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return away
	})
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	o.RawEncoding = schemas.Auto
	plain := servicetest.Record(t, 4711, servicetest.Sentinel())
	want := servicetest.Process(t, newTestProcessor(t, o, 0), plain, nil)
	client, err := registry.New(registry.Options{URL: r.URL()})
	servicetest.OK(t, err)
	o.Registry = client.NoWait()

	const single = 10
	id := binary.BigEndian.AppendUint32([]byte{0}, 7)
	framed, beside := plain, plain
	framed.Value = append(id, plain.Value[single:]...)
	beside.Value = plain.Value[single:]
	beside.Headers = header{registry.SchemaHeader, id}
	away = true
	var fx task.Effects
	err = newTestProcessor(t, o, 0).Process(framed, nil, &fx)
	if !registry.IsAway(err) || task.RemedyOf(err) != task.Rebuild || len(fx.DeadLetters) > 0 {
		t.Errorf("with the registry away: %v, %d dead letters", err, len(fx.DeadLetters))
	}
	away = false
	for name, rec := range map[string]task.Record{
		"single object": plain, "before the value": framed, "in a header": beside,
	} {
		servicetest.RequireEqual(t, name, want,
			servicetest.Process(t, newTestProcessor(t, o, 0), rec, nil))
	}
	unknown := framed
	unknown.Value = append(binary.BigEndian.AppendUint32([]byte{0}, 8), "body"...)
	err = newTestProcessor(t, o, 0).Process(unknown, nil, &fx)
	if !registry.IsAway(err) || task.RemedyOf(err) != task.Rebuild || len(fx.DeadLetters) > 0 {
		t.Errorf("a number that the registry does not have yet: %v, %d dead letters", err,
			len(fx.DeadLetters))
	}
}

// TestApicurioIDs: a schema that is named by an id of Apicurio's own, of 8 bytes or in headers, is
// not taken for another one, and the advice names the settings.
func TestApicurioIDs(t *testing.T) {
	r := srfake.New()
	defer r.Close()
	r.SeedSchema("raw-value", 1, 7, sr.Schema{Schema: schemas.RawSchema()})
	client, err := registry.New(registry.Options{URL: r.URL()})
	servicetest.OK(t, err)
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	const single = 10
	for _, encoding := range []schemas.Encoding{schemas.Auto, schemas.Avro} {
		if o.RawEncoding = encoding; encoding == schemas.Auto {
			o.Registry = client
		} else {
			o.Registry = nil
		}
		var tally Refusals
		reader, err := NewReader(o.Source())
		servicetest.OK(t, err)
		for _, name := range []string{
			"", "apicurio.value.globalId", "apicurio.value.contentId",
		} {
			rec := servicetest.Record(t, 4711, servicetest.Sentinel())
			rec.Value = rec.Value[single:]
			id := binary.BigEndian.AppendUint64(nil, 7)
			if name == "" {
				rec.Value = append(append([]byte{0}, id...), rec.Value...)
			} else {
				rec.Headers = header{name, id}
			}
			fixes, err := reader.Fixes(rec)
			servicetest.OK(t, err)
			if f := fixes[0]; f.Refused == nil || f.Refused.Reason != schemas.ReasonApicurioID {
				t.Errorf("%s, %q: refused %v", encoding, name, f.Refused)
			} else {
				tally.Add(f.Refused.Reason, rec.Value)
			}
		}
		if text := o.Source().Advice(tally, 0); !strings.Contains(text, "Default4ByteIdHandler") {
			t.Errorf("the advice is %q", text)
		}
	}
}

// TestErrorHeaders: a dead letter says in headers what its value says, and has nothing of the
// refused record's own headers.
func TestErrorHeaders(t *testing.T) {
	p := newTestProcessor(t, testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000,
		4)), 3)
	rec := servicetest.Record(t, 4711, servicetest.Sentinel())
	rec.Value, rec.Headers = []byte("junk"), header{"vin", []byte("5YJ3E1EA7KF000316")}
	var fx task.Effects
	servicetest.OK(t, p.Process(rec, nil, &fx))
	if len(fx.DeadLetters) != 1 {
		t.Fatalf("%d dead letters", len(fx.DeadLetters))
	}
	got := map[string]string{}
	for _, h := range fx.DeadLetters[0].Headers {
		got[strings.TrimPrefix(h.Name, "__streams.errors.")] = h.Value
	}
	for name, want := range map[string]string{
		"exception": "malformed", "message": schemas.ReasonMalformed.Words(), "topic": "raw",
		"partition": "3", "offset": "4711",
	} {
		if got[name] != want {
			t.Errorf("the header %s is %q, want %q", name, got[name], want)
		}
	}
	if len(got) != 5 {
		t.Errorf("the headers are %q", got)
	}
	for _, reason := range schemas.Reasons() {
		if reason.Words() == "" {
			t.Errorf("%s has no words", reason)
		}
	}
}
