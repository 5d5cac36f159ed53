package service

import (
	"context"
	"errors"
	"testing"

	"github.com/geodither/geodither/consumer/task"
)

// TestLeftOut: records that are left out are told when the topic is known to be right: not while it
// cannot be asked, not where the service stops for it, and once up to the end.
func TestLeftOut(t *testing.T) {
	var answer error
	told, asked := 0, 0
	l := partitionLog{
		appended: func(context.Context) error { asked++; return answer },
		leftOut:  func(int64) { told++ },
	}
	away := task.WithRemedy(errors.New("away"), task.Retry)
	for i, step := range []struct {
		offset, end int64
		answer      error
		fatal       bool
		told, asked int
	}{
		{5, 10, away, false, 0, 1},
		{5, 10, away, false, 0, 2},
		{5, 10, nil, false, 1, 3},
		{9, 12, away, false, 1, 3},
		{10, 12, nil, false, 2, 4},
		{12, 14, errors.New("producers' times"), true, 2, 5},
	} {
		answer = step.answer
		err := l.check(t.Context(), step.offset, step.end)
		fatal := err != nil && task.RemedyOf(err) == task.Fatal
		if told != step.told || asked != step.asked || fatal != step.fatal {
			t.Errorf("step %d: %v, told %d times, asked %d", i, err, told, asked)
		}
	}
}
