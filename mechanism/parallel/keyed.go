package parallel

import (
	"container/heap"
	"errors"
	"sync"
)

// ErrClosed is what Add and Flush of a closed [Keyed] return.
var ErrClosed = errors.New("parallel: the workers have ended")

const (
	// blockTasks is how many tasks are handed out together.
	blockTasks = 512
	// turnTasks is how many tasks of a key a worker does at most before it looks for older ones.
	turnTasks = 256
	// A Keyed asks for more tasks while fewer than queuedTasks wait for a worker. Tasks of one key
	// occupy one worker only, so several workers also need queuedKeys waiting keys for each.
	queuedTasks = 8 * blockTasks
	queuedKeys  = 4
)

// Keyed runs tasks on several workers. Those of one key run one after another in their order, so a
// task finds what the tasks of its key before it have left. Tasks that are done come back in the
// order in which they were added, whatever their keys. So the number of workers changes nothing but
// the time.
//
// Workers take the oldest task that may run. A Keyed holds no more tasks than it takes to keep the
// workers busy: some thousand where keys alternate or there is one worker, and where all tasks of a
// key come before those of the next one, up to a bound. Its methods belong to one goroutine.
type Keyed[T any] struct {
	do      func(worker int, task *T)
	use     func(task *T) error
	workers int
	most    int // blocks
	group   sync.WaitGroup

	failed  error     // of use, or ErrClosed
	filling *block[T] // takes the next task
	free    []*block[T]

	mu      sync.Mutex
	work    *sync.Cond // for workers: tasks wait, or there will be no more
	news    *sync.Cond // for Add and Flush: a block is done, or more tasks are needed
	lanes   map[string]*lane[T]
	waiting lanes[T]
	queued  int         // tasks of waiting lanes, and of those of busy ones that are not begun
	blocks  []*block[T] // handed out, the oldest one first
	added   int64       // tasks that were handed out
	closed  bool
}

// block is a stretch of tasks.
type block[T any] struct {
	tasks []T
	keys  []string
	first int64 // number of the first task
	left  int   // tasks that are not done
}

// place is where a task is.
type place[T any] struct {
	block *block[T]
	index int
}

// lane is the tasks of one key that are not begun. It waits for a worker, or has one.
type lane[T any] struct {
	key    string
	places []place[T]
}

// oldest returns the number of the lane's first task.
func (l *lane[T]) oldest() int64 { return l.places[0].block.first + int64(l.places[0].index) }

// lanes is a heap with the lane of the oldest task on top.
type lanes[T any] []*lane[T]

func (l lanes[T]) Len() int           { return len(l) }
func (l lanes[T]) Less(i, j int) bool { return l[i].oldest() < l[j].oldest() }
func (l lanes[T]) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *lanes[T]) Push(x any)        { *l = append(*l, x.(*lane[T])) }

// Pop implements [heap.Interface].
func (l *lanes[T]) Pop() any {
	last := (*l)[len(*l)-1]
	(*l)[len(*l)-1] = nil
	*l = (*l)[:len(*l)-1]
	return last
}

// NewKeyed starts as many workers, one at least; Close ends them. do runs a task on one of them,
// numbered from 0. use gets a task after it is done, on the goroutine that calls Add or Flush. At
// most about ahead tasks are held at a time, and never fewer than 512.
func NewKeyed[T any](
	workers, ahead int, do func(worker int, task *T), use func(task *T) error,
) *Keyed[T] {
	k := &Keyed[T]{
		do: do, use: use, workers: max(workers, 1), most: max(ahead/blockTasks, 1),
		lanes: map[string]*lane[T]{},
	}
	k.work, k.news = sync.NewCond(&k.mu), sync.NewCond(&k.mu)
	for worker := range k.workers {
		k.group.Go(func() { k.run(worker) })
	}
	return k
}

// Add adds a task. It may wait until earlier tasks are done, and hands these to use, whose error it
// returns. After an error there is nothing left to do but Close: the error stays.
func (k *Keyed[T]) Add(key string, task T) error {
	if k.failed != nil {
		return k.failed
	}
	if k.filling == nil {
		k.filling = k.newBlock()
	}
	b := k.filling
	b.tasks, b.keys = append(b.tasks, task), append(b.keys, key)
	if len(b.tasks) < blockTasks {
		return nil
	}
	k.handOut()
	return k.settle(false)
}

// Flush waits until all tasks are done, and hands them to use. It returns the first error of use.
func (k *Keyed[T]) Flush() error {
	if k.failed != nil {
		return k.failed
	}
	if k.filling != nil {
		k.handOut()
	}
	return k.settle(true)
}

// Close ends the workers. A task that is not begun is not done any more. Add and Flush then return
// [ErrClosed], or the error that they had returned before. Close may be called twice.
func (k *Keyed[T]) Close() {
	if k.failed == nil {
		k.failed = ErrClosed
	}
	k.mu.Lock()
	k.closed = true
	k.work.Broadcast()
	k.mu.Unlock()
	k.group.Wait()
}

func (k *Keyed[T]) newBlock() *block[T] {
	if n := len(k.free); n > 0 {
		b := k.free[n-1]
		k.free = k.free[:n-1]
		return b
	}
	return &block[T]{tasks: make([]T, 0, blockTasks), keys: make([]string, 0, blockTasks)}
}

// handOut lets workers have the tasks of the block that is being filled.
func (k *Keyed[T]) handOut() {
	b := k.filling
	k.filling = nil
	k.mu.Lock()
	defer k.mu.Unlock()
	b.first, b.left = k.added, len(b.tasks)
	k.added += int64(len(b.tasks))
	k.queued += len(b.tasks)
	k.blocks = append(k.blocks, b)
	for i, key := range b.keys {
		l := k.lanes[key]
		if l == nil {
			l = &lane[T]{key: key, places: []place[T]{{b, i}}}
			k.lanes[key] = l
			heap.Push(&k.waiting, l)
			continue
		}
		l.places = append(l.places, place[T]{b, i})
	}
	k.work.Broadcast()
}

// settle uses the oldest tasks that are done: until more tasks are needed, or until the end of all.
func (k *Keyed[T]) settle(all bool) error {
	for {
		b := k.oldest(all)
		if b == nil {
			return nil
		}
		for i := range b.tasks {
			if k.failed = k.use(&b.tasks[i]); k.failed != nil {
				return k.failed
			}
		}
		clear(b.tasks)
		clear(b.keys)
		b.tasks, b.keys = b.tasks[:0], b.keys[:0]
		k.free = append(k.free, b)
	}
}

// oldest waits for the oldest block to be done and takes it out. It returns nil where there is
// none, and unless all are wanted, where more tasks are needed first.
func (k *Keyed[T]) oldest(all bool) *block[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.blocks) > 0 {
		if b := k.blocks[0]; b.left == 0 {
			k.blocks[0] = nil
			k.blocks = k.blocks[1:]
			return b
		}
		if !all && k.hungry() {
			return nil
		}
		k.news.Wait()
	}
	return nil
}

// hungry says that workers could run out of tasks, and that more may be held.
func (k *Keyed[T]) hungry() bool {
	return len(k.blocks) < k.most &&
		(k.queued < queuedTasks || k.workers > 1 && len(k.waiting) < queuedKeys*k.workers)
}

// tell wakes who waits in oldest if there may be something to do.
func (k *Keyed[T]) tell() {
	if len(k.blocks) > 0 && k.blocks[0].left == 0 || k.hungry() {
		k.news.Signal()
	}
}

// run is a worker.
func (k *Keyed[T]) run(worker int) {
	for l, turn := k.begin(); l != nil; l, turn = k.begin() {
		for _, p := range turn {
			k.do(worker, &p.block.tasks[p.index])
		}
		k.end(l, turn)
	}
}

// begin waits for a lane and returns its next tasks; nil if there will be no more.
func (k *Keyed[T]) begin() (*lane[T], []place[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.waiting) == 0 && !k.closed {
		k.work.Wait()
	}
	if k.closed {
		return nil, nil
	}
	l := heap.Pop(&k.waiting).(*lane[T])
	n := min(len(l.places), turnTasks)
	turn := l.places[:n]
	l.places = l.places[n:]
	k.queued -= n
	k.tell()
	return l, turn
}

// end notes that a lane's tasks are done. The lane waits again if it has more.
func (k *Keyed[T]) end(l *lane[T], turn []place[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range turn {
		p.block.left--
	}
	if len(l.places) > 0 {
		heap.Push(&k.waiting, l)
	} else {
		delete(k.lanes, l.key)
	}
	k.tell()
}
