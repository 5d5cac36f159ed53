//go:build kafka

package kafkatest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// spy is a transport that counts the error codes in the answers.
type spy struct {
	next kafka.RoundTripper

	mu    sync.Mutex
	sent  map[protocol.ApiKey]int
	codes map[answered]int
}

// answered is a code in the answer to a kind of request.
type answered struct {
	key  protocol.ApiKey
	code kafka.Error
}

func newSpy(next kafka.RoundTripper) *spy {
	return &spy{next: next, sent: map[protocol.ApiKey]int{}, codes: map[answered]int{}}
}

// RoundTrip implements kafka.RoundTripper.
func (s *spy) RoundTrip(ctx context.Context, addr net.Addr,
	req kafka.Request,
) (kafka.Response, error) {
	res, err := s.next.RoundTrip(ctx, addr, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[req.ApiKey()]++
	if err == nil {
		walk(reflect.ValueOf(res),
			func(code int16) { s.codes[answered{req.ApiKey(), kafka.Error(code)}]++ })
	}
	return res, err
}

// walk visits every error code in an answer, whatever hides it; 0 is none.
func walk(v reflect.Value, visit func(code int16)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), visit)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				walk(v.Index(i), visit)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case !f.IsExported():
			case f.Name == "ErrorCode" && f.Type.Kind() == reflect.Int16:
				if code := int16(v.Field(i).Int()); code != 0 {
					visit(code)
				}
			default:
				walk(v.Field(i), visit)
			}
		}
	default:
	}
}

// saw is how often a code has come, in answer to requests of any kind or of the
// given ones.
func (s *spy) saw(code kafka.Error, keys ...protocol.ApiKey) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for a, count := range s.codes {
		if a.code == code && (len(keys) == 0 || slices.Contains(keys, a.key)) {
			n += count
		}
	}
	return n
}

func (s *spy) count(key protocol.ApiKey) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[key]
}

// String lists what came, for the log of a test.
func (s *spy) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for a, n := range maps.All(s.codes) {
		all = append(all, fmt.Sprintf("%v answered %d (%s) %d×", a.key, int(a.code),
			a.code.Title(), n))
	}
	if len(all) == 0 {
		return "no error codes"
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}
