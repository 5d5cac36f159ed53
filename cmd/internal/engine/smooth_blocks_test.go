package engine

import (
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/schemas"
)

// TestOpenBlockSize: a block counts as about the memory that it holds, with what records have left
// behind, and however long the user's name is.
func TestOpenBlockSize(t *testing.T) {
	t.Parallel()
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	j := newSmoothJob(t, SmoothSettings{Model: model, Release: everyFive, LagSteps: 5})
	codec := servicetest.NewCodec(t, schemas.Avro)
	least, most := 9., 0.
	for _, rec := range sanitizedTopic(t, model, everyFive, 1, 400) {
		r, err := codec.DecodeSanitized(rec.Value)
		servicetest.OK(t, err)
		r.UserID = strings.Repeat("v", 200)
		rec.Key = []byte(r.UserID)
		rec.Value, err = codec.AppendSanitized(nil, r)
		servicetest.OK(t, err)
		j.process(rec)
		for user, b := range j.p.blocks.users {
			v := reflect.ValueOf(b).Elem()
			held := len(user) + int(v.Type().Size()) + heldBy(v, map[*byte]bool{})
			least = min(least, float64(b.size)/float64(held))
			most = max(most, float64(b.size)/float64(held))
		}
	}
	if least < .98 || most > 1.25 {
		t.Errorf("blocks count as %.2f to %.2f times what they hold", least, most)
	}
}

// heldBy returns how many bytes a value refers to by slices and strings, spare capacity included.
// What lies behind pointers, as models and filters, serves all blocks.
func heldBy(v reflect.Value, texts map[*byte]bool) (n int) {
	switch v.Kind() {
	case reflect.String:
		if p := unsafe.StringData(v.String()); !texts[p] {
			texts[p] = true
			return v.Len()
		}
	case reflect.Slice:
		n = v.Cap() * int(v.Type().Elem().Size())
		for i := range v.Cap() {
			n += heldBy(v.Slice(0, v.Cap()).Index(i), texts)
		}
	case reflect.Array:
		for i := range v.Len() {
			n += heldBy(v.Index(i), texts)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += heldBy(v.Field(i), texts)
		}
	default:
	}
	return n
}
