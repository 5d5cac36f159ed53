//go:build kafka

package kafkatest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/schemas"
)

// smoothingLag is the lag of the smoothing instances, in steps of the fleet's model: so many
// records of a vehicle wait that a kill finds some.
const smoothingLag = 10

// smoothed is what the smoothing service has made of the sanitized topic.
type smoothed struct {
	Out, Waiting int      // records in the topic, and sanitized ones that wait for a later release
	Differing    []string // what is not as "geodither smooth --in" has it
	Keyless      bool     // the memory of the processes was looked through: only "run" has the key
}

// printed is a record of the sanitized or the smoothed topic as "consume" prints it.
type printed struct {
	text string
	User string `json:"user_id"`
	Step int64  `json:"step"`
	Kind string `json:"kind"`
}

// byUser takes lines apart, each user's in their order.
func byUser(text []byte) (map[string][]printed, error) {
	all := map[string][]printed{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		l := printed{text: lines.Text()}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, err
		}
		all[l.User] = append(all[l.User], l)
	}
	return all, lines.Err()
}

// closed returns how many of a user's records the smoothing service has to have written: those
// that a release follows at the lag or later. It may have written more, where a gap ends a block.
func closed(records []printed) (n int) {
	for i, l := range records {
		if l.Kind != schemas.KindReleased {
			continue
		}
		for n <= i && records[n].Step <= l.Step-smoothingLag {
			n++
		}
	}
	return n
}

// checkSmoothed waits until the smoothing service has written what it has to, and compares it with
// what "geodither smooth" makes of the sanitized records in a file.
func (h *campaign) checkSmoothed(ctx context.Context, r *report) error {
	if h.Smoothers == 0 {
		return nil
	}
	config, _, err := h.config("recompute", "", "")
	if err != nil {
		return err
	}
	in, err := h.says(ctx, "consume", "-c", config)
	if err != nil {
		return err
	}
	from, to := filepath.Join(h.dir, "sanitized.ndjson"), filepath.Join(h.dir, "smoothed.ndjson")
	if err := os.WriteFile(from, in, 0o600); err != nil {
		return err
	}
	if _, err := h.says(ctx, "smooth", "-c", config, "--in", from, "--out", to, "--lag",
		(smoothingLag * fleetStep).String()); err != nil {
		return err
	}
	recomputed, err := os.ReadFile(to)
	if err != nil {
		return err
	}
	records, err := byUser(in)
	if err != nil {
		return err
	}
	want, err := byUser(recomputed)
	if err != nil {
		return err
	}
	least := 0
	for _, all := range records {
		least += closed(all)
	}
	if err := h.drainSmoothed(ctx, least); err != nil {
		return err
	}
	out, err := h.says(ctx, "consume", "--brokers", strings.Join(h.brokers, ","), "--topic",
		smoothedTopic)
	if err != nil {
		return err
	}
	got, err := byUser(out)
	if err != nil {
		return err
	}
	s := &smoothed{}
	r.smoothed = s
	s.compare(records, got, want)
	refused, err := h.count(ctx, smoothedDeadTopic)
	if refused > 0 {
		s.Differing = append(s.Differing, fmt.Sprintf("%d dead letters", refused))
	}
	return errors.Join(err, h.lookForKey(s))
}

// compare requires that the topic's records of each user are the first ones of the recomputation,
// and all that have to be there.
func (s *smoothed) compare(records, got, want map[string][]printed) {
	const most = 20
	differs := func(format string, args ...any) {
		if len(s.Differing) >= most {
			return
		}
		s.Differing = append(s.Differing, fmt.Sprintf(format, args...))
	}
	for user, all := range want {
		have := got[user]
		s.Out += len(have)
		if n := closed(records[user]); len(have) < n || len(have) > len(all) {
			differs("%s has %d smoothed records of %d, want %d", user, len(have), len(all), n)
			continue
		}
		s.Waiting += len(all) - len(have)
		for i := range have {
			if have[i].text != all[i].text {
				differs("%s, record %d: %s, want %s", user, i, have[i].text, all[i].text)
				break
			}
		}
	}
	for user := range got {
		if want[user] == nil {
			differs("%s has smoothed records, and no sanitized ones", user)
		}
	}
}

// says runs the program and returns its output.
func (h *campaign) says(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, h.binary, args...)
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("geodither %s: %w\n%s", args[0], err, told.Bytes())
	}
	return out, nil
}

// count returns how many records of a topic are committed.
func (h *campaign) count(ctx context.Context, topic string) (n int, err error) {
	err = scan(ctx, h.brokers, topic, h.Partitions, false, func(r *kgo.Record) {
		if !r.Attrs.IsControl() {
			n++
		}
	})
	return n, err
}

// drainSmoothed waits until so many records are smoothed.
func (h *campaign) drainSmoothed(ctx context.Context, least int) error {
	h.note("waiting until %d records are smoothed", least)
	for last, at := -1, time.Now(); ; {
		n, err := h.count(ctx, smoothedTopic)
		if err != nil || n >= least {
			return err
		}
		if n != last {
			last, at = n, time.Now()
		}
		if time.Since(at) > stuckAfter {
			return fmt.Errorf("the smoothing service is stuck: it has smoothed %d of %d records, "+
				"and none in the last %v", n, least, stuckAfter)
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// lookForKey looks through the memory of all instances: those that sanitize must have the noise
// key, or the search finds nothing, and those that smooth must not. It needs Linux.
func (h *campaign) lookForKey(s *smoothed) error {
	if runtime.GOOS != "linux" {
		h.note("the memory of the instances is not looked through: that needs Linux")
		return nil
	}
	text := []byte(testKey.Reveal())
	key, err := hex.DecodeString(string(text))
	if err != nil {
		return err
	}
	for _, i := range h.instances {
		found, err := holds(i.pid(), text, key)
		if err != nil {
			return fmt.Errorf("memory of %s: %w", i.name, err)
		}
		if found == i.smooths() {
			s.Differing = append(s.Differing,
				fmt.Sprintf("%s has the noise key in its memory: %t", i.name, found))
		}
	}
	s.Keyless = true
	return nil
}

// holds reports whether one of some texts is in the writable memory of a process.
func holds(pid int, texts ...[]byte) (bool, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return false, err
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return false, err
	}
	defer memory.Close()
	const chunk, overlap = 1 << 20, 128
	buffer := make([]byte, chunk+overlap)
	read := 0
	for _, area := range strings.Split(string(maps), "\n") {
		var from, to int64
		var rights string
		if n, _ := fmt.Sscanf(area, "%x-%x %s", &from, &to, &rights); n < 3 ||
			!strings.HasPrefix(rights, "rw") {
			continue
		}
		for ; from < to; from += chunk {
			n, err := memory.ReadAt(buffer[:min(to-from, chunk+overlap)], from)
			if err != nil && !errors.Is(err, io.EOF) && n == 0 {
				break // it was given back meanwhile
			}
			read += n
			for _, text := range texts {
				if bytes.Contains(buffer[:n], text) {
					return true, nil
				}
			}
		}
	}
	if read == 0 {
		return false, errors.New("none of it can be read")
	}
	return false, nil
}
