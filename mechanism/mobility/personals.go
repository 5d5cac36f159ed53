package mobility

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Personals are personal models over one popular model, by user id, all in memory. No ε protects
// them: they are for experiments. It is immutable and any number of goroutines may use it.
type Personals struct {
	id     string
	models map[string]*Personal
}

// personalsFile is the file of personal models: one JSON object. The models are made again when it
// is read, so it holds the counts alone.
type personalsFile struct {
	Popular string                    `json:"popular"` // id of the popular model
	Users   map[string]PersonalCounts `json:"users"`
}

// ErrForeignPersonal says that personal models belong to another popular model than the one they
// were read with.
var ErrForeignPersonal = errors.New("mobility: the personal models were learned over another " +
	"popular model; use that one, or train again")

// WritePersonals writes users' counts for [ReadPersonals]. It refuses counts that make no model.
func WritePersonals(w io.Writer, popular *Model, users map[string]PersonalCounts) error {
	if _, err := newPersonals(popular, users); err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(personalsFile{popular.ID(), users}); err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	return nil
}

// ReadPersonals reads the personal models over a popular model. r may yield any bytes. It returns
// [ErrForeignPersonal] for those over another one. Errors name no user. Memory: that of the file.
func ReadPersonals(r io.Reader, popular *Model) (*Personals, error) {
	var file personalsFile
	in := json.NewDecoder(r)
	in.DisallowUnknownFields()
	if err := in.Decode(&file); err != nil {
		return nil, errors.New("mobility: this is no whole file of personal models; copy it " +
			"again or train again")
	}
	if file.Popular != popular.ID() {
		return nil, fmt.Errorf("%w: it is %.16q, not %q", ErrForeignPersonal, file.Popular,
			popular.ID())
	}
	return newPersonals(popular, file.Users)
}

func newPersonals(popular *Model, users map[string]PersonalCounts) (*Personals, error) {
	p := &Personals{models: make(map[string]*Personal, len(users))}
	w := newHash()
	w.text("geodither personals 1")
	w.text(popular.ID())
	for _, user := range slices.Sorted(maps.Keys(users)) {
		m, err := NewPersonal(popular, users[user])
		if err != nil {
			return nil, err
		}
		p.models[user] = m
		w.text(user)
		w.text(m.ID())
	}
	p.id = w.id()
	return p, nil
}

// ID returns 16 hex digits: a hash of the popular model's id, of who has a personal model, and of
// the ids of all of these models.
func (p *Personals) ID() string { return p.id }

// Of returns a user's personal model, or nil if there is none.
func (p *Personals) Of(user string) *Personal { return p.models[user] }
