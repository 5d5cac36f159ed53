package audit

import (
	"maps"
	"reflect"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
)

// TestFactsAreAll: every setting of releases and of what is published is among the facts, so that
// an audit of other settings is known as one.
func TestFactsAreAll(t *testing.T) {
	plain := Settings{}.Facts()
	s := Settings{Input: engine.Input{Outside: engine.OutsideClamp}, Encoding: "json"}
	if f := s.Facts(); f["input.outside"] != "clamp" || f["encoding.sanitized"] != "json" {
		t.Errorf("%v", f)
	}
	var each func(value reflect.Value, path string)
	each = func(value reflect.Value, path string) {
		for i := range value.NumField() {
			field, name := value.Field(i), path+"."+value.Type().Field(i).Name
			switch field.Kind() {
			case reflect.Struct:
				each(field, name)
				continue
			case reflect.String:
				field.SetString("another")
			case reflect.Bool:
				field.SetBool(true)
			case reflect.Int:
				field.SetInt(7)
			case reflect.Slice:
				field.Set(reflect.MakeSlice(field.Type(), 1, 1))
			default:
				field.SetFloat(.125)
			}
			if maps.Equal(s.Facts(), plain) {
				t.Errorf("%s makes no difference", name)
			}
			field.SetZero()
		}
	}
	s = Settings{}
	each(reflect.ValueOf(&s.Release).Elem(), "Release")
	each(reflect.ValueOf(&s.Publish).Elem(), "Publish")
}
