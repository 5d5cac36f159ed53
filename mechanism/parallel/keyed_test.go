package parallel

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
)

// orders are keys of tasks in different orders: alternating, one key after another with more tasks
// than are held, one key alone, and each key once.
func orders() map[string][]string {
	all := map[string][]string{}
	for i := range 20_000 {
		all["alternating"] = append(all["alternating"], strconv.Itoa(i%37))
		all["one after another"] = append(all["one after another"], strconv.Itoa(i/5_000))
		all["alone"] = append(all["alone"], "")
		all["all different"] = append(all["all different"], strconv.Itoa(i))
	}
	all["few"] = []string{"a", "b", "a"}
	all["none"] = nil
	return all
}

// counted is a task that counts the tasks of its key.
type counted struct {
	number int
	key    *int
	seen   int // tasks of the key before it
}

// TestKeyed: every task is done once, after those of its key before it, and comes back in order. So
// it is on any number of workers and cores.
func TestKeyed(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, keys := range orders() {
		for _, workers := range []int{0, 1, 2, 8} {
			runtime.GOMAXPROCS(max(workers, 1))
			used, states, want := 0, map[string]*int{}, map[string]int{}
			k := NewKeyed(workers, 4*blockTasks,
				func(_ int, task *counted) {
					task.seen = *task.key
					*task.key++
				},
				func(task *counted) error {
					if task.number != used || task.seen != want[keys[used]] {
						return fmt.Errorf("task %d comes after %d, and has seen %d of its key",
							task.number, used, task.seen)
					}
					want[keys[used]]++
					used++
					return nil
				})
			for i, key := range keys {
				if states[key] == nil {
					states[key] = new(int)
				}
				if err := k.Add(key, counted{number: i, key: states[key]}); err != nil {
					t.Fatalf("%s, %d workers: %v", name, workers, err)
				}
				if i == len(keys)/2 { // it goes on after a Flush
					if err := k.Flush(); err != nil || used != i+1 {
						t.Fatalf("%s, %d workers: %v after %d tasks", name, workers, err, used)
					}
				}
			}
			if err := k.Flush(); err != nil || used != len(keys) {
				t.Errorf("%s, %d workers: %v after %d of %d tasks",
					name, workers, err, used, len(keys))
			}
			if k.Close(); len(k.lanes) != 0 || k.queued != 0 {
				t.Errorf("%s: %d keys and %d tasks are left", name, len(k.lanes), k.queued)
			}
		}
	}
}

// TestKeyedAtOnce: tasks of two keys run at the same time, also where those of one come first. The
// first task of each waits for the other's.
func TestKeyedAtOnce(t *testing.T) {
	met := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
	other := map[string]string{"a": "b", "b": "a"}
	type task struct {
		key   string
		first bool
	}
	var did [2]int // tasks of each worker
	k := NewKeyed(2, 8*blockTasks, func(worker int, task *task) {
		did[worker]++
		if task.first {
			close(met[task.key])
			<-met[other[task.key]]
		}
	}, func(*task) error { return nil })
	defer k.Close()
	for _, key := range []string{"a", "b"} {
		for i := range 3 * blockTasks {
			if err := k.Add(key, task{key, i == 0}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := k.Flush(); err != nil {
		t.Fatal(err)
	}
	if did[0] == 0 || did[1] == 0 {
		t.Errorf("the workers did %v tasks", did)
	}
}

// TestKeyedHolds: it holds no more tasks than it may, and where keys alternate no more than keep
// the workers busy.
func TestKeyedHolds(t *testing.T) {
	const ahead = 32 * blockTasks
	for name, bound := range map[string]int{
		// Two rounds of tasks can be held: one that comes back, while the next one is added.
		"alone": ahead, "alternating": 3 * queuedTasks,
	} {
		added, used, most := 0, 0, 0
		k := NewKeyed(1, ahead, func(int, *int) {}, func(*int) error {
			used++
			return nil
		})
		for i, key := range orders()[name] {
			if err := k.Add(key, i); err != nil {
				t.Fatal(err)
			}
			added++
			most = max(most, added-used)
		}
		if err := k.Flush(); err != nil || used != added {
			t.Errorf("%s: %v, %d of %d tasks", name, err, used, added)
		}
		if k.Close(); most > bound {
			t.Errorf("%s: %d tasks are held, want %d at most", name, most, bound)
		}
	}
}

// TestKeyedReadsAhead: while the first task runs, several workers get tasks of one key up to the
// bound, because another key may follow. One worker has nothing to gain from that.
func TestKeyedReadsAhead(t *testing.T) {
	const ahead = 4 * queuedTasks
	for workers, bounds := range map[int][2]int{
		1: {queuedTasks, queuedTasks + 2*blockTasks}, 2: {ahead, ahead},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, added := make(chan struct{}), 0
			k := NewKeyed(workers, ahead, func(int, *int) { <-begin },
				func(*int) error { return nil })
			defer k.Close()
			done := make(chan error)
			go func() {
				for range 2 * ahead {
					if err := k.Add("a", added); err != nil {
						done <- err
						return
					}
					added++
				}
				done <- k.Flush()
			}()
			synctest.Wait() // until Add waits for the first task
			if held := added + 1; held < bounds[0] || held > bounds[1] {
				t.Errorf("%d workers: %d tasks are held, want %d to %d", workers, held, bounds[0],
					bounds[1])
			}
			close(begin)
			if err := <-done; err != nil || added != 2*ahead {
				t.Errorf("%d workers: %v after %d tasks", workers, err, added)
			}
		})
	}
}

// TestKeyedClosed: Add and Flush of a Keyed that is closed fail, also with tasks that nobody has
// begun, where they would wait forever.
func TestKeyedClosed(t *testing.T) {
	k := NewKeyed(1, blockTasks, func(int, *int) {}, func(*int) error { return nil })
	if err := k.Add("a", 0); err != nil {
		t.Fatal(err)
	}
	k.Close()
	k.Close()
	for range 2 * blockTasks {
		if err := k.Add("a", 0); !errors.Is(err, ErrClosed) {
			t.Fatalf("Add returns %v", err)
		}
	}
	if err := k.Flush(); !errors.Is(err, ErrClosed) {
		t.Errorf("Flush returns %v", err)
	}
}

// TestKeyedFails: the error of use ends the work at once: behind it no task is used.
func TestKeyedFails(t *testing.T) {
	planted := errors.New("planted")
	for _, at := range []int{0, 700, 9_999} {
		used := 0
		k := NewKeyed(4, 4*blockTasks, func(int, *int) {}, func(task *int) error {
			if *task == at {
				return planted
			}
			used++
			return nil
		})
		var err error
		for i := 0; i < 10_000 && err == nil; i++ {
			err = k.Add(strconv.Itoa(i%3), i)
		}
		if err == nil {
			err = k.Flush()
		}
		if again := k.Flush(); !errors.Is(again, planted) {
			t.Errorf("after an error Flush returns %v", again)
		}
		if again := k.Add("", 0); !errors.Is(again, planted) {
			t.Errorf("after an error Add returns %v", again)
		}
		k.Close()
		if !errors.Is(err, planted) || used != at {
			t.Errorf("task %d fails: %v after %d tasks", at, err, used)
		}
	}
}
