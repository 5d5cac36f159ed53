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

var personalsCodec = sync.OnceValues(func() (*goavro.Codec, error) { return goavro.NewCodec(PersonalsSchema) })

// indexName is the index's file in the folder.
const indexName = "index.avro"

// Sizes of what the index has of a user, in bytes.
const (
	nameSize    = 16
	contentSize = 8
)

// Limits of what is read at once: an index of 20 million users, and a user with a few million transitions.
const (
	maxIndexBytes    = 1 << 29
	maxPersonalBytes = 1 << 26
)

// index is which users a folder has. Memory: 24 bytes a user.
type index struct {
	id, popular     string
	names, contents []byte
}

// ReadPersonalsIndex reads the index of a folder alone: the folder's id, that of the popular model, and the number of users.
func ReadPersonalsIndex(dir string) (id, popular string, users int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", "", 0, fmt.Errorf("mobility: %w; make a folder of personal models with train", err)
	}
	x, err := readIndex(root)
	if err := errors.Join(err, root.Close()); err != nil {
		return "", "", 0, fmt.Errorf("%s: %w", dir, err)
	}
	return x.id, x.popular, x.Users(), nil
}

// Personals is a folder of personal models over one popular model, of which it keeps those used last in memory. It is for
// any number of goroutines. The folder is public in the sense that ε does not protect what is in it, but it is a person's
// data all the same: it belongs to its owner alone.
type Personals struct {
	popular *Model
	root    *os.Root // the folder itself, whatever becomes of its name
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
	Bytes        int64 // and what they take
}

// OpenPersonals opens a folder that [WritePersonals] wrote over the popular model. It reads the index, 24 bytes a user;
// models are read when they are asked for, and those used last are kept, up to so many bytes. A folder over another
// popular model is refused with [ErrForeignPersonal].
func OpenPersonals(dir string, popular *Model, cacheBytes int64) (*Personals, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("mobility: %w; make a folder of personal models with train", err)
	}
	index, err := readIndex(root)
	if err == nil && index.popular != popular.ID() {
		err = fmt.Errorf("%w: all of them over %.16q and not %q", ErrForeignPersonal, index.popular, popular.ID())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), root.Close())
	}
	p := &Personals{popular: popular, root: root, dir: dir, index: index, limit: max(cacheBytes, 0)}
	// The number is not what bounds it. The callback runs within calls made under the lock.
	p.cache, err = simplelru.NewLRU(max(1, p.Users()), func(_ [nameSize]byte, m *Personal) { p.stats.Bytes -= m.Bytes() })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mobility: %w", err), root.Close())
	}
	return p, nil
}

func readIndex(root *os.Root) (index, error) {
	data, err := readAll(root, indexName, maxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return index{}, errors.New("mobility: this is not a folder of personal models: it has no index.avro; make one with train")
	} else if err != nil {
		return index{}, err
	}
	codec, err := personalsCodec()
	if err != nil {
		return index{}, fmt.Errorf("mobility: %w", err)
	}
	damaged := func(what string) (index, error) {
		return index{}, fmt.Errorf("mobility: the index of the personal models is damaged: %s; copy the folder again or train again", what)
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
		return damaged("it has other names than contents")
	case x.id != record["id"].(string):
		return damaged("its content is not what its id says")
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

// ID returns 16 hex digits: a hash of the popular model's id, of who has a personal model and of all of their ids.
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

// nameOf returns what a user's file is called. It tells who the user is to anyone who can guess the id.
func nameOf(user string) [nameSize]byte {
	sum := sha256.Sum256([]byte(user))
	return [nameSize]byte(sum[:nameSize])
}

// fileOf returns where in the folder a file lies: one of 256 folders, so that each holds some thousands for a million users.
func fileOf(name []byte) string {
	text := hex.EncodeToString(name)
	return text[:2] + "/" + text + ".avro"
}

// Popular returns the model that all of them lie over.
func (p *Personals) Popular() *Model { return p.popular }

// Load returns a user's personal model, nil if there is none. The same folder gives the same model, whatever was loaded
// before; it stays usable after it has left the memory. Errors name the file, not the user.
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

// keep puts a model into the memory, and others out of it. Of two that were loaded at a time the first stays.
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
		return nil, fmt.Errorf("%s/%s: %w: the index names the file and it is not there", p.dir, file, ErrPersonal)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", p.dir, err)
	}
	m, err := DecodePersonal(p.popular, data)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", p.dir, file, err)
	}
	if want := p.content(at); m.ID() != want {
		return nil, fmt.Errorf("%s/%s: %w: it is the model %s and the index names %s", p.dir, file, ErrPersonal, m.ID(), want)
	}
	return m, nil
}

// All reads every model in order of the files' names, past the memory.
func (p *Personals) All() iter.Seq2[*Personal, error] {
	return func(yield func(*Personal, error) bool) {
		for at := range p.Users() {
			if !yield(p.read(at)) {
				return
			}
		}
	}
}

// Stats returns what was done up to now.
func (p *Personals) Stats() PersonalsStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	stats.Models = p.cache.Len()
	return stats
}

// Close lets go of the folder. Models that were loaded stay usable.
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
		return nil, fmt.Errorf("mobility: %s has more than %d bytes; it is not a file of personal models, train again", name, limit)
	}
	return data, nil
}
