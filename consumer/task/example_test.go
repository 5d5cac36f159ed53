package task_test

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/consumer/task"
)

// What drives a broker marks its errors by what to do about them.
func ExampleWithRemedy() {
	errFenced := errors.New("producer fenced")
	err := fmt.Errorf("commit: %w", task.WithRemedy(errFenced, task.Leave))
	fmt.Println(err, "→", task.RemedyOf(err), errors.Is(err, errFenced))
	fmt.Println(task.RemedyOf(errFenced))
	// Output:
	// commit: producer fenced → leave true
	// unmarked
}

// Keys that begin with a zero byte are kept for marks.
func ExampleValidKey() {
	fmt.Println(task.ValidKey([]byte("vehicle-7")), task.ValidKey([]byte(task.MarkKey)),
		task.ValidKey(nil))
	// Output: true false false
}
