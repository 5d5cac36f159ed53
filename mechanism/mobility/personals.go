package mobility

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/linkedin/goavro/v2"
)

// PersonalsSchema is the Avro schema of the index of a folder of personal models.
//
//go:embed personals.avsc
var PersonalsSchema string

var personalsCodec = sync.OnceValues(func() (*goavro.Codec, error) {
	return goavro.NewCodec(PersonalsSchema)
})

// indexName is the name of the index's file in the folder.
const indexName = "index.avro"

// Sizes of an index entry, in bytes.
const (
	nameSize    = 16
	contentSize = 8
)

// Limits of what is read at once: an index of 20 million users, and a user with a few million
// transitions.
const (
	maxIndexBytes    = 1 << 29
	maxPersonalBytes = 1 << 26
)

// index says which users a folder has. Memory: 24 bytes for each user.
type index struct {
	id, popular     string
	names, contents []byte
}

// ReadPersonalsIndex reads only the index of a folder: the folder's id, the popular model's id, and
// the number of users.
func ReadPersonalsIndex(dir string) (id, popular string, users int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", "", 0, fmt.Errorf("mobility: %w; make a folder of personal models with train",
			err)
	}
	x, err := readIndex(root)
	if err := errors.Join(err, root.Close()); err != nil {
		return "", "", 0, fmt.Errorf("%s: %w", dir, err)
	}
	return x.id, x.popular, x.Users(), nil
}

// Personals is a folder of personal models of one popular model. It keeps the models used last in
// memory. Any number of goroutines may use it. The folder counts as public in the sense that ε
// does not protect its content. It is personal data all the same, so only its owner may read it.
type Personals struct {
	popular *Model
	root    *os.Root // the folder itself, also if it is renamed
	dir     string
	index
	limit int64

	mu    sync.Mutex
	cache *simplelru.LRU[[nameSize]byte, *Personal]
	stats PersonalsStats
}

// PersonalsStats counts what a [Personals] did.
type PersonalsStats struct {
	Hits, Misses int64 // loads of users who have a personal model
	Evicted      int64 // models that made room for others
	Models       int   // in memory now
	Bytes        int64 // of memory that they take
}

// OpenPersonals opens a folder that [WritePersonals] wrote for the popular model. It reads the
// index, 24 bytes for each user. Models are read when they are asked for; those used last are kept,
// up to cacheBytes of memory. For a folder of another popular model it returns
// [ErrForeignPersonal].
func OpenPersonals(dir string, popular *Model, cacheBytes int64) (*Personals, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("mobility: %w; make a folder of personal models with train", err)
	}
	index, err := readIndex(root)
	if err == nil && index.popular != popular.ID() {
		err = fmt.Errorf("%w: it is %.16q, not %q", ErrForeignPersonal, index.popular, popular.ID())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), root.Close())
	}
	p := &Personals{popular: popular, root: root, dir: dir, index: index, limit: max(cacheBytes, 0)}
	// The cache is bounded by bytes, not by number. The callback runs within calls made under the
	// lock.
	p.cache, err = simplelru.NewLRU(max(1, p.Users()), func(_ [nameSize]byte, m *Personal) {
		p.stats.Bytes -= m.Bytes()
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mobility: %w", err), root.Close())
	}
	return p, nil
}

func readIndex(root *os.Root) (index, error) {
	data, err := readAll(root, indexName, maxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return index{}, errors.New("mobility: this is not a folder of personal models: " +
			"it has no index.avro; make one with train")
	} else if err != nil {
		return index{}, err
	}
	codec, err := personalsCodec()
	if err != nil {
		return index{}, fmt.Errorf("mobility: %w", err)
	}
	damaged := func(what string) (index, error) {
		return index{}, fmt.Errorf("mobility: the index of the personal models is damaged: %s; "+
			"copy the folder again or train again", what)
	}
	value, rest, err := codec.NativeFromSingle(data)
	if err != nil || len(rest) > 0 {
		return damaged("it is not one record of the schema geodither.personal.Index")
	}
	record := value.(fields)
	x := index{names: record["names"].([]byte), contents: record["contents"].([]byte)}
	x.popular = record["popular"].(string)
	users := len(x.names) / nameSize
	switch x.id = x.hash(); {
	case len(x.names) != users*nameSize || len(x.contents) != users*contentSize:
		return damaged("it does not have as many names as contents")
	case x.id != record["id"].(string):
		return damaged("its content does not match its id")
	}
	for i := 1; i < users; i++ {
		if bytes.Compare(x.name(i-1), x.name(i)) >= 0 {
			return damaged("its names do not ascend")
		}
	}
	return x, nil
}

func (x *index) hash() string {
	w := newHash()
	w.text("geodither personals 1")
	w.text(x.popular)
	w.number(uint64(len(x.names)))
	w.flush()
	w.Write(x.names)
	w.Write(x.contents)
	return w.id()
}

func (x *index) name(i int) []byte { return x.names[i*nameSize : (i+1)*nameSize] }
func (x *index) content(i int) string {
	return hex.EncodeToString(x.contents[i*contentSize:][:contentSize])
}

// ID returns 16 hex digits: a hash of the popular model's id, of who has a personal model, and of
// the ids of all of these models.
func (x *index) ID() string { return x.id }

// Users returns how many users have a personal model.
func (x *index) Users() int { return len(x.names) / nameSize }

// find returns the place of a name.
func (x *index) find(name [nameSize]byte) (int, bool) {
	low, high := 0, x.Users()
	for low < high {
		middle := int(uint(low+high) / 2)
		switch bytes.Compare(x.name(middle), name[:]) {
		case 0:
			return middle, true
		case -1:
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0, false
}

// nameOf returns the name of a user's file. Whoever can guess the user id can recognize it.
func nameOf(user string) [nameSize]byte {
	sum := sha256.Sum256([]byte(user))
	return [nameSize]byte(sum[:nameSize])
}

// fileOf returns the path of a file in the folder. There are 256 subfolders, so that each holds
// some thousands of files for a million users.
func fileOf(name []byte) string {
	text := hex.EncodeToString(name)
	return text[:2] + "/" + text + ".avro"
}

// Popular returns the popular model.
func (p *Personals) Popular() *Model { return p.popular }

// Load returns a user's personal model, or nil if there is none. The result does not depend on what
// was loaded before, and stays usable after it has left the cache. Errors name the file, not the
// user.
func (p *Personals) Load(user string) (*Personal, error) {
	name := nameOf(user)
	at, found := p.find(name)
	if !found {
		return nil, nil //nolint:nilnil // the popular model alone
	}
	if m := p.cached(name); m != nil {
		return m, nil
	}
	m, err := p.read(at)
	if err != nil {
		return nil, err
	}
	return p.keep(name, m), nil
}

func (p *Personals) cached(name [nameSize]byte) *Personal {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.cache.Get(name)
	if ok {
		p.stats.Hits++
	} else {
		p.stats.Misses++
	}
	return m
}

// keep adds a model to the cache, which may drop others. If two goroutines loaded the same model,
// the first one stays.
func (p *Personals) keep(name [nameSize]byte, m *Personal) *Personal {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first, ok := p.cache.Get(name); ok {
		return first
	}
	if m.Bytes() > p.limit {
		return m
	}
	p.cache.Add(name, m)
	for p.stats.Bytes += m.Bytes(); p.stats.Bytes > p.limit; p.stats.Evicted++ {
		p.cache.RemoveOldest()
	}
	return m
}

// read reads the model at a place of the index.
func (p *Personals) read(at int) (*Personal, error) {
	file := fileOf(p.name(at))
	data, err := readAll(p.root, file, maxPersonalBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s/%s: %w: the index names the file, which does not exist", p.dir,
			file, ErrPersonal)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", p.dir, err)
	}
	m, err := DecodePersonal(p.popular, data)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", p.dir, file, err)
	}
	if want := p.content(at); m.ID() != want {
		return nil, fmt.Errorf("%s/%s: %w: it is the model %s, and the index names %s", p.dir, file,
			ErrPersonal, m.ID(), want)
	}
	return m, nil
}

// All reads every model in order of the files' names, without the cache.
func (p *Personals) All() iter.Seq2[*Personal, error] {
	return func(yield func(*Personal, error) bool) {
		for at := range p.Users() {
			if !yield(p.read(at)) {
				return
			}
		}
	}
}

// Stats returns what was done so far.
func (p *Personals) Stats() PersonalsStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	stats.Models = p.cache.Len()
	return stats
}

// Close closes the folder. Models that were loaded stay usable.
func (p *Personals) Close() error { return p.root.Close() }

func readAll(root *os.Root, name string, limit int64) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	defer file.Close() // read only: nothing is lost if closing fails
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("mobility: %s has more than %d bytes; "+
			"it is not a file of personal models, train again", name, limit)
	}
	return data, nil
}
