package config

import (
	"encoding"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/deploy"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// choices are the keys that take one of some words.
var choices = map[string][]string{
	"topics.partitioner": {
		string(engine.Murmur2), string(engine.CRC32), string(engine.AnyPartitioner),
	},
	"kafka.sasl.mechanism": kafkaconn.Mechanisms(),
	"encoding.raw": {
		string(schemas.Avro), string(schemas.JSON), string(schemas.Auto),
	},
	"encoding.sanitized": {
		string(schemas.Avro), string(schemas.AvroRegistry), string(schemas.JSON),
		string(schemas.JSONSchema),
	},
	"release.mechanism": law.Names(),
	"release.between":   {mechanism.BetweenPredict, mechanism.BetweenSkip},
	"publish.timestamp": {engine.TimestampExact, engine.TimestampStep},
	"publish.user":      {engine.UserPlain, engine.UserPseudonym},
	"publish.estimate":  {mechanism.EstimateMean, mechanism.EstimateMedian},
	"input.outside":     {engine.OutsideDeadLetter, engine.OutsideClamp},
	"input.preset":      words(mapping.Presets()...),
	"input.format": words(mapping.Auto, mapping.JSON, mapping.Avro,
		mapping.Protobuf),
	"input.timestamp.unit": words(schemas.TimeUnits()...),
	"input.key_check":      words(mapping.KeyCheckOn, mapping.KeyCheckOff),
	"log.level":            {"debug", "info", "warn", "error"},
	"log.format":           {"text", "json"},
}

// words are values of a type that is a text.
func words[T ~string](values ...T) (texts []string) {
	for _, v := range values {
		texts = append(texts, string(v))
	}
	return texts
}

// object is a JSON object. Its keys are written in the order of the alphabet.
type object = map[string]any

// Schema returns the JSON Schema of a config (draft 2020-12), for editors and for checks before a
// deployment. It knows names, kinds and words. Which values go together, "geodither config lint"
// says.
func Schema() ([]byte, error) {
	schema := schemaOf(reflect.TypeFor[File](), "")
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Config of geodither"
	schema["required"] = []string{"brokers", "group", "topics", "state_dir", "release"}
	return json.MarshalIndent(schema, "", "  ")
}

// schemaOf returns the schema of a type of Go, whose value has a path in the config.
func schemaOf(t reflect.Type, path string) object {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return orVariable(object{
			"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`,
			"examples": []string{"100ms", "30s", "1h30m"},
		})
	case t == reflect.TypeFor[Ahead]():
		return object{"oneOf": []object{
			{"const": noBound}, schemaOf(reflect.TypeFor[time.Duration](), path),
		}}
	case t == reflect.TypeFor[Budget]():
		return object{"oneOf": []object{{"const": noBudget}, structSchema(t, path)}}
	case len(choices[path]) > 0:
		return orVariable(object{"enum": choices[path]})
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), path)
	case reflect.Struct:
		return structSchema(t, path)
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem(), path)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem(), path)}
	case reflect.Bool:
		return orVariable(object{"type": "boolean"})
	case reflect.Interface: // of a rule
		return object{"type": []string{"string", "number", "boolean"}}
	case reflect.Float64:
		return orVariable(object{"type": "number"})
	case reflect.Int, reflect.Int64:
		return orVariable(object{"type": "integer", "minimum": 0})
	default:
		return object{"type": "string"}
	}
}

// orVariable takes a variable of the environment too.
func orVariable(value object) object {
	return object{"anyOf": []object{value, {"type": "string", "pattern": variable.String()}}}
}

// structSchema is the schema of a section.
func structSchema(t reflect.Type, path string) object {
	properties := object{}
	explained := explanations()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		key := strings.TrimPrefix(path+"."+name, ".")
		property := schemaOf(t.Field(i).Type, key)
		if text := explained[key]; text != "" {
			property["description"] = text
		}
		properties[name] = property
	}
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

// Lines of the example: a key, in use or commented out, with what explains it, and more of that.
var (
	exampleKey  = regexp.MustCompile(`^( *)(?:# )?( *)([a-z_]+):(?: [^#]*| *)(?:# (.*))?$`)
	exampleMore = regexp.MustCompile(`^ {20,}# +([^ #].*)$`)
)

// explanations are the comments beside the keys of the example, by the keys' paths.
var explanations = sync.OnceValue(func() map[string]string {
	texts := map[string]string{}
	type section struct {
		indent int
		path   string
	}
	var open []section
	path := ""
	for line := range strings.Lines(deploy.Example) {
		line = strings.TrimRight(line, "\n")
		if more := exampleMore.FindStringSubmatch(line); more != nil {
			if texts[path] != "" {
				texts[path] += " " + more[1]
			}
			continue
		}
		path = ""
		found := exampleKey.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		indent := len(found[1]) + len(found[2])
		for len(open) > 0 && open[len(open)-1].indent >= indent {
			open = open[:len(open)-1]
		}
		path = found[3]
		if len(open) > 0 {
			path = open[len(open)-1].path + "." + path
		}
		open = append(open, section{indent, path})
		texts[path] = found[4]
	}
	return texts
})
