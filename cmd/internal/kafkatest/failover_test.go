//go:build kafka

package kafkatest

import (
	"fmt"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
)

// restoredRecords is how many records of the changelog a task has read at its start.
var restoredRecords = regexp.MustCompile(`msg="state restored".* changelog_records=(\d+)`)

// TestFailover kills one of two instances and looks what the heir reads of the changelog, and how
// long it takes until every fix has its record. With a standby the heir reads next to nothing.
// Without one it reads all states of the partitions that it inherits.
func TestFailover(t *testing.T) {
	t.Parallel()
	const vehicles, partitions = 1000, 4
	for _, standbys := range []int{0, 1} {
		t.Run(fmt.Sprint("standbys=", standbys), func(t *testing.T) {
			w := newHarness(t).world(partitions, vehicles)
			o := w.options("service")
			o.MaxRecords, o.MaxInterval = 5000, 100*time.Millisecond
			o.TransactionTimeout = 10 * time.Second
			w.createRaw()
			w.ok(topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))
			more := fmt.Sprintf("standby_replicas: %d", standbys)
			join := func(name string) *process {
				p := w.start(w.config(o, name, more), name)
				w.eventually(name+" has partitions", func() bool {
					return p.log.has("state restored")
				})
				return p
			}
			first, second := join("first"), join("second") // the heir has had its own share only
			w.feed(3)
			w.eventually("all is answered", func() bool { return w.answered(o) })
			if standbys > 0 {
				w.eventually("both have copies", func() bool {
					return first.log.has("standby is up to date") &&
						second.log.has("standby is up to date")
				})
			}
			time.Sleep(6 * time.Second) // longer than a standby waits for an answer
			before := len(restoredRecords.FindAllString(second.log.String(), -1))
			first.signal(syscall.SIGKILL)
			killed := time.Now()
			w.feed(1)
			w.eventually("all is answered", func() bool { return w.answered(o) })
			took := since(killed)
			read := 0
			for _, found := range restoredRecords.FindAllStringSubmatch(second.log.String(),
				-1)[before:] {
				n, err := strconv.Atoi(found[1])
				w.ok(err)
				read += n
			}
			t.Logf("%d standbys, session timeout %v: all was answered %v after the kill; the heir "+
				"has read %d records of the changelog", standbys, o.SessionTimeout, took, read)
			if standbys > 0 && read > vehicles/10 || standbys == 0 && read < vehicles/4 {
				t.Errorf("the heir has read %d records of the changelog", read)
			}
			second.terminate()
			w.exactlyOnce(o)
		})
	}
}
