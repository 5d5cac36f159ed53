package aggregate

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
)

// Input is where sanitized records come from. It serves one Run.
type Input struct {
	sources []files.Source
	split   *split
	read    atomic.Int64 // bytes
	total   int64        // bytes; 0 if that is not known
}

// progress says how many bytes of how many are read.
func (in *Input) progress() (done, total int64) { return in.read.Load(), in.total }

// Files is an input of files of "sanitize" or "consume"; "-" is standard input.
func Files(paths []string, stdin io.Reader) (*Input, error) {
	total, err := files.Sizes(paths)
	if err != nil {
		return nil, err
	}
	in := &Input{split: newSplit(), total: total}
	for _, path := range paths {
		count := func(n int) { in.read.Add(int64(n)) }
		in.sources = append(in.sources, files.Records(path, stdin, count))
	}
	return in, nil
}

// Topic is an input of a sanitized topic, from its first offset to the end that it has now.
func Topic(
	ctx context.Context, client *kafka.Client, topic string, encoding schemas.Encoding,
) (*Input, error) {
	counts, err := admin.Partitions(ctx, client, wire.Options{}, topic)
	if err != nil {
		return nil, err
	}
	in := &Input{split: newSplit()}
	for p := range int32(counts[topic]) {
		codec, err := schemas.NewCodec(encoding)
		if err != nil {
			return nil, cli.Usage(err)
		}
		tail := topics.Tail{Client: client, Topic: topic}
		in.sources = append(in.sources, in.partition(tail, p, codec))
	}
	return in, nil
}

// partition reads one partition, and notes whose records lie there.
func (in *Input) partition(t topics.Tail, p int32, codec *schemas.Codec) files.Source {
	return func(ctx context.Context, each func(schemas.Sanitized, string) error) error {
		return t.Partition(ctx, p, func(r consumer.Record) error {
			where := fmt.Sprintf("%s/%d at offset %d", t.Topic, p, r.Offset)
			record, err := codec.DecodeSanitized(r.Value)
			if err != nil {
				return fmt.Errorf("%s: %w; is this a sanitized topic?", where, err)
			}
			in.split.lies(record.UserID, p)
			return each(record, where)
		})
	}
}
