package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

var errNoNoise = errors.New("this key is one of pseudonyms only and has no noise: name the service's key file")

// A key that was advanced (noise.Key.From) is the same key by its fingerprint, so that
// a service goes on under it without a question. What it answers is the same too, but for
// fixes of days that it no longer has: those are refused. Whoever computes the answers
// again has to know of both kinds, and asks here:
//
//   - The key of now lacks days of which there are releases. They cannot be computed.
//   - The key of now has days that the service's no longer had when it refused their
//     fixes. Computed again these would be releases, and all later ones of these users others.

// otherDays is what a pass over a raw partition and its dead letters has found.
type otherDays struct {
	lacking int64     // fixes of days that the key lacks, and that were not refused
	first   noise.Day // that the key has
	refused int64     // fixes that were refused for a day that the key has
}

// lackingText says what cannot be computed, and what would help.
func (d otherDays) lackingText() string {
	return fmt.Sprintf("the noise of %d fixes is of days whose key was destroyed: this key begins at %v. "+
		"Only a copy of an older key file can repeat their releases", d.lacking, d.first)
}

// refusedText says what would not be the first release again.
func (d otherDays) refusedText() string {
	return fmt.Sprintf("%d fixes were refused since the service's key no longer had their days, and this key, which begins at %v, still has them: "+
		"use the service's own key file", d.refused, d.first)
}

// findOtherDays compares the days that the key has with what became of the raw records
// [from, to). Both topics are in the order of raw offsets, so memory does not grow with them.
func (o Options) findOtherDays(ctx context.Context, raw *consumer.Fetcher, letters *puller, from, to int64) (found otherDays, err error) {
	found.first = o.Key.FirstDay()
	incoming, err := schemas.NewCodec(o.RawEncoding)
	if err != nil {
		return found, err
	}
	outgoing, err := schemas.NewCodec(o.SanitizedEncoding)
	if err != nil {
		return found, err
	}
	follow := &letterReader{letters: letters, codec: outgoing}
	if found.first == 0 { // nothing is lacking: the refused ones are all there is to know
		for {
			letter, more, err := follow.next(ctx)
			if err != nil || !more {
				return found, err
			}
			if letter.Reason == schemas.ReasonKeyDestroyed && letter.Offset >= from && letter.Offset < to {
				found.refused++
			}
		}
	}
	err = scan(ctx, raw, from, to, func(r consumer.Record) error {
		fix, err := Accept(incoming, o.MaxAhead, r.Key, r.Value, r.Timestamp)
		if err != nil {
			return nil //nolint:nilerr // a dead letter under any key
		}
		reason, err := follow.at(ctx, r.Offset)
		if err != nil {
			return err
		}
		has := dayOf(o.Model, fix.Timestamp) >= found.first
		switch {
		case !has && reason == "":
			found.lacking++
		case has && reason == schemas.ReasonKeyDestroyed:
			found.refused++
		}
		return nil
	})
	return found, err
}

// dayOf is the day on which the step of a fix begins: all versions of a model have one step.
func dayOf(m *mobility.Model, ms int64) noise.Day {
	step := int64(m.Step / time.Millisecond)
	return noise.DayAt(ms / step * step)
}

// letterReader reads dead letters in the order of raw offsets.
type letterReader struct {
	letters *puller // nil: there are none
	codec   *schemas.Codec
	letter  schemas.DeadLetter
	begun   bool
	more    bool
}

// next returns the next letter that can be read; what cannot be is of no concern here.
func (l *letterReader) next(ctx context.Context) (schemas.DeadLetter, bool, error) {
	for l.letters != nil {
		e, more, err := l.letters.next(ctx)
		if err != nil || !more {
			return schemas.DeadLetter{}, false, err
		}
		if letter, err := l.codec.DecodeDeadLetter(e.value); err == nil {
			return letter, true, nil
		}
	}
	return schemas.DeadLetter{}, false, nil
}

// at returns the reason for which the record at a raw offset was refused, or nothing.
// Offsets have to ascend from call to call.
func (l *letterReader) at(ctx context.Context, offset int64) (reason schemas.Reason, err error) {
	for !l.begun || l.more && l.letter.Offset < offset {
		l.begun = true
		if l.letter, l.more, err = l.next(ctx); err != nil {
			return "", err
		}
	}
	if l.more && l.letter.Offset == offset {
		return l.letter.Reason, nil
	}
	return "", nil
}

// judgeDays answers false where the key's days are not those that the results were made with.
func (c *check) judgeDays(ctx context.Context, raw *consumer.Fetcher, dead output) (bool, error) {
	letters, err := c.pull(dead, false)
	if err != nil {
		return false, err
	}
	from := c.from
	if c.part {
		from = c.mark.Since
	}
	found, err := c.o.findOtherDays(ctx, raw, letters, from, c.to)
	if err != nil {
		return false, err
	}
	if found.lacking > 0 {
		c.unverified("%s", found.lackingText())
	}
	if found.refused > 0 {
		c.unverified("%s", found.refusedText())
	}
	known := found.lacking == 0 && found.refused == 0
	if !known {
		c.report.From, c.report.To = -1, -1
	}
	return known, nil
}

// days refuses a replay of releases whose days the key no longer has, which no ε buys
// back, and says where an older key would make other releases than the first ones.
func (p *planner) days(ctx context.Context, part *ReplayPartition, raw *consumer.Fetcher) error {
	if part.empty() {
		return nil
	}
	there, err := p.exists(ctx, p.first.Topics.DeadLetters)
	if err != nil {
		return err
	}
	var letters *puller
	if there {
		f, err := consumer.NewFetcher(p.client, p.first.Topics.DeadLetters, part.Partition, consumer.FetcherOptions{})
		if err != nil {
			return err
		}
		first, end, err := f.Bounds(ctx)
		if err != nil {
			return err
		}
		letters = &puller{fetcher: f, at: first, end: end}
	}
	found, err := p.first.findOtherDays(ctx, raw, letters, part.Origin, part.To)
	if err != nil {
		return err
	}
	if found.lacking > 0 {
		return fmt.Errorf("%w: %s", noise.ErrDestroyed, found.lackingText())
	}
	if found.refused > 0 {
		part.Differs = append(part.Differs, found.refusedText())
	}
	return nil
}
