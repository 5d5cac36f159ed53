package mobility

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// someCounts are a user's random counts on a grid of so many cells, not all of them whole.
func someCounts(user uint64, cells int) PersonalCounts {
	random := rand.New(rand.NewPCG(user, 5))
	c := PersonalCounts{Weight: 1 + float64(user%50)/4}
	for from := range grid.Cell(cells) {
		if random.IntN(3) == 0 {
			c.Visits = append(c.Visits, Count{from, from, float64(1 + random.IntN(9))})
		}
		for to := range grid.Cell(cells) {
			if random.IntN(cells) == 0 {
				c.Transitions = append(c.Transitions,
					Count{from, to, float64(1+random.IntN(300)) / float64(1+user%3)})
			}
		}
	}
	return c
}

func usersNamed(n, cells int) iter.Seq2[string, PersonalCounts] {
	return func(yield func(string, PersonalCounts) bool) {
		for i := range n {
			if !yield(fmt.Sprintf("person-%d", i), someCounts(uint64(i), cells)) {
				return
			}
		}
	}
}

func personalFolder(t testing.TB, users int) (string, *Model) {
	t.Helper()
	popular := neighbourModel(t, 6, 5, 1, true, 1)
	dir := filepath.Join(t.TempDir(), "personal")
	if err := WritePersonals(dir, popular, usersNamed(users, 30)); err != nil {
		t.Fatal(err)
	}
	return dir, popular
}

func TestPersonalsRoundTrip(t *testing.T) {
	const users = 40
	dir, popular := personalFolder(t, users)
	p, err := OpenPersonals(dir, popular, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Users() != users || len(p.ID()) != 16 || p.Popular() != popular {
		t.Errorf("%d users, id %q", p.Users(), p.ID())
	}
	for user, counts := range usersNamed(users, 30) {
		want, err := NewPersonal(popular, counts)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Load(user)
		if err != nil {
			t.Fatal(err)
		}
		if got.ID() != want.ID() || !reflect.DeepEqual(got.Counts(), want.Counts()) {
			t.Errorf("%s: another model", user)
		}
	}
	if got, err := p.Load("somebody else"); got != nil || err != nil {
		t.Errorf("a user without a model: %v, %v", got, err)
	}
	all := 0
	for m, err := range p.All() {
		if err != nil || m.Popular() != popular {
			t.Fatal(err)
		}
		all++
	}
	if stats := p.Stats(); all != users || stats.Misses != users || stats.Models != users {
		t.Errorf("%d models, %+v", all, stats)
	}
}

// TestPersonalsID: the id depends on the models and who has them, not on the order in which they
// came.
func TestPersonalsID(t *testing.T) {
	popular := neighbourModel(t, 6, 5, 1, true, 1)
	id := func(counts iter.Seq2[string, PersonalCounts]) string {
		dir := filepath.Join(t.TempDir(), "personal")
		if err := WritePersonals(dir, popular, counts); err != nil {
			t.Fatal(err)
		}
		p, err := OpenPersonals(dir, popular, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		return p.ID()
	}
	list := func(users ...string) iter.Seq2[string, PersonalCounts] {
		return func(yield func(string, PersonalCounts) bool) {
			for _, user := range users {
				if !yield(user, someCounts(uint64(user[0]), 30)) {
					return
				}
			}
		}
	}
	of := id(list("a", "b", "c"))
	if again := id(list("c", "a", "b")); again != of {
		t.Errorf("ids %s and %s in another order", of, again)
	}
	exchanged := func(yield func(string, PersonalCounts) bool) {
		_ = yield("a", someCounts('b', 30)) && yield("b", someCounts('a', 30)) &&
			yield("c", someCounts('c', 30))
	}
	ids := []string{of, id(list("a", "b")), id(list("a", "b", "d")), id(exchanged), id(list())}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 5 {
		t.Errorf("different folders share an id: %v", ids)
	}
}

func TestPersonalsBelongToTheOwner(t *testing.T) {
	dir, _ := personalFolder(t, 20)
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has the mode %o", path, got)
		}
		data, err := os.ReadFile(path)
		if !d.IsDir() && (err != nil || bytes.Contains(data, []byte("person-"))) {
			t.Errorf("%s: %v, or it names a user", path, err)
		}
		return nil
	})
	if err != nil || files != 21 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestWritePersonalsIsAtomic(t *testing.T) {
	popular := neighbourModel(t, 6, 5, 1, true, 1)
	parent := t.TempDir()
	dir := filepath.Join(parent, "personal")
	for name, tt := range map[string]struct {
		counts iter.Seq2[string, PersonalCounts]
		says   string
	}{
		"a bad count": {func(yield func(string, PersonalCounts) bool) {
			_ = yield("secret", PersonalCounts{Visits: []Count{{99, 99, 1}}})
		}, "cell"},
		"a user twice": {func(yield func(string, PersonalCounts) bool) {
			_ = yield("secret", someCounts(1, 30)) && yield("other", someCounts(2, 30)) &&
				yield("secret", someCounts(3, 30))
		}, "twice"},
	} {
		err := WritePersonals(dir, popular, tt.counts)
		if err == nil || !strings.Contains(err.Error(), tt.says) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(parent); len(left) != 0 {
			t.Errorf("%s: %d folders are left", name, len(left))
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WritePersonals(dir, popular, usersNamed(2, 30)); err != nil {
		t.Errorf("into an empty folder: %v", err)
	}
	if err := WritePersonals(dir, popular, usersNamed(3, 30)); err == nil ||
		!strings.Contains(err.Error(), "is not empty") {
		t.Errorf("into a full folder: %v", err)
	}
	if p, err := OpenPersonals(dir, popular, 0); err != nil || p.Users() != 2 {
		t.Errorf("the first folder is gone: %v", err)
	}
}

// TestPersonalsRefuseDamage flips bits, cuts files, exchanges and removes them.
func TestPersonalsRefuseDamage(t *testing.T) {
	dir, popular := personalFolder(t, 12)
	open := func() (*Personals, error) { return OpenPersonals(dir, popular, 0) }
	whole, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()

	// Of the index: any change of a byte is found.
	index := filepath.Join(dir, indexName)
	data, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	for at := range data {
		changed := slices.Clone(data)
		changed[at] ^= 1 << (at % 8)
		put(t, index, changed)
		if _, err := open(); err == nil ||
			!strings.Contains(err.Error(), "index") && !errors.Is(err, ErrForeignPersonal) {
			t.Fatalf("index, byte %d: %v", at, err)
		}
		put(t, index, data[:at])
		if _, err := open(); err == nil || !strings.Contains(err.Error(), dir) {
			t.Fatalf("index, cut at %d: %v", at, err)
		}
	}
	put(t, index, data)

	// Of a user's file.
	const user = "person-7"
	name, other := nameOf(user), nameOf("person-8")
	file := filepath.Join(dir, filepath.FromSlash(fileOf(name[:])))
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, is error) {
		t.Helper()
		m, err := whole.Load(user)
		if m != nil || err == nil || !errors.Is(err, is) {
			t.Fatalf("%s: %v", what, err)
		}
		if text := err.Error(); !strings.Contains(text, filepath.Base(file)) ||
			strings.Contains(text, user) || !strings.Contains(text, "train again") {
			t.Fatalf("%s: %q", what, text)
		}
	}
	for at := range good {
		changed := slices.Clone(good)
		changed[at] ^= 1 << (at % 8)
		put(t, file, changed)
		if m, err := whole.Load(user); m != nil ||
			!errors.Is(err, ErrPersonal) && !errors.Is(err, ErrForeignPersonal) {
			t.Fatalf("byte %d: %v, %v", at, m, err)
		}
		if put(t, file, good[:at]); at%9 == 0 {
			refused(fmt.Sprintf("cut at %d", at), ErrPersonal)
		}
	}
	put(t, file, append(slices.Clone(good), 0))
	refused("a byte more", ErrPersonal)
	exchanged, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(fileOf(other[:]))))
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, exchanged)
	refused("another user's", ErrPersonal)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	refused("no file", ErrPersonal)
	put(t, file, good)
	if m, err := whole.Load(user); err != nil || m == nil {
		t.Errorf("the right file again: %v", err)
	}

	// Of the popular model.
	if _, err := OpenPersonals(dir, neighbourModel(t, 6, 5, 1, true, 2), 0); !errors.Is(
		err, ErrForeignPersonal) {
		t.Errorf("another popular model: %v", err)
	}
	if _, err := OpenPersonals(filepath.Join(dir, "missing"), popular, 0); !errors.Is(
		err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := OpenPersonals(t.TempDir(), popular, 0); err == nil ||
		!strings.Contains(err.Error(), "not a folder of personal models") {
		t.Errorf("another folder: %v", err)
	}
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPersonalsCacheIsBounded loads many users from many goroutines into a memory for few.
func TestPersonalsCacheIsBounded(t *testing.T) {
	const users, loads, workers = 60, 300, 8
	dir, popular := personalFolder(t, users)
	whole, err := OpenPersonals(dir, popular, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	ids, largest := map[string]string{}, int64(0)
	for i := range users {
		user := fmt.Sprintf("person-%d", i)
		m, err := whole.Load(user)
		if err != nil {
			t.Fatal(err)
		}
		ids[user], largest = m.ID(), max(largest, m.Bytes())
	}
	limit := 5 * largest
	p, err := OpenPersonals(dir, popular, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 9))
			for range loads {
				user := fmt.Sprintf("person-%d", random.IntN(users))
				m, err := p.Load(user)
				if err != nil || m.ID() != ids[user] {
					t.Errorf("%s: %v", user, err)
					return
				}
				if stats := p.Stats(); stats.Bytes > limit || stats.Bytes < 0 {
					t.Errorf("%+v in a memory of %d bytes", stats, limit)
					return
				}
			}
		})
	}
	group.Wait()
	stats := p.Stats()
	if stats.Hits+stats.Misses != workers*loads || stats.Evicted < users || stats.Models < 4 ||
		stats.Models > users/2 {
		t.Errorf("%+v", stats)
	}
	held := int64(0)
	for _, m := range p.cache.Values() {
		held += m.Bytes()
	}
	if held != stats.Bytes {
		t.Errorf("%d bytes are held and %d counted", held, stats.Bytes)
	}

	// The one used last stays, and a memory of nothing keeps nothing.
	last, err := p.Load("person-3")
	if err != nil {
		t.Fatal(err)
	}
	before := p.Stats().Hits
	if again, err := p.Load("person-3"); err != nil || again != last || p.Stats().Hits != before+1 {
		t.Errorf("the last one was not kept: %v", err)
	}
	none, err := OpenPersonals(dir, popular, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if m, err := none.Load("person-3"); err != nil || m.ID() != last.ID() ||
		none.Stats().Models != 0 {
		t.Errorf("without memory: %v, %+v", err, none.Stats())
	}
}

func FuzzDecodePersonal(f *testing.F) {
	popular := neighbourModel(f, 6, 5, 1, true, 1)
	for user := range uint64(3) {
		p, err := NewPersonal(popular, someCounts(user, 30))
		if err != nil {
			f.Fatal(err)
		}
		data, err := p.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := DecodePersonal(popular, data)
		if err != nil {
			if !errors.Is(err, ErrPersonal) && !errors.Is(err, ErrForeignPersonal) {
				t.Fatal(err)
			}
			return
		}
		again, err := p.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		second, err := DecodePersonal(popular, again)
		if err != nil || second.ID() != p.ID() {
			t.Fatalf("written again: %v", err)
		}
	})
}
