package admin

import (
	"context"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/consumer/wire"
)

// Features returns the versions of what a cluster has agreed on (KIP-584), such as
// transaction.version. It is empty if the brokers do not tell.
func Features(ctx context.Context, client *kafka.Client, o wire.Options) (
	found map[string]int16, err error,
) {
	const op = "read the cluster's features"
	err = o.Retry(ctx, func(ctx context.Context, o wire.Options) error {
		// Version 3, the first with features; kafka-go has version 2:
		//	name of the client's software | its version | tags
		request := wire.NewRequest(protocol.ApiVersions, 3).String("geodither").String("1").End()
		answer, err := wire.Ask[*wire.Frame](ctx, client, wire.Exchange{
			Op: op, Message: request, To: wire.AnyBroker, Timeout: o.RequestTimeout,
		})
		if err != nil {
			return err
		}
		found, err = readFeatures(op, answer.Body)
		return err
	})
	return found, err
}

// finalizedFeatures is the tag of what all brokers have agreed on.
const finalizedFeatures = 2

// readFeatures reads the answer to ApiVersions version 3, whose header has no tags:
//
//	error 2 | keys array of (key 2 | from version 2 | to version 2 | tags) | throttle 4 |
//	tags: finalized features array of (name | from level 2 | to level 2 | tags)
//
// A broker that does not know the version answers in version 0 (KIP-511).
func readFeatures(op string, body []byte) (map[string]int16, error) {
	r := &wire.Reader{Rest: body}
	switch code := kafka.Error(r.Int16()); code {
	case 0:
	case kafka.UnsupportedVersion:
		return nil, nil
	default:
		return nil, wire.Refused(op, code)
	}
	for range r.CompactCount(7) {
		r.Take(2 + 2 + 2)
		r.SkipTags()
	}
	r.Int32() // throttle time
	found, short := map[string]int16{}, false
	r.Tags(func(tag uint64, field *wire.Reader) {
		if tag != finalizedFeatures {
			return
		}
		for range field.CompactCount(6) {
			name := string(field.CompactString())
			level := field.Int16()
			field.Int16() // KIP-584 calls them the highest and the lowest level; they are equal
			field.SkipTags()
			found[name] = level
		}
		short = field.Short
	})
	if r.Short || short {
		return nil, wire.CutShort(op)
	}
	return found, nil
}
